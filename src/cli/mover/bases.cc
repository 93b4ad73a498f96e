#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/text.h"
#include "csi/base_snapshots.h"
#include "csi/environment.h"
#include "datamover/controller/service.h"
#include "datamover/records/base_use.h"
#include "datamover/settings.h"
#include "objects/client.h"

namespace csidelta::cli {
namespace {

using datamover::ListedBase;

constexpr int kContentsMax = 1000;  // that one command line names

// Which bases, of which mover.
struct BaseSelection {
  std::string namespace_name;  // of the PVC; "" for all
  std::string pvc;             // "" for all

  void Declare(ArgumentTable& table) {
    table.Add("-n,--namespace", "NS", "only those of PVCs in this namespace", namespace_name);
    table.Add("--pvc", "NAME", "only that of this PVC; with --namespace", pvc);
  }
  absl::Status Check() const {
    return !pvc.empty() && namespace_name.empty()
               ? absl::InvalidArgumentError(
                     "--pvc names a PVC of a namespace; give --namespace, too")
               : absl::OkStatus();
  }
  bool Selects(const csi::BaseOwner& owner) const {
    return (namespace_name.empty() || owner.claim_namespace == namespace_name) &&
           (pvc.empty() || owner.claim == pvc);
  }
};

// Of all PVCs. What decides over deletions may not be old.
absl::StatusOr<std::vector<ListedBase>> ListAllBases(const CallContext& ctx,
                                                     const ClusterOptions& cluster,
                                                     k8s::ApiClient& api, bool may_be_old) {
  ASSIGN_OR_RETURN(const std::vector<std::string> veleros,
                   datamover::ParseVeleroNamespaces(cluster.velero_namespaces));
  ASSIGN_OR_RETURN(const datamover::MoverSettings settings,
                   datamover::ReadMoverSettings(ctx, api, cluster.mover_namespace));
  return datamover::ListBasesWithUse(
      {.mover_namespace = cluster.mover_namespace,
       .velero_namespaces = {veleros.begin(), veleros.end()},
       .settings = settings,
       .now = ctx.clock->Now()},
      [&](const k8s::ResourceType& type, absl::string_view in_namespace) {
        return objects::List<objects::Object>(ctx, api, type, in_namespace,
                                              {.may_be_old = may_be_old});
      });
}

std::string UseText(const ListedBase& listed) {
  const std::string use = listed.is_in_use ? "an upload of its PVC is under way" : "";
  return listed.useless.has_value()
             ? absl::StrCat(listed.useless->message, use.empty() ? "" : "; ", use)
             : use;
}

std::string PvcOf(const csi::BaseSnapshot& base) {
  return absl::StrCat(base.owner.claim_namespace, "/", base.owner.claim);
}

Json ToJson(const ListedBase& listed, absl::Time now) {
  const csi::BaseSnapshot& base = listed.base;
  const std::optional<absl::Time> taken_at = base.taken_at();
  return {
      {"content", base.content_name},
      {"namespace", base.owner.claim_namespace},
      {"pvc", base.owner.claim},
      {"pvc_uid", base.owner.claim_uid},
      {"velero_namespace", base.owner.velero_namespace},
      {"location", base.owner.location},
      {"driver", base.driver},
      {"handle", base.snapshot_handle},
      {"taken_at", OrNull(taken_at)},
      {"age_seconds", taken_at.has_value()
                          ? Json(std::max<int64_t>(0, absl::ToInt64Seconds(now - *taken_at)))
                          : Json()},
      {"size_bytes", OrNull(base.size_bytes)},
      {"in_use", listed.is_in_use},
      {"reason", listed.useless.has_value() ? Json(std::string(listed.useless->code)) : Json()}};
}

class BasesListCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    selection_.Declare(table);
    return {.name = "bases list",
            .summary = "List the base snapshots that uploads are compared with",
            .details =
                "Each with its PVC, driver, age and BackupStorageLocation, the size of its volume, "
                "and the reason if it is unused. The data mover drops unused bases by itself; "
                "after an hour if a Backup or a BackupStorageLocation was not found.",
            .examples = {"bases list", "bases list -n shop --pvc data"}};
  }

  absl::StatusOr<ExitCode> Work() override {
    RETURN_IF_ERROR(selection_.Check());
    ASSIGN_OR_RETURN(const std::vector<ListedBase> all,
                     ListAllBases(ctx(), cluster(), api(), /*may_be_old=*/true));
    const absl::Time now = ctx().clock->Now();
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows = {
        {"Content", "PVC", "Driver", "Taken at", "Age", "Size", "Location", "Of no use"}};
    for (const ListedBase& listed : all) {
      const csi::BaseSnapshot& base = listed.base;
      if (!selection_.Selects(base.owner)) {
        continue;
      }
      const std::optional<absl::Time> taken_at = base.taken_at();
      list.push_back(ToJson(listed, now));
      rows.push_back(
          {base.content_name, PvcOf(base), base.driver,
           taken_at.has_value() ? FormatRfc3339(*taken_at) : "", FormatAge(taken_at, now),
           base.size_bytes.has_value() ? FormatBytes(*base.size_bytes) : "",
           absl::StrCat(base.owner.velero_namespace, "/", base.owner.location), UseText(listed)});
    }
    console().PrintResult(list, rows.size() == 1 ? "no base snapshots\n" : FormatTable(rows));
    return ExitCode::kOk;
  }

 private:
  BaseSelection selection_;
};

class BasesDropCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  absl::Status CheckFlags() const;
  absl::StatusOr<std::vector<ListedBase>> Choose(std::vector<ListedBase> all) const;
  absl::Status Drop(const ListedBase& listed) const;
  void Report(absl::string_view result, const ListedBase& listed, absl::string_view error) const;

  BaseSelection selection_;
  std::vector<std::string> contents_;
  bool unused_ = false;
  bool yes_ = false;
};

VerbSyntax BasesDropCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("CONTENT",
                       "the VolumeSnapshotContents of the base snapshots, as bases list has them",
                       0, kContentsMax, contents_);
  selection_.Declare(table);
  table.Add("--unused", "only those that bases list shows as unused", unused_);
  table.Add("--yes", "do it (default: only print what would be done)", yes_);
  return {.name = "bases drop",
          .summary = "Drop base snapshots, and the driver's snapshots with them",
          .details =
              "The next backup of such a PVC is a full one. Backups stay as they are. Name the "
              "contents, or choose them by --namespace, --pvc and --unused. A base stays while an "
              "upload of its PVC is under way; exit code 3 then.",
          .examples = {"bases drop --unused  # prints what would go", "bases drop -n shop --yes"}};
}

absl::Status BasesDropCommand::CheckFlags() const {
  RETURN_IF_ERROR(selection_.Check());
  const bool chooses = unused_ || !selection_.namespace_name.empty();
  if (contents_.empty() && !chooses) {
    return absl::InvalidArgumentError("nothing is named; give CONTENTs, --namespace or --unused");
  }
  return contents_.empty() || !chooses
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "both CONTENTs and --namespace or --unused are given; leave one of them out");
}

absl::StatusOr<std::vector<ListedBase>> BasesDropCommand::Choose(
    std::vector<ListedBase> all) const {
  if (contents_.empty()) {
    std::erase_if(all, [this](const ListedBase& listed) {
      return !selection_.Selects(listed.base.owner) || (unused_ && !listed.useless.has_value());
    });
    return all;
  }
  std::vector<ListedBase> chosen;
  for (const std::string& name : std::set<std::string>(contents_.begin(), contents_.end())) {
    const auto found = std::find_if(all.begin(), all.end(), [&name](const ListedBase& listed) {
      return listed.base.content_name == name;
    });
    if (found == all.end()) {
      return absl::NotFoundError(absl::StrCat("base snapshot ", name,
                                              " was not found, and nothing was dropped; csi-delta "
                                              "bases list has all"));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

absl::StatusOr<ExitCode> BasesDropCommand::Work() {
  RETURN_IF_ERROR(CheckFlags());
  ASSIGN_OR_RETURN(std::vector<ListedBase> all,
                   ListAllBases(ctx(), cluster(), api(), /*may_be_old=*/!yes_));
  ASSIGN_OR_RETURN(const std::vector<ListedBase> chosen, Choose(std::move(all)));
  int64_t stay = 0;
  for (const ListedBase& listed : chosen) {
    if (listed.is_in_use) {
      ++stay;
      Report("stays", listed, "an upload of its PVC is under way");
      continue;
    }
    if (!yes_) {
      Report("would be dropped", listed, "");
      continue;
    }
    const absl::Status dropped = Drop(listed);
    stay += dropped.ok() ? 0 : 1;
    Report(dropped.ok() ? "dropped" : "stays", listed, dropped.message());
  }
  const int64_t goes = static_cast<int64_t>(chosen.size()) - stay;
  console().PrintResult(
      {{"message_type", "result"}, {"dry_run", !yes_}, {"bases", goes}, {"stay", stay}},
      chosen.empty() ? "no base snapshots to drop\n"
      : yes_ ? absl::StrCat("dropped ", Counted(goes, "base snapshot"), ", kept ", stay, "\n")
             : absl::StrCat("would drop ", Counted(goes, "base snapshot"), ", keep ", stay,
                            "; run it again with --yes\n"));
  return stay == 0 ? ExitCode::kOk : ExitCode::kIncomplete;
}

absl::Status BasesDropCommand::Drop(const ListedBase& listed) const {
  const csi::Environment env{.api = api(),
                             .clock = *ctx().clock,
                             .random = random(),
                             .velero_namespace = listed.base.owner.velero_namespace};
  ASSIGN_OR_RETURN(const bool dropped, csi::DropBase(ctx(), env, listed.base.content_name));
  return dropped ? absl::OkStatus()
                 : absl::FailedPreconditionError("a PVC is being filled from it; run it again");
}

void BasesDropCommand::Report(absl::string_view result, const ListedBase& listed,
                              absl::string_view error) const {
  console().PrintResult({{"message_type", "base"},
                         {"result", std::string(result)},
                         {"content", listed.base.content_name},
                         {"namespace", listed.base.owner.claim_namespace},
                         {"pvc", listed.base.owner.claim},
                         {"error", std::string(error)}},
                        absl::StrCat(result, "  ", listed.base.content_name, " of PVC ",
                                     PvcOf(listed.base), error.empty() ? "" : ": ", error, "\n"));
}

}  // namespace

void AddBasesCommands(Commands& all) { AddEach<BasesListCommand, BasesDropCommand>(all); }

}  // namespace csidelta::cli
