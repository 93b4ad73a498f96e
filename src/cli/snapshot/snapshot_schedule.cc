#include "snapshots/snapshot_schedule.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "base/yaml.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/keep_flags.h"

namespace csidelta::cli {
namespace {

class SnapshotScheduleCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    request_.group = "auto";
    table.AddPositionals("NAME", "the name of the schedule and of its CronJob, then the PVCs", 1,
                         kSnapshotIdsMax, names_);
    table.Add("--cron", "CRON",
              "when: five fields, \"0 3 * * *\", or @daily and the like (required)", request_.cron);
    table.Add("--time-zone", "ZONE",
              "the time zone of --cron, \"Europe/Berlin\" (default: the cluster's)",
              request_.time_zone);
    table.Add("--image", "IMAGE", "the plugin's image, which holds /bin/csi-delta (required)",
              request_.image);
    table.Add("--suspend", "suspend the CronJob: it starts nothing until you resume it",
              request_.is_suspended);
    table.Add("--statefulset", "NAME", "the PVCs of this StatefulSet",
              request_.selection.stateful_set);
    table.Add("--all", "all PVCs of the namespace", request_.selection.all);
    table.Add("--class", "CLASS", "the VolumeSnapshotClass (default: chosen as for backups)",
              request_.class_name);
    table.AddChoice("--group", {"auto", "always", "never"},
                    "take several PVCs at one instant, as with snapshot create", request_.group);
    table.Add("--note", "TEXT", "a remark to keep with each VolumeSnapshot", request_.note);
    DeclareKeepFlags(table, rules_, /*with_letters=*/false);
    return {.name = "snapshot schedule",
            .summary = "Print a CronJob that takes VolumeSnapshots and prunes them",
            .details =
                "Prints an account, its rights and a CronJob for kubectl apply -f -, and changes "
                "nothing itself. PVCs are chosen as by snapshot create, again at each start. With "
                "keep rules, each complete run prunes the snapshots of this schedule, and no "
                "others; days and hours are counted in UTC. To see what it would delete, give "
                "snapshot prune the same rules and -l snapshot.csi-delta.io/schedule=NAME. The "
                "ClusterRole csi-delta-snapshot-reader of deploy/snapshot-roles.yaml must be "
                "there. -o json prints one List.",
            .examples = {"snapshot schedule nightly data --cron @daily --image IMAGE -n shop",
                         "snapshot schedule hourly --all --cron @hourly --image IMAGE -n shop"}};
  }

  absl::StatusOr<ExitCode> Work() override {
    if (cluster().all_namespaces) {
      return absl::InvalidArgumentError(
          "-A is not for snapshot schedule; name a namespace with -n");
    }
    if (request_.cron.empty()) {
      return MissingFlag("--cron", "when to take them: \"0 3 * * *\" is at three each night");
    }
    if (request_.image.empty()) {
      return MissingFlag("--image", "the plugin's, as Velero's Deployment names it");
    }
    request_.name = names_.front();
    request_.selection.names.assign(names_.begin() + 1, names_.end());
    request_.selection.label_selector = cluster().selector;
    ASSIGN_OR_RETURN(request_.selection.namespace_name, cluster().Namespace());
    request_.keep_arguments = KeepArguments(rules_);
    ASSIGN_OR_RETURN(const snapshots::SnapshotSchedule schedule, snapshots::MakeSchedule(request_));
    Print(schedule);
    return ExitCode::kOk;
  }

 private:
  void Print(const snapshots::SnapshotSchedule& schedule) const {
    const std::string form = OutputForm(session());
    if (rules_.IsEmpty()) {
      console().Info("without a keep rule nothing is ever pruned");
    }
    if (form == "json") {
      Json items = Json::array();
      for (const objects::Object* const object : schedule.All()) {
        items.push_back(object->json());
      }
      console().PrintJson({{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}});
      return;
    }
    for (const objects::Object* const object : schedule.All()) {
      if (form == "name") {
        console().Print(
            absl::StrCat(absl::AsciiStrToLower(object->kind()), "/", object->name(), "\n"));
      } else {
        console().Print(absl::StrCat("---\n", ToYaml(object->json())));
      }
    }
  }

  snapshots::ScheduleRequest request_;
  KeepRules rules_;
  std::vector<std::string> names_;
};

}  // namespace

void AddSnapshotScheduleCommand(Commands& all) { AddEach<SnapshotScheduleCommand>(all); }

}  // namespace csidelta::cli
