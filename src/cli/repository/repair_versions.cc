#include <optional>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/text.h"
#include "repository/version_repair.h"

namespace csidelta::cli {
namespace {

class RepairVersionsCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--as-of", "TIME", "the time to go back to, like 2024-05-06T07:08:09Z", as_of_);
    table.Add("--hide-newer", "also hide what was put since then, with delete markers",
              options_.hide_newer);
    table.Add("-n,--dry-run", "only print what would be done", options_.dry_run);
    return {.name = "repair versions",
            .summary = "Bring back what was deleted or overwritten in a bucket with versions",
            .details =
                "Removes delete markers, and makes older versions the current ones, except those "
                "of lock files. It needs no key of the repository, deletes no data, and takes no "
                "lock: stop backups first, and run check afterwards. Ends with exit code 3 when an "
                "object could not be brought back.",
            .examples = {"repair versions --as-of 2026-11-21T13:05:00Z --dry-run",
                         "repair versions --as-of 2026-11-21T13:05:00Z --hide-newer"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    const std::optional<absl::Time> as_of = ParseRfc3339(as_of_);
    if (!as_of.has_value() || *as_of > ctx.clock->Now()) {
      return absl::InvalidArgumentError(
          "give a time of the past with --as-of, like 2024-05-06T07:08:09Z");
    }
    options_.as_of = *as_of;
    ASSIGN_OR_RETURN(storage::ObjectStore* const store,
                     session.engine().OpenLocation(ctx, /*read_only=*/options_.dry_run));
    ASSIGN_OR_RETURN(const repository::RepairVersionsResult result,
                     repository::RepairVersions(ctx, *store, options_));
    std::string text =
        absl::StrCat(Counted(result.objects, "object"), " were there: ", result.shown,
                     " shown again, ", result.restored, " put again, ", result.lost_count,
                     " failed; of what was put since, ", result.hidden, " hidden, ", result.newer,
                     " left", options_.dry_run ? " (dry run)" : "", "\n");
    for (const std::string& lost : result.lost) {
      absl::StrAppend(&text, lost, "\n");
    }
    session.console().PrintResult({{"message_type", "result"},
                                   {"dry_run", options_.dry_run},
                                   {"objects", result.objects},
                                   {"shown", result.shown},
                                   {"restored", result.restored},
                                   {"failed", result.lost_count},
                                   {"failures", result.lost},
                                   {"hidden", result.hidden},
                                   {"newer", result.newer}},
                                  text);
    return result.lost_count == 0 ? ExitCode::kOk : ExitCode::kIncomplete;
  }

 private:
  std::string as_of_;
  repository::RepairVersionsOptions options_;
};

}  // namespace

void AddRepairVersionsCommand(Commands& all) { AddEach<RepairVersionsCommand>(all); }

}  // namespace csidelta::cli
