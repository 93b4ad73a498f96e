#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "repository/format.h"

namespace csidelta::cli {
namespace {

class VersionCommand : public Command {
 public:
  VerbSyntax Declare() override {
    return {.name = "version", .summary = "Print the version of this program"};
  }

  absl::StatusOr<ExitCode> Run(const CallContext&, Session& session) override {
    const std::string program = ProgramVersion();
    session.console().PrintResult({{"message_type", "version"},
                                   {"version", program.substr(program.find(' ') + 1)},
                                   {"repository_version", repository::kRepositoryVersion}},
                                  absl::StrCat(program, "\n"));
    return ExitCode::kOk;
  }
};

}  // namespace

std::unique_ptr<Command> MakeVersionCommand() { return std::make_unique<VersionCommand>(); }

}  // namespace csidelta::cli
