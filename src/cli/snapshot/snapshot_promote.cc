#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "objects/client.h"
#include "objects/volume_snapshot.h"
#include "snapshots/borrowed_snapshot.h"
#include "snapshots/promotion.h"
#include "snapshots/promotion_check.h"

namespace csidelta::cli {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;
using snapshots::Promotion;
using snapshots::PvcState;

constexpr absl::Duration kPromotionTimeout = absl::Minutes(5);

// One PVC to print, made or not.
struct PromotedPvc {
  snapshots::PlannedPvc plan;
  std::string snapshot;  // namespace/name
  PvcState state = PvcState::kPlanned;
  std::optional<PersistentVolumeClaim> pvc = {};  // once it is made
};

PromotedPvc Planned(const Promotion& promotion) {
  return {.plan = promotion.pvc,
          .snapshot =
              absl::StrCat(promotion.snapshot.namespace_name(), "/", promotion.snapshot.name())};
}

std::optional<absl::Time> BoundAt(const PromotedPvc& one) {
  return one.pvc.has_value() ? one.pvc->bound_at() : std::nullopt;
}

int64_t SizeOf(const PromotedPvc& one) {
  return one.pvc.has_value() ? one.pvc->capacity_bytes().value_or(one.plan.size_bytes)
                             : one.plan.size_bytes;
}

Json PromotedJson(const PromotedPvc& one) {
  return {{"name", one.plan.name},
          {"namespace", one.plan.namespace_name},
          {"uid", one.pvc.has_value() ? one.pvc->uid() : ""},
          {"state", snapshots::ToString(one.state)},
          {"bound_at", OrNull(BoundAt(one))},
          {"size_bytes", SizeOf(one)},
          {"storage_class", one.plan.storage_class},
          {"mode", objects::ToString(one.plan.mode)},
          {"access_modes", one.plan.access_modes},
          {"snapshot", one.snapshot}};
}

std::vector<std::string> PromotedRow(const PromotedPvc& one) {
  const std::optional<absl::Time> bound_at = BoundAt(one);
  return {one.plan.name,
          std::string(snapshots::ToString(one.state)),
          bound_at.has_value() ? FormatMoment(*bound_at) : "",
          FormatBytes(SizeOf(one)),
          one.plan.storage_class,
          std::string(objects::ToString(one.plan.mode)),
          absl::StrJoin(one.plan.access_modes, ","),
          one.snapshot};
}

void ReportPromoted(Session& session, const std::vector<PromotedPvc>& all) {
  PrintClusterList(session, {.count = all.size(),
                             .columns = {"PVC", "STATE", "BOUND AT", "SIZE", "CLASS", "MODE",
                                         "ACCESS", "MADE OF"},
                             .row = [&](std::size_t i) { return PromotedRow(all[i]); },
                             .value = [&](std::size_t i) { return PromotedJson(all[i]); },
                             .name =
                                 [&](std::size_t i) {
                                   return absl::StrCat("persistentvolumeclaim/", all[i].plan.name);
                                 }});
}

// OK if the plan has no refusals. kTargetTooSmall if a larger size would solve all of them.
absl::Status RefusedStatus(const snapshots::PromotionPlan& plan) {
  std::vector<std::string> texts;
  bool is_size_alone = true;
  for (const Promotion& promotion : plan.promotions) {
    std::vector<std::string> messages;
    for (const Finding& refusal : promotion.refusals) {
      messages.push_back(refusal.message);
      is_size_alone &= refusal.code == snapshots::kTooSmallCode;
    }
    if (!messages.empty()) {
      texts.push_back(absl::StrCat("PVC ", promotion.pvc.name, " cannot be made of VolumeSnapshot ",
                                   promotion.snapshot.name(), ": ",
                                   absl::StrJoin(messages, "; and ")));
    }
  }
  if (texts.empty()) {
    return absl::OkStatus();
  }
  absl::Status refused = absl::FailedPreconditionError(absl::StrJoin(texts, "; "));
  return is_size_alone ? AsTargetTooSmall(std::move(refused)) : refused;
}

// Shows how long an object is waited for, and for what. Borrows `meter`.
snapshots::WaitObserver WaitReporter(ProgressMeter& meter, absl::string_view kind,
                                     absl::string_view space, absl::string_view name) {
  return [&meter, subject = absl::StrCat(kind, " ", space, "/", name)](
             absl::string_view state, absl::string_view waits_for) {
    meter.ReportWait(subject, state, waits_for);
  };
}

class SnapshotPromoteCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;

  absl::StatusOr<ExitCode> Work() override {
    RETURN_IF_ERROR(CheckFlags());
    ASSIGN_OR_RETURN(namespace_, OneNamespace(cluster(), "snapshot promote"));
    const CallContext limited = ctx().WithTimeout(*timeout_);
    return from_namespace_.empty() ? Promote(limited) : Borrow(limited);
  }

 private:
  absl::Status CheckFlags() const;
  absl::Status CheckNaming() const;
  std::string pvc_name() const { return names_.size() > 1 ? names_[1] : ""; }
  snapshots::PvcOptions OptionsOf(std::string name) const;

  absl::StatusOr<std::vector<VolumeSnapshot>> ReadSnapshots(const CallContext& limited,
                                                            ProgressMeter& meter) const;
  absl::StatusOr<std::vector<snapshots::PromotionTarget>> Targets(
      std::vector<VolumeSnapshot> snapshots) const;
  absl::StatusOr<ExitCode> Promote(const CallContext& limited) const;
  absl::Status Await(const CallContext& limited, ProgressMeter& meter, const Promotion& promotion,
                     PromotedPvc& one, std::vector<std::string>& notes) const;
  absl::StatusOr<ExitCode> Borrow(const CallContext& limited) const;

  std::vector<std::string> names_;
  std::string set_;
  std::optional<std::string> storage_class_;
  std::optional<int64_t> size_bytes_;
  std::string mode_;
  std::vector<std::string> access_modes_;
  std::string labels_of_;
  snapshots::PvcNaming naming_;
  int64_t ordinal_ = -1;
  std::string from_namespace_;
  bool wait_ = false;
  std::optional<absl::Duration> timeout_ = kPromotionTimeout;
  bool dry_run_ = false;
  std::string namespace_;
};

VerbSyntax SnapshotPromoteCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("NAME", "the VolumeSnapshot, and the name of the PVC (default: the same)", 0,
                       2, names_);
  table.Add("--set", "SET", "all VolumeSnapshots that were taken together under this name", set_);
  table.Add("--replica-of", "STATEFULSET",
            "call each PVC as this StatefulSet looks for it: TEMPLATE-STATEFULSET-ORDINAL",
            naming_.replica_of);
  table.AddNumber("--ordinal", "N",
                  "with --replica-of: of this Pod (default: that of the source PVC)", 0, 1'000'000,
                  ordinal_);
  table.Add("--pvc-prefix", "TEXT", "call each PVC as its source, preceded by this",
            naming_.prefix);
  table.Add("--pvc-suffix", "TEXT", "call each PVC as its source, followed by this",
            naming_.suffix);
  table.AddParsed(
      "--storage-class", "CLASS",
      "of the PVC (default: that of the source PVC, else the driver's default or only one)",
      [this](const std::string& value) {
        storage_class_ = value;
        return absl::OkStatus();
      });
  table.AddParsed("--size", "SIZE",
                  "size of the PVC, such as 10Gi (default: what the VolumeSnapshot needs, or the "
                  "request of the source PVC if that is more)",
                  [this](const std::string& value) -> absl::Status {
                    ASSIGN_OR_RETURN(const int64_t bytes, ParseQuantity(value));
                    size_bytes_ = bytes;
                    return absl::OkStatus();
                  });
  table.AddChoice("--mode", {"Filesystem", "Block"},
                  "the volume mode (default: that of the source)", mode_);
  table.AddList("--access", "MODE",
                "an access mode (default: those of the source PVC, else ReadWriteOnce)",
                access_modes_);
  table.Add("--labels-of", "PVC", "give each PVC the labels of this one", labels_of_);
  table.Add(
      "--from-namespace", "NS",
      "the VolumeSnapshot is in that namespace; needs rights on both, and waits as with --wait",
      from_namespace_);
  table.Add("--wait",
            "wait until the VolumeSnapshots are ready, and then until the PVCs are bound, but for "
            "those that wait for their first consumer",
            wait_);
  table.AddWait("--timeout", "how long to wait", timeout_);
  table.Add("--dry-run", "check all, and print what would be made", dry_run_);
  return {.name = "snapshot promote",
          .summary = "Make PVCs of VolumeSnapshots",
          .details =
              "First checks what the provisioner would report in an event only: whether the "
              "VolumeSnapshot is ready and its content names it, driver and StorageClass, size, "
              "mode and name. Of a set, all PVCs are made or none. Uses your own rights: what they "
              "do not allow to read is named on stderr and not checked. Exit code 22 when --size "
              "is too small.",
          .examples = {"snapshot promote data-20261121-130500 data-copy -n shop",
                       "snapshot promote --set before-upgrade --pvc-suffix=-old -n shop --wait"}};
}

absl::Status SnapshotPromoteCommand::CheckFlags() const {
  if (names_.empty() == set_.empty()) {
    return absl::InvalidArgumentError("name either one VolumeSnapshot or, with --set, a set");
  }
  if (size_bytes_.has_value() && *size_bytes_ <= 0) {
    return absl::InvalidArgumentError("--size is not more than 0; give one as 10Gi");
  }
  return CheckNaming();
}

absl::Status SnapshotPromoteCommand::CheckNaming() const {
  const bool has_parts = !naming_.prefix.empty() || !naming_.suffix.empty();
  const bool has_rule = has_parts || !naming_.replica_of.empty();
  if (ordinal_ >= 0 && naming_.replica_of.empty()) {
    return absl::InvalidArgumentError("--ordinal goes with --replica-of; name the StatefulSet");
  }
  if (has_parts && !naming_.replica_of.empty()) {
    return absl::InvalidArgumentError(
        "--replica-of and --pvc-prefix or --pvc-suffix name the PVC twice; leave one out");
  }
  if (has_rule && !pvc_name().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("PVC ", pvc_name(),
                                                   " is named, and a rule for its name is given; "
                                                   "leave one out"));
  }
  if (!from_namespace_.empty() && (has_rule || !set_.empty())) {
    return absl::InvalidArgumentError(
        "--from-namespace takes one VolumeSnapshot by its name; name the PVC, too");
  }
  return absl::OkStatus();
}

snapshots::PvcOptions SnapshotPromoteCommand::OptionsOf(std::string name) const {
  return {.namespace_name = namespace_,
          .name = std::move(name),
          .storage_class = storage_class_,
          .size_bytes = size_bytes_,
          .mode = objects::ParseVolumeMode(mode_),
          .access_modes = access_modes_};
}

absl::StatusOr<std::vector<VolumeSnapshot>> SnapshotPromoteCommand::ReadSnapshots(
    const CallContext& limited, ProgressMeter& meter) const {
  std::vector<VolumeSnapshot> snapshots;
  if (!set_.empty()) {
    ASSIGN_OR_RETURN(snapshots, snapshots::SnapshotsOfSet(limited, api(), namespace_, set_));
  } else {
    const k8s::ObjectKey key = VolumeSnapshot::Key(namespace_, names_.front());
    ASSIGN_OR_RETURN(std::optional<VolumeSnapshot> found,
                     objects::Find<VolumeSnapshot>(limited, api(), key));
    if (!found.has_value()) {
      return OrUnserved(limited, api(), key,
                        absl::NotFoundError(absl::StrCat(
                            "VolumeSnapshot ", namespace_, "/", names_.front(),
                            " does not exist; csi-delta snapshot list shows those that do")));
    }
    snapshots.push_back(*std::move(found));
  }
  for (VolumeSnapshot& snapshot : snapshots) {
    if (wait_ && !dry_run_ && !snapshot.is_ready()) {
      ASSIGN_OR_RETURN(snapshot,
                       snapshots::AwaitUsableSnapshot(
                           limited, api(), namespace_, snapshot.name(),
                           WaitReporter(meter, "VolumeSnapshot", namespace_, snapshot.name())));
    }
  }
  return snapshots;
}

absl::StatusOr<std::vector<snapshots::PromotionTarget>> SnapshotPromoteCommand::Targets(
    std::vector<VolumeSnapshot> snapshots) const {
  snapshots::PvcNaming naming = naming_;
  if (ordinal_ >= 0) {
    naming.ordinal = ordinal_;
  }
  std::vector<snapshots::PromotionTarget> targets;
  targets.reserve(snapshots.size());
  for (VolumeSnapshot& snapshot : snapshots) {
    std::string name = pvc_name();
    if (name.empty()) {
      ASSIGN_OR_RETURN(name, snapshots::PvcNameFor(snapshot, naming));
    }
    targets.push_back({.snapshot = std::move(snapshot), .options = OptionsOf(std::move(name))});
  }
  return targets;
}

absl::Status SnapshotPromoteCommand::Await(const CallContext& limited, ProgressMeter& meter,
                                           const Promotion& promotion, PromotedPvc& one,
                                           std::vector<std::string>& notes) const {
  ASSIGN_OR_RETURN(
      snapshots::AwaitedPvc awaited,
      snapshots::AwaitPvc(
          limited, api(), *one.pvc,
          {.source = promotion.snapshot,
           .driver = promotion.content.has_value() ? promotion.content->driver() : "",
           .waits_for_first_consumer = promotion.waits_for_first_consumer,
           .on_look = WaitReporter(meter, "PVC", one.plan.namespace_name, one.plan.name)},
          notes));
  one.pvc = std::move(awaited.pvc);
  one.state = awaited.state;
  if (one.state == PvcState::kWaitsForFirstConsumer) {
    notes.push_back(absl::StrCat("PVC ", one.plan.name,
                                 " is bound once a Pod uses it: StorageClass ",
                                 one.plan.storage_class, " waits for that"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> SnapshotPromoteCommand::Promote(const CallContext& limited) const {
  ProgressMeter meter(console(), *ctx().clock);
  ASSIGN_OR_RETURN(std::vector<VolumeSnapshot> snapshots, ReadSnapshots(limited, meter));
  ASSIGN_OR_RETURN(std::vector<snapshots::PromotionTarget> targets, Targets(std::move(snapshots)));
  ASSIGN_OR_RETURN(const snapshots::PromotionPlan plan,
                   snapshots::PlanPromotions(
                       ctx(), api(), {.targets = std::move(targets), .labels_of = labels_of_}));
  console().InfoAll(plan.not_checked);
  RETURN_IF_ERROR(RefusedStatus(plan));
  std::vector<PromotedPvc> all;
  all.reserve(plan.promotions.size());
  std::transform(plan.promotions.begin(), plan.promotions.end(), std::back_inserter(all), Planned);
  absl::Status first_error;
  if (!dry_run_) {
    ASSIGN_OR_RETURN(const std::vector<PersistentVolumeClaim> made,
                     snapshots::MakePvcs(ctx(), api(), plan));
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].pvc = made[i];
      all[i].state = plan.promotions[i].waits_for_first_consumer ? PvcState::kWaitsForFirstConsumer
                                                                 : PvcState::kPending;
    }
    for (std::size_t i = 0; wait_ && i < all.size(); ++i) {
      first_error.Update(Await(limited, meter, plan.promotions[i], all[i], notes));
    }
    console().InfoAll(notes);
  }
  ReportPromoted(session(), all);
  RETURN_IF_ERROR(first_error);
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> SnapshotPromoteCommand::Borrow(const CallContext& limited) const {
  const std::string name = pvc_name().empty() ? names_.front() : pvc_name();
  ASSIGN_OR_RETURN(const snapshots::BorrowPlan plan,
                   snapshots::PlanBorrowing(limited, api(),
                                            {.source_namespace = from_namespace_,
                                             .snapshot_name = names_.front(),
                                             .options = OptionsOf(name),
                                             .labels_of = labels_of_,
                                             .awaits_source = !dry_run_}));
  console().InfoAll(plan.plan.not_checked);
  RETURN_IF_ERROR(RefusedStatus(plan.plan));
  PromotedPvc one = Planned(plan.plan.promotions.front());
  if (dry_run_) {
    ReportPromoted(session(), {one});
    return ExitCode::kOk;
  }
  console().Info(absl::StrCat("the snapshot stays that of ", one.snapshot,
                              ": when that is deleted before the PVC is bound, this fails"));
  std::vector<std::string> notes;
  ProgressMeter meter(console(), *limited.clock);
  const absl::StatusOr<snapshots::Borrowed> borrowed = snapshots::CarryOutBorrowing(
      limited, api(), plan, notes,
      WaitReporter(meter, "PVC", one.plan.namespace_name, one.plan.name));
  console().InfoAll(notes);
  RETURN_IF_ERROR(borrowed.status());
  one.pvc = borrowed->pvc.pvc;
  one.state = borrowed->pvc.state;
  const std::string pair =
      absl::StrCat("VolumeSnapshotContent and VolumeSnapshot ", plan.pair.snapshot_name);
  if (one.state == PvcState::kWaitsForFirstConsumer) {
    console().Info(absl::StrCat("PVC ", one.plan.name, " is bound once a Pod uses it; ", pair,
                                " stay until then: run this again to have them removed"));
  }
  ReportPromoted(session(), {one});
  if (!borrowed->removed.ok()) {
    console().Warn(absl::StrCat(pair, " stay: ", borrowed->removed.message(),
                                "; run this again to have them removed"));
    return ExitCode::kIncomplete;
  }
  return ExitCode::kOk;
}

}  // namespace

void AddSnapshotPromoteCommand(Commands& all) { AddEach<SnapshotPromoteCommand>(all); }

}  // namespace csidelta::cli
