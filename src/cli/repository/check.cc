#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/check_text.h"
#include "cli/text.h"
#include "engine/check.h"

namespace csidelta::cli {
namespace {

using repository::CheckReport;

Json FindingJson(const repository::Finding& finding) {
  return {{"message_type", "finding"}, {"kind", std::string(repository::NameOf(finding.kind))},
          {"error", finding.is_error}, {"thing", finding.thing},
          {"detail", finding.detail},  {"next_step", finding.next_step}};
}

// Each whole id as people see ids.
std::string ShortenIds(const std::string& text) {
  std::vector<std::pair<absl::string_view, std::string>> ids;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" :;,/"))) {
    if (const auto id = repository::Id::Parse(word); id.ok()) {
      ids.emplace_back(word, id->ShortHex());
    }
  }
  return absl::StrReplaceAll(text, ids);
}

std::string FindingText(const repository::Finding& finding) {
  return absl::StrCat(finding.is_error ? "error: " : "note: ",
                      ShortenIds(absl::StrCat(finding.thing, ": ", finding.detail)), "\n");
}

Json ReportJson(const CheckReport& report, uint64_t seed) {
  return {{"message_type", "result"},
          {"num_errors", report.errors},
          {"notes", report.notes},
          {"complete", report.complete},
          {"snapshots", report.snapshots},
          {"index_files", report.index_files},
          {"packs", report.packs},
          {"blobs", report.blobs},
          {"trees", report.trees},
          {"packs_read", report.packs_read},
          {"bytes_read", report.bytes_read},
          {"packs_skipped_recent", report.packs_recent},
          {"bytes_skipped_recent", report.bytes_recent},
          {"packs_skipped_subset", report.packs_unchosen},
          {"bytes_skipped_subset", report.bytes_unchosen},
          {"not_recorded", report.not_recorded},
          {"scratch_bytes", report.scratch_bytes},
          {"unrestorable", HexOf(report.unrestorable)},
          {"next_step", report.next_step},
          {"seed", absl::StrCat(seed)}};
}

std::string ReadText(const CheckReport& report) {
  if (report.packs_read == 0 && report.packs_recent == 0) {
    return "data was not read";
  }
  std::string text = absl::StrCat(
      report.packs_read == report.packs ? "all data was read: " : "data read: ", report.packs_read,
      " of ", Counted(report.packs, "pack"), ", ", FormatBytes(report.bytes_read));
  const auto add_skipped = [&text](int64_t packs, int64_t bytes, absl::string_view why) {
    if (packs > 0) {
      absl::StrAppend(&text, "\nskipped: ", Counted(packs, "pack"), ", ", FormatBytes(bytes), ", ",
                      why);
    }
  };
  add_skipped(report.packs_recent, report.bytes_recent, "verified not so long ago");
  add_skipped(report.packs_unchosen, report.bytes_unchosen, "not in the subset");
  if (!report.not_recorded.empty()) {
    absl::StrAppend(&text, "\nnot recorded in the repository: ", report.not_recorded);
  }
  return text;
}

// Which snapshots the damage concerns.
std::string UnrestorableText(const CheckReport& report) {
  if (report.ok() || !report.complete) {
    return "";
  }
  if (report.unrestorable.empty()) {
    return "every snapshot can be restored\n";
  }
  const int64_t others =
      report.snapshots + std::ssize(report.unreadable) - std::ssize(report.unrestorable);
  return absl::StrCat(
      "cannot be restored: ", others == 0 ? "all, which are " : "",
      absl::StrJoin(report.unrestorable, ", ",
                    [](std::string* out, const repository::Id& id) { out->append(id.ShortHex()); }),
      others == 0 ? ""
                  : absl::StrCat("; no damage found in ", others, " other", others == 1 ? "" : "s"),
      "\n");
}

class CheckCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--read-data", "read all data and verify it", read_data_);
    table.Add("--read-data-subset", "PART",
              "read some: \"2/7\" the second of seven parts, \"10%\" or \"500M\" drawn at random",
              subset_);
    table.AddParsed("--read-data-older-than", "AGE",
                    "read only what was last verified so long ago, or never: \"30d\", \"1m\" a "
                    "month, \"12h\"; with --read-data-subset, that part of it",
                    [this](const std::string& value) -> absl::Status {
                      ASSIGN_OR_RETURN(older_than_, ParseCalendarSpan(value));
                      return absl::OkStatus();
                    });
    return {.name = "check",
            .summary = "Verify that the repository is complete and undamaged",
            .details =
                "Ends with exit code 1 when something is damaged. With --no-lock a backup "
                "or prune that is under way may look like damage.\n\nA check that reads data "
                "records in the repository when it verified each pack. csi-delta snapshots and "
                "show print since when all of a snapshot is verified.",
            .examples = {"check", "check --read-data-subset 10%",
                         "check --read-data-older-than 30d  # so each pack is read once a month"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    engine::CheckJob job;
    RETURN_IF_ERROR(ChooseSubset(job));
    if (older_than_.has_value()) {
      job.read_older_than = GoBack(ctx.clock->Now(), *older_than_, absl::LocalTimeZone());
    }
    ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
    ASSIGN_OR_RETURN(const engine::CheckOutcome outcome,
                     engine::RunCheck(ctx, session.engine(), job, CountsOf(meter)));
    for (const repository::Finding& finding : outcome.report.findings) {
      session.console().PrintResult(FindingJson(finding), FindingText(finding));
    }
    session.console().PrintResult(ReportJson(outcome.report, outcome.seed),
                                  CheckText(outcome.report));
    return outcome.report.ok() ? ExitCode::kOk : ExitCode::kFailed;
  }

 private:
  absl::Status ChooseSubset(engine::CheckJob& job) const {
    if (read_data_ && !subset_.empty()) {
      return absl::InvalidArgumentError(
          "both --read-data and --read-data-subset are given; leave one of them out");
    }
    if (read_data_ || (older_than_.has_value() && subset_.empty())) {
      job.read_data = repository::ReadEverything{};
    } else if (!subset_.empty()) {
      ASSIGN_OR_RETURN(job.read_data, repository::ParseDataSubset(subset_));
    }
    return absl::OkStatus();
  }

  bool read_data_ = false;
  std::string subset_;
  std::optional<CalendarSpan> older_than_;
};

}  // namespace

std::string CheckText(const CheckReport& report) {
  const std::string repair =
      absl::StrCat("csi-delta repair ", report.packs_read > 0 ? "--read-data " : "");
  const bool backs_up = absl::StrContains(report.next_step, " backup ");
  return absl::StrCat(
      report.ok() ? "no errors" : Counted(report.errors, "error"), " in ",
      Counted(report.snapshots, "snapshot"), ", ", Counted(report.packs, "pack"), ", ",
      Counted(report.blobs, "blob"), " and ", Counted(report.trees, "tree"), "\n", ReadText(report),
      "\n", UnrestorableText(report),
      report.lacks_chunks ? absl::StrCat("what is lost may be in an image of the volume: ", repair,
                                         "--from IMAGE\n")
                          : "",
      report.ok() ? "" : absl::StrCat("next: ", report.next_step, "\n"),
      backs_up ? absl::StrCat("without the volume, remove what cannot be restored: ", repair,
                              "--forget\n")
               : "");
}

void AddCheckCommand(Commands& all) { AddEach<CheckCommand>(all); }

}  // namespace csidelta::cli
