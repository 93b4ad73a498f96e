#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "repository/lock_renewal.h"

namespace csidelta::cli {
namespace {

using repository::RenewLocksResult;

class ExtendLocksCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddParsed(
        "--renewed-at", "TIME",
        "when the last run with exit code 0 ended: only objects that became due since then "
        "are looked at; each is due once in half of the days",
        [this](const std::string& value) -> absl::Status {
          ASSIGN_OR_RETURN(options_.renewed_at, ParseMoment(value, absl::UTCTimeZone()));
          return absl::OkStatus();
        });
    return {
        .name = "extend-locks",
        .summary = "Extend the object locks of what snapshots need",
        .details =
            "An object lock ends at a fixed date. This verb sets a later one, s3.object-lock-days "
            "from now, for config, keys, index files, snapshots, sidecars and the packs that "
            "snapshots use. An object is skipped while at least half of these days will be left "
            "when it is due again. Run it once a day, with the options of your backups; with --pvc "
            "or --upload, the data mover's setting immutability is enough. Ends with exit code 3 "
            "when an object could not be extended, and names it.",
        .examples = {"extend-locks -o s3.object-lock-days=30 -o s3.object-lock-mode=COMPLIANCE",
                     "extend-locks --renewed-at 2026-11-21T13:05:00Z -o s3.object-lock-days=30"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(storage::StoreSettings settings,
                     MakeStoreSettings(session.options(), session.environment().get));
    if (session.options().in_cluster.are_given()) {  // Else its file may be a pipe, for Open().
      ASSIGN_OR_RETURN(const auto target, session.Target(ctx, LockKind::kWrite));
      settings = target.settings;
      if (target.location.kind == storage::Location::Kind::kAzure ||
          target.location.kind == storage::Location::Kind::kGoogle) {
        return absl::UnimplementedError("objects are locked in buckets of S3 alone");
      }
    }
    if (settings.s3.object_lock_mode.empty()) {
      return absl::InvalidArgumentError(
          "the mode and duration of object locks are missing; give -o "
          "s3.object-lock-mode=COMPLIANCE and -o s3.object-lock-days=DAYS");
    }
    options_.mode = settings.s3.object_lock_mode;
    options_.days = static_cast<int>(settings.s3.object_lock_duration / absl::Hours(24));
    ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
    ASSIGN_OR_RETURN(repository::Repository * repository, session.Open(ctx, LockKind::kWrite));
    options_.progress = CountsOf(meter);
    ASSIGN_OR_RETURN(const RenewLocksResult result,
                     repository::RenewLocks(ctx, *repository, options_));
    Report(session.console(), result);
    return result.failed == 0 && result.undecided.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
  }

 private:
  static void Report(Console& console, const RenewLocksResult& result) {
    const bool is_locked = result.earliest > absl::InfinitePast();
    const bool has_date = is_locked && result.earliest < absl::InfiniteFuture();
    std::string text = absl::StrCat(
        Counted(result.objects, "object"), " needed, ", result.due, " due: ", result.extended,
        " extended, ", result.skipped, " locked for long enough, ", result.failed, " failed; ",
        has_date    ? absl::StrCat("the first lock ends at ", FormatRfc3339Seconds(result.earliest))
        : is_locked ? std::string("none was due")
                    : std::string("at least one object is not locked"),
        "\n");
    for (const std::string& failure : result.failures) {
      absl::StrAppend(&text, failure, "\n");
    }
    if (!result.undecided.empty()) {
      absl::StrAppend(&text, "what snapshots need is unknown, so all objects were extended: ",
                      result.undecided, "\n");
    }
    console.PrintResult(
        {{"message_type", "result"},
         {"objects", result.objects},
         {"due", result.due},
         {"extended", result.extended},
         {"skipped", result.skipped},
         {"failed", result.failed},
         {"failures", result.failures},
         {"earliest", has_date ? Json(FormatRfc3339Seconds(result.earliest)) : Json(nullptr)},
         {"undecided", result.undecided},
         {"requests", result.requests}},
        text);
  }

  repository::RenewLocksOptions options_;
};

}  // namespace

void AddExtendLocksCommand(Commands& all) { AddEach<ExtendLocksCommand>(all); }

}  // namespace csidelta::cli
