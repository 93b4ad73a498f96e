#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"

namespace csidelta::cli {
namespace {

class InitCommand : public Command {
 public:
  VerbSyntax Declare() override {
    return {.name = "init",
            .summary = "Make a new repository",
            .details =
                "It is a repository of restic's format, version 2, with one key for the "
                "password. A lost password cannot be replaced: the data is lost with it.",
            .family = VerbFamily::kRepository};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    absl::StatusOr<repository::Repository*> made = session.Init(ctx);
    if (absl::IsAlreadyExists(made.status())) {
      return absl::AlreadyExistsError(absl::StrCat(
          made.status().message(), "; use it as it is, or give another place with --repo"));
    }
    RETURN_IF_ERROR(made.status());
    const std::string id = (*made)->config().id.Hex();
    session.console().PrintResult(
        {{"message_type", "initialized"}, {"id", id}, {"repository", session.place()}},
        absl::StrCat(
            "created repository ", id.substr(0, 10), " at ", session.place(),
            "\nWithout its password nothing in it can be read: keep a copy of it elsewhere.\n"));
    return ExitCode::kOk;
  }
};

}  // namespace

std::unique_ptr<Command> MakeInitCommand() { return std::make_unique<InitCommand>(); }

}  // namespace csidelta::cli
