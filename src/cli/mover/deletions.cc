#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/text.h"
#include "objects/client.h"
#include "objects/data_deletion.h"
#include "objects/keys.h"
#include "objects/patch.h"

namespace csidelta::cli {
namespace {

using objects::DataDeletion;
using objects::DeletionPhase;

constexpr int kNamesMax = 1000;

// INVALID_ARGUMENT if the mover's namespace is given, which decides nothing here: -n is an earlier
// name of that flag, and of another namespace in most programs.
absl::StatusOr<std::string> VeleroNamespace(const ClusterOptions& cluster) {
  if (cluster.mover_namespace != ClusterOptions().mover_namespace) {
    return absl::InvalidArgumentError(
        "DataDeletions are in Velero's namespace: name it with --velero-namespace, not with -n");
  }
  return cluster.OneVelero();
}

// The DataDeletions of one Velero.
absl::StatusOr<std::vector<DataDeletion>> ListDeletions(const CallContext& ctx, k8s::ApiClient& api,
                                                        const std::string& velero_namespace) {
  return objects::List<DataDeletion>(
      ctx, api, velero_namespace, {.label_selector = "", .field_selector = "", .may_be_old = true});
}

std::string PhaseOf(const DataDeletion& deletion) {
  const std::string phase = objects::ToString(deletion.phase());
  return phase.empty() ? "New" : phase;
}

std::vector<std::string> RowOf(const DataDeletion& deletion) {
  const objects::DataDeletionStatus status = deletion.status();
  return {absl::StrCat(" ", deletion.name()),
          PhaseOf(deletion),
          deletion.spec().location,
          deletion.spec().backup,
          absl::StrCat(status.attempts),
          status.trouble_since.has_value() ? FormatRfc3339(*status.trouble_since) : "",
          status.message};
}

Json ToJson(const DataDeletion& deletion) {
  const objects::DataDeletionStatus status = deletion.status();
  return {{"namespace", deletion.namespace_name()},
          {"name", deletion.name()},
          {"phase", PhaseOf(deletion)},
          {"location", deletion.spec().location},
          {"backup", deletion.spec().backup},
          {"attempts", status.attempts},
          {"trouble", objects::ToString(status.trouble)},
          {"trouble_since",
           status.trouble_since.has_value() ? FormatRfc3339(*status.trouble_since) : ""},
          {"message", status.message}};
}

class DeletionsListCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--all", "also those that are done; they are listed for a day", all_);
    return {.name = "deletions list",
            .summary = "List the DataDeletions that are not done, and why",
            .details =
                "A DataDeletion removes the data of a deleted backup. If it is New, it waits for a "
                "worker, which removes all that is due in one repository. If it is Failed, it was "
                "given up, or it names no data of csi-delta; deletions retry requests it again.",
            .examples = {"deletions list", "deletions list --all --velero-namespace velero-two"}};
  }

  absl::StatusOr<ExitCode> Work() override {
    ASSIGN_OR_RETURN(const std::string velero, VeleroNamespace(cluster()));
    ASSIGN_OR_RETURN(const std::vector<DataDeletion> deletions,
                     ListDeletions(ctx(), api(), velero));
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows = {
        {" Name", "Phase", "Location", "Backup", "Attempts", "Failing since", "Message"}};
    for (const DataDeletion& deletion : deletions) {
      if (all_ || deletion.phase() != DeletionPhase::kCompleted) {
        list.push_back(ToJson(deletion));
        rows.push_back(RowOf(deletion));
      }
    }
    console().PrintResult(list, list.empty() ? "no data is to be deleted\n" : FormatTable(rows));
    return ExitCode::kOk;
  }

 private:
  bool all_ = false;
};

class DeletionsRetryCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddPositionals("NAME", "the DataDeletions to retry", 0, kNamesMax, names_);
    table.Add("--all", "each that failed or is tried again later", all_);
    return {.name = "deletions retry",
            .summary = "Retry DataDeletions that were given up, or wait for their next attempt",
            .details =
                "Sets the annotation mover.csi-delta.io/retry, which the data mover removes when "
                "it makes the next attempt due. Those that are done are left alone.",
            .examples = {"deletions retry --all", "deletions retry nightly-1-x7k2p"}};
  }

  absl::StatusOr<ExitCode> Work() override {
    if (all_ != names_.empty()) {
      return absl::InvalidArgumentError("give either names or --all");
    }
    ASSIGN_OR_RETURN(const std::string velero, VeleroNamespace(cluster()));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(velero));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(
          objects::Apply(ctx(), api(), DataDeletion::Key(velero, name),
                         objects::Patch().SetAnnotation(objects::kRetryAnnotation,
                                                        FormatRfc3339(ctx().clock->Now()))));
    }
    console().PrintResult({{"message_type", "deletions_retried"}, {"names", names}},
                          absl::StrCat("retried ", names.size(), " DataDeletions\n"));
    return ExitCode::kOk;
  }

 private:
  absl::StatusOr<std::vector<std::string>> Names(const std::string& velero) const {
    if (!all_) {
      return names_;
    }
    ASSIGN_OR_RETURN(const std::vector<DataDeletion> deletions,
                     ListDeletions(ctx(), api(), velero));
    std::vector<std::string> names;
    for (const DataDeletion& deletion : deletions) {
      if (deletion.phase() == DeletionPhase::kFailed ||
          deletion.phase() == DeletionPhase::kWaiting) {
        names.push_back(deletion.name());
      }
    }
    return names;
  }

  std::vector<std::string> names_;
  bool all_ = false;
};

}  // namespace

void AddDeletionsCommands(Commands& all) {
  AddEach<DeletionsListCommand, DeletionsRetryCommand>(all);
}

}  // namespace csidelta::cli
