#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/keep_rules.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/keep_flags.h"
#include "cli/run_program.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "csi/driver_error.h"
#include "csi/lock.h"
#include "k8s/api_client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "snapshots/group_creation.h"
#include "snapshots/quota.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"
#include "snapshots/snapshot_retention.h"
#include "snapshots/snapshot_room.h"
#include "snapshots/snapshot_source.h"

namespace csidelta::cli {
namespace {

using csi::TakenSnapshot;
using snapshots::CreationRequest;

constexpr int kAtOnceMax = 32;       // VolumeSnapshots that are being asked for
constexpr int kRoomRoundsMax = 100;  // of making room, and trying again
constexpr absl::Duration kTimeout = absl::Minutes(5);

absl::Status NoGroup(absl::string_view why_not) {
  return absl::FailedPreconditionError(absl::StrCat("--group always: ", why_not));
}

std::vector<snapshots::SnapshotSource> SourcesOf(const std::vector<CreationRequest>& requests) {
  std::vector<snapshots::SnapshotSource> sources;
  sources.reserve(requests.size());
  for (const CreationRequest& one : requests) {
    sources.push_back(one.source);
  }
  return sources;
}

// The result for one PVC.
struct Outcome {
  const CreationRequest* request = nullptr;
  absl::StatusOr<TakenSnapshot> creation = absl::UnknownError("not begun");
};

absl::Duration TimeToTaken(const TakenSnapshot& creation) {
  return creation.seen_taken_at.value_or(creation.asked_at) - creation.asked_at;
}

snapshots::SnapshotEntry EntryOf(const TakenSnapshot& creation) {
  return snapshots::EntryOf(creation.snapshot, csi::ReadingOf(creation));
}

Json ToJson(const Outcome& outcome) {
  if (!outcome.creation.ok()) {
    return {{"name", outcome.request->name},
            {"namespace", outcome.request->source.pvc.namespace_name()},
            {"pvc", outcome.request->source.pvc.name()},
            {"code", static_cast<int>(ExitCodeOf(outcome.creation.status()))},
            {"error", outcome.creation.status().message()}};
  }
  Json json = cli::ToJson(EntryOf(*outcome.creation));
  json["waited_for_earlier_run"] = outcome.creation->has_joined;
  json["asked_to_taken_ms"] = outcome.creation->seen_taken_at.has_value()
                                  ? Json(absl::ToInt64Milliseconds(TimeToTaken(*outcome.creation)))
                                  : Json();
  return json;
}

std::vector<std::string> RowOf(const TakenSnapshot& creation) {
  const snapshots::SnapshotEntry entry = EntryOf(creation);
  return {
      entry.name, entry.pvc, std::string(csi::ToString(entry.status.state)),
      entry.status.taken_at.has_value()
          ? absl::FormatTime("%Y-%m-%d %H:%M:%E3S", *entry.status.taken_at, absl::LocalTimeZone())
          : "",
      creation.seen_taken_at.has_value() ? FormatElapsed(TimeToTaken(creation)) : ""};
}

// The ones that were refused because a quota or the driver allows no more.
std::vector<Outcome*> Lacking(std::vector<Outcome>& outcomes) {
  std::vector<Outcome*> lacking;
  for (Outcome& one : outcomes) {
    if (csi::OutOfRoom(one.creation.status()).has_value()) {
      lacking.push_back(&one);
    }
  }
  return lacking;
}

class SnapshotCreateCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  // How several are taken at one instant.
  struct GroupPlan {
    std::optional<snapshots::GroupChoice> choice;  // nothing: one by one
    std::string why_not;
    csi::RoomInDriver on_full;
  };

  snapshots::RetentionRequest Retention(const std::vector<CreationRequest>& requests) const;
  void ReportRemovals(absl::string_view flag, const snapshots::Retention& retention) const;

  // Applies the keep rules after all were taken. Its failure does not undo a snapshot.
  ExitCode ApplyRules() const;

  // Without --make-room: adds to the errors which snapshots it would delete.
  void ExplainLack(absl::StatusOr<std::vector<Outcome>>& created) const;

  // A callback that makes room in the driver for `requests`. Its calls are serialised.
  csi::RoomInDriver MakerOfRoom(const std::vector<CreationRequest>& requests);

  // Room in the quotas for `one` and as many like it as are needed.
  absl::Status MakeRoom(snapshots::RoomMaker& room, const CreationRequest& one,
                        std::size_t needed) const;

  // Before the application is held, and before some of a set are taken. Nothing goes for those that
  // another operation keeps from being taken, nor for those that an earlier run made.
  absl::Status MakeRoomAhead(snapshots::RoomMaker& room) const;

  // Makes room and tries again, until all are taken or no more may go.
  void TryAgainWithRoom(const std::function<void()>& on_taken, snapshots::RoomMaker& room,
                        absl::StatusOr<std::vector<Outcome>>& created) const;
  // Of --hold; empty without it.
  absl::StatusOr<std::vector<std::string>> HoldCommand() const;
  std::vector<CreationRequest> MakeRequests(std::vector<snapshots::SnapshotSource> sources,
                                            const std::string& workload, absl::Time now) const;

  // FAILED_PRECONDITION where a group is wanted and cannot be had.
  absl::StatusOr<GroupPlan> PlanGroup() const;

  // As a group where that is planned and can be had, else one by one, at nearly the same time.
  absl::StatusOr<std::vector<Outcome>> CreateAllOrGroup(
      const std::function<void()>& on_taken) const;

  // REQUIRES a choice.
  absl::StatusOr<std::vector<Outcome>> CreateAsGroup(const std::function<void()>& on_taken) const;

  // At nearly the same time.
  void CreateEach(const std::vector<Outcome*>& outcomes) const;

  // `was_held`: nothing speaks against the application going on.
  absl::StatusOr<ExitCode> Report(const std::vector<Outcome>& outcomes, bool was_held) const;
  void Print(const std::vector<Outcome>& outcomes, bool was_held) const;

  // The last line: whether the application may go on.
  std::string LastLine(const std::vector<Outcome>& outcomes) const;

  snapshots::PvcSelection selection_;
  std::string name_;
  std::string class_name_;
  std::string wait_ = "taken";
  std::string group_ = "auto";
  std::string note_;
  std::string schedule_;
  std::string hold_;
  std::optional<absl::Duration> timeout_ = kTimeout;
  KeepRules rules_;  // none: nothing is deleted once all were taken
  bool makes_room_ = false;
  bool any_maker_ = false;
  bool waits_for_others_ = false;
  std::vector<CreationRequest> requests_;  // one for each PVC
  GroupPlan plan_;
  Mutex room_mutex_;
};

VerbSyntax SnapshotCreateCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("PVC", "the PVCs to take VolumeSnapshots of", 0, kSnapshotIdsMax,
                       selection_.names);
  table.Add("--pod", "POD", "the PVCs of this Pod", selection_.pod);
  table.Add("--statefulset", "NAME", "the PVCs of this StatefulSet", selection_.stateful_set);
  table.Add("--all", "all PVCs of the namespace", selection_.all);
  table.Add("--name", "NAME",
            "name of the VolumeSnapshot; with several PVCs it names the set, and each is NAME-PVC. "
            "A second run with a name waits for the existing one (default: PVC-yyyymmdd-hhmmss)",
            name_);
  table.Add("--class", "CLASS", "the VolumeSnapshotClass (default: chosen as for backups)",
            class_name_);
  table.AddChoice("--wait", {"taken", "ready", "no"},
                  "wait until all are taken and the application may go on (taken), until they are "
                  "ready to use (ready), or not at all (no)",
                  wait_);
  table.AddWait("--timeout", "how long to wait", timeout_);
  table.AddChoice("--group", {"auto", "always", "never"},
                  "take several PVCs at one instant, by a VolumeGroupSnapshot: if possible (auto), "
                  "or fail otherwise (always), or never",
                  group_);
  table.Add("--wait-lease", "wait while another operation on the volume is under way",
            waits_for_others_);
  table.Add("--hold", "COMMAND",
            "a program that pauses the application, run without a shell: it prints a line once the "
            "application is paused, and resumes it when its stdin is closed, after all are taken",
            hold_);
  table.Add("--note", "TEXT", "a remark to keep with it", note_);
  table.Add("--schedule", "NAME",
            "the snapshot schedule that this belongs to; only its snapshots are pruned", schedule_);
  DeclareKeepFlags(table, rules_, /*with_letters=*/false);
  table.Add("--make-room",
            "if a limit of a quota or of the driver is reached, first delete the oldest snapshots "
            "of these PVCs that no keep rule keeps and nothing needs, as few as possible",
            makes_room_);
  table.Add("--any-maker", "delete also those that csi-delta snapshot did not make", any_maker_);
  return {.name = "snapshot create",
          .summary = "Take VolumeSnapshots, and return when they are taken",
          .details =
              "A snapshot keeps the data as it is when it is taken, whatever the application "
              "writes afterwards. Several PVCs are taken at nearly the same time; the difference "
              "is printed. Only your own rights are needed. Exit code 11 while another operation "
              "on the volume is under way. VolumeSnapshots that could not be taken are deleted "
              "again. With a keep rule, snapshots of these PVCs that no rule keeps are deleted "
              "afterwards, as by snapshot prune.",
          .examples = {"snapshot create data -n shop",
                       "snapshot create --all -n shop --keep-daily 7 --wait ready"}};
}

absl::StatusOr<ExitCode> SnapshotCreateCommand::Work() {
  if (cluster().all_namespaces) {
    return absl::InvalidArgumentError("-A is not for snapshot create; name a namespace with -n");
  }
  if (any_maker_ && !makes_room_ && rules_.IsEmpty()) {
    return absl::InvalidArgumentError(
        "--any-maker says what may be deleted: it goes with --make-room or a keep rule");
  }
  ASSIGN_OR_RETURN(std::vector<std::string> hold_command, HoldCommand());  // before any change
  selection_.label_selector = cluster().selector;
  RETURN_IF_ERROR(snapshots::CheckOneWay(selection_));
  ASSIGN_OR_RETURN(selection_.namespace_name, cluster().Namespace());
  ASSIGN_OR_RETURN(const snapshots::SelectedPvcs selected,
                   snapshots::SelectPvcs(ctx(), api(), selection_));
  ASSIGN_OR_RETURN(snapshots::SnapshotSources sources,
                   snapshots::PrepareSources(ctx(), api(), selected.pvcs, class_name_));
  console().InfoAll(sources.not_checked);
  requests_ = MakeRequests(std::move(sources.sources), selected.workload, ctx().clock->Now());
  ASSIGN_OR_RETURN(plan_, PlanGroup());
  if (makes_room_) {
    for (CreationRequest& one : requests_) {
      one.on_full = MakerOfRoom({one});
    }
    plan_.on_full = MakerOfRoom(requests_);
  }
  snapshots::RoomMaker room(ctx(), api(), Retention(requests_), *timeout_);
  if (makes_room_ && (requests_.size() > 1 || !hold_.empty())) {
    RETURN_IF_ERROR(MakeRoomAhead(room));
  }
  std::unique_ptr<HeldProgram> held;
  const absl::Time hold_begins = ctx().clock->Now();
  if (!hold_.empty()) {
    ASSIGN_OR_RETURN(held, Annotate(HeldProgram::Start(ctx().WithTimeout(*timeout_),
                                                       {.arguments = std::move(hold_command)}),
                                    "--hold"));
  }
  absl::Status released = absl::OkStatus();
  const auto release_program = [&] {
    if (std::unique_ptr<HeldProgram> done = std::move(held); done != nullptr) {
      released = done->Release();
      console().Info(absl::StrCat("the application was held for ",
                                  FormatElapsed(ctx().clock->Now() - hold_begins)));
    }
  };
  absl::StatusOr<std::vector<Outcome>> created = CreateAllOrGroup(release_program);
  if (makes_room_) {
    TryAgainWithRoom(release_program, room, created);
  } else {
    ExplainLack(created);
  }
  RETURN_IF_ERROR(created.status());
  release_program();
  ASSIGN_OR_RETURN(const ExitCode code, Report(*created, released.ok()));
  if (!released.ok()) {
    console().Warn(absl::StrCat("--hold: ", released.message(),
                                "; the application may have written while they were taken"));
    return code == ExitCode::kOk ? ExitCode::kIncomplete : code;
  }
  // Of a schedule a PVC that fails each night must not keep what was taken of the others.
  return code == ExitCode::kOk || (code == ExitCode::kIncomplete && !schedule_.empty())
             ? std::max(code, ApplyRules())
             : code;
}

snapshots::RetentionRequest SnapshotCreateCommand::Retention(
    const std::vector<CreationRequest>& requests) const {
  snapshots::RetentionRequest request{.namespace_name = selection_.namespace_name,
                                      .pvcs = {},
                                      .rules = rules_,
                                      .any_maker = any_maker_,
                                      .mover_namespace = cluster().mover_namespace};
  request.rules.zone = absl::LocalTimeZone();
  if (!schedule_.empty()) {  // Never what a person took; what it took of PVCs that are gone, too.
    request.all_pvcs = true;
    request.label_selector = absl::StrCat(objects::kSnapshotScheduleLabel, "=", schedule_);
  }
  for (const CreationRequest& one : requests) {
    request.pvcs.insert(one.source.pvc.name());
  }
  return request;
}

void SnapshotCreateCommand::ReportRemovals(absl::string_view flag,
                                           const snapshots::Retention& retention) const {
  for (const snapshots::Unit& unit : retention.deleted) {
    const snapshots::SnapshotEntry& entry = unit.front();
    const snapshots::DataAction action = snapshots::ActionOf(unit, /*with_data=*/false);
    console().Info(Printable(absl::StrCat(
        flag, ": deleted ",
        entry.group.uid.empty() ? absl::StrCat("VolumeSnapshot ", entry.name, " of PVC ", entry.pvc)
                                : snapshots::ShownName(unit),
        ": ", DataActionText(unit, action))));
  }
  for (const std::string& sentence : retention.failures) {
    console().Warn(Printable(absl::StrCat(flag, ": ", sentence)));
  }
}

ExitCode SnapshotCreateCommand::ApplyRules() const {
  if (rules_.IsEmpty()) {
    return ExitCode::kOk;
  }
  const std::string argument = KeepArguments(rules_).front();
  const std::string flag = argument.substr(0, argument.find('='));
  const absl::StatusOr<snapshots::Retention> retention =
      snapshots::ApplyRules(ctx(), api(), Retention(requests_));
  if (!retention.ok()) {
    console().Warn(
        Printable(absl::StrCat(flag, ": not all was deleted: ", retention.status().message())));
    return ExitCode::kIncomplete;
  }
  ReportRemovals(flag, *retention);
  return retention->failures.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
}

void SnapshotCreateCommand::ExplainLack(absl::StatusOr<std::vector<Outcome>>& created) const {
  const auto explained = [&](const absl::Status& refused, std::size_t needed) {
    return absl::ResourceExhaustedError(snapshots::ExplainRoom(ctx(), api(), Retention(requests_),
                                                               refused, static_cast<int>(needed)));
  };
  if (!created.ok()) {
    if (csi::OutOfRoom(created.status()).has_value()) {
      created = explained(created.status(), requests_.size());
    }
    return;
  }
  if (const std::vector<Outcome*> lacking = Lacking(*created); !lacking.empty()) {
    const absl::Status status = explained(lacking.front()->creation.status(), lacking.size());
    for (Outcome* const one : lacking) {
      one->creation = status;
    }
  }
}

csi::RoomInDriver SnapshotCreateCommand::MakerOfRoom(const std::vector<CreationRequest>& requests) {
  return [this, retention = Retention(requests)](const absl::Status& refused) {
    const MutexLock lock(room_mutex_);
    snapshots::RoomMaker room(ctx(), api(), retention, *timeout_);
    const absl::Status made = room.MakeInDriver(refused);
    ReportRemovals("--make-room", room.TakeReport());
    return made;
  };
}

absl::Status SnapshotCreateCommand::MakeRoom(snapshots::RoomMaker& room, const CreationRequest& one,
                                             std::size_t needed) const {
  const absl::Status made = room.MakeInQuota(one, static_cast<int>(needed));
  ReportRemovals("--make-room", room.TakeReport());
  return made;
}

absl::Status SnapshotCreateCommand::MakeRoomAhead(snapshots::RoomMaker& room) const {
  const CreationRequest& first = requests_.front();
  if (plan_.choice.has_value() &&
      snapshots::GroupExists(ctx(), api(), *plan_.choice, first.source.pvc.namespace_name(),
                             first.set)) {
    return absl::OkStatus();  // Its creation says so.
  }
  std::vector<const CreationRequest*> needed;
  for (const CreationRequest& one : requests_) {
    const absl::Status free = snapshots::CheckFree(ctx(), api(), random(), one);
    if (csi::IsVolumeBusy(free) && requests_.size() > 1 && !plan_.choice.has_value()) {
      continue;  // The others are taken.
    }
    RETURN_IF_ERROR(free);
    const k8s::ObjectKey key =
        objects::VolumeSnapshot::Key(one.source.pvc.namespace_name(), one.name);
    if (!one.may_join || !k8s::Find(ctx(), api(), key).value_or(std::nullopt).has_value()) {
      needed.push_back(&one);
    }
  }
  return needed.empty() ? absl::OkStatus() : MakeRoom(room, *needed.front(), needed.size());
}

void SnapshotCreateCommand::TryAgainWithRoom(const std::function<void()>& on_taken,
                                             snapshots::RoomMaker& room,
                                             absl::StatusOr<std::vector<Outcome>>& created) const {
  for (int rounds = 0; rounds < kRoomRoundsMax; ++rounds) {
    if (!created.ok()) {  // of a group
      if (!csi::OutOfRoom(created.status()).has_value() ||
          !snapshots::ParseQuotaRefusal(created.status().message()).has_value()) {
        return;  // Room is made among VolumeSnapshots, and in the driver by `plan_`.
      }
      const absl::Status made = MakeRoom(room, requests_.front(), requests_.size());
      created = made.ok() ? CreateAllOrGroup(on_taken) : made;
      continue;
    }
    const std::vector<Outcome*> lacking = Lacking(*created);
    if (lacking.empty()) {
      return;
    }
    const Outcome& first = *lacking.front();
    const absl::Status made = MakeRoom(room, *first.request, lacking.size());
    if (made.ok()) {
      CreateEach(lacking);
      continue;
    }
    for (Outcome* const one : lacking) {
      one->creation = made;
    }
  }
}

absl::StatusOr<std::vector<std::string>> SnapshotCreateCommand::HoldCommand() const {
  if (hold_.empty()) {
    return std::vector<std::string>();
  }
  if (wait_ != "taken") {
    return absl::InvalidArgumentError(
        absl::StrCat("--hold ends when all are taken: it does not go with --wait ", wait_));
  }
  return Annotate(SplitCommand(hold_), "--hold");
}

std::vector<CreationRequest> SnapshotCreateCommand::MakeRequests(
    std::vector<snapshots::SnapshotSource> sources, const std::string& workload,
    absl::Time now) const {
  const bool is_set = sources.size() > 1;
  const std::string prefix = !selection_.stateful_set.empty() ? selection_.stateful_set
                             : !selection_.pod.empty()        ? selection_.pod
                                                              : "set";
  const std::string set = !is_set          ? ""
                          : !name_.empty() ? snapshots::FitName(name_)
                                           : snapshots::NameForSnapshot(prefix, now);
  std::vector<CreationRequest> requests;
  requests.reserve(sources.size());
  for (snapshots::SnapshotSource& source : sources) {
    const std::string pvc = source.pvc.name();
    requests.push_back({.source = std::move(source),
                        .name = is_set           ? snapshots::FitName(absl::StrCat(set, "-", pvc))
                                : !name_.empty() ? name_
                                                 : snapshots::NameForSnapshot(pvc, now),
                        .may_join = !name_.empty(),
                        .set = set,
                        .workload = workload,
                        .note = note_,
                        .schedule = schedule_,
                        .waits_for_others = waits_for_others_,
                        .awaited = wait_ == "no"      ? snapshots::AwaitedState::kNothing
                                   : wait_ == "ready" ? snapshots::AwaitedState::kReady
                                                      : snapshots::AwaitedState::kTaken,
                        .timeout = *timeout_});
  }
  return requests;
}

absl::StatusOr<SnapshotCreateCommand::GroupPlan> SnapshotCreateCommand::PlanGroup() const {
  GroupPlan plan;
  if (requests_.size() < 2 || group_ == "never") {
    return plan;
  }
  absl::StatusOr<snapshots::GroupChoice> choice =
      snapshots::ChooseGroup(ctx(), api(), SourcesOf(requests_));
  if (choice.ok()) {
    plan.choice = *std::move(choice);
    return plan;
  }
  if (!absl::IsUnimplemented(choice.status())) {
    return choice.status();
  }
  plan.why_not = std::string(choice.status().message());
  return group_ == "always" ? NoGroup(plan.why_not) : absl::StatusOr<GroupPlan>(std::move(plan));
}

absl::StatusOr<std::vector<Outcome>> SnapshotCreateCommand::CreateAllOrGroup(
    const std::function<void()>& on_taken) const {
  std::string why_not = plan_.why_not;
  if (plan_.choice.has_value()) {
    absl::StatusOr<std::vector<Outcome>> outcomes = CreateAsGroup(on_taken);
    if (!absl::IsUnimplemented(outcomes.status())) {
      return outcomes;
    }
    why_not = std::string(outcomes.status().message());
    if (group_ == "always") {
      return NoGroup(why_not);
    }
  }
  if (!why_not.empty()) {
    console().Info(absl::StrCat("taken one by one, not as a group: ", why_not));
  }
  std::vector<Outcome> outcomes(requests_.size());
  std::vector<Outcome*> all;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    outcomes[i].request = &requests_[i];
    all.push_back(&outcomes[i]);
  }
  CreateEach(all);
  return outcomes;
}

absl::StatusOr<std::vector<Outcome>> SnapshotCreateCommand::CreateAsGroup(
    const std::function<void()>& on_taken) const {
  CSIDELTA_CHECK(plan_.choice.has_value());  // without a choice they are taken one by one
  const CreationRequest& first = requests_.front();
  const snapshots::GroupCreationRequest request = {.choice = *plan_.choice,
                                                   .sources = SourcesOf(requests_),
                                                   .name = first.set,
                                                   .workload = first.workload,
                                                   .note = first.note,
                                                   .schedule = first.schedule,
                                                   .waits_for_others = first.waits_for_others,
                                                   .on_full = plan_.on_full,
                                                   .timeout = first.timeout,
                                                   .on_taken = on_taken};
  ASSIGN_OR_RETURN(std::vector<TakenSnapshot> creations,
                   snapshots::CreateGroup(ctx(), api(), random(), request));
  CSIDELTA_CHECK(creations.size() == requests_.size());  // in the order of the sources
  std::vector<Outcome> outcomes;
  outcomes.reserve(creations.size());
  for (std::size_t i = 0; i < creations.size(); ++i) {
    outcomes.push_back({.request = &requests_[i], .creation = std::move(creations[i])});
  }
  return outcomes;
}

void SnapshotCreateCommand::CreateEach(const std::vector<Outcome*>& outcomes) const {
  std::atomic<std::size_t> next = 0;
  const auto body = [&](const CallContext& worker_ctx, int) {
    for (std::size_t i = next++; i < outcomes.size(); i = next++) {
      outcomes[i]->creation =
          snapshots::CreateSnapshot(worker_ctx, api(), random(), *outcomes[i]->request);
    }
    return absl::OkStatus();  // One that fails stops no other.
  };
  WorkerPool pool(ctx());
  pool.Start(static_cast<int>(std::min<std::size_t>(outcomes.size(), kAtOnceMax)), body);
  CSIDELTA_CHECK(pool.Join().ok());
}

absl::StatusOr<ExitCode> SnapshotCreateCommand::Report(const std::vector<Outcome>& outcomes,
                                                       bool was_held) const {
  const auto failed = [](const Outcome& one) { return !one.creation.ok(); };
  const auto failures = std::count_if(outcomes.begin(), outcomes.end(), failed);
  for (const Outcome& one : outcomes) {
    if (one.creation.ok()) {
      console().InfoAll(one.creation->not_checked);
    } else if (outcomes.size() > 1) {
      console().Warn(absl::StrCat("PVC ", one.request->source.pvc.name(), ": ",
                                  one.creation.status().message()));
    }
  }
  const bool all_failed = failures == static_cast<std::ptrdiff_t>(outcomes.size());
  if (all_failed && outcomes.size() == 1) {
    return outcomes.front().creation.status();
  }
  Print(outcomes, was_held);
  if (failures == 0) {
    return ExitCode::kOk;
  }
  return all_failed ? ExitCodeOf(outcomes.front().creation.status()) : ExitCode::kIncomplete;
}

void SnapshotCreateCommand::Print(const std::vector<Outcome>& outcomes, bool was_held) const {
  ClusterResult result = {.value = Json::array(), .table = "", .names = {}};
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "PVC", "STATE", "TAKEN", "ASKED TO TAKEN"}};
  for (const Outcome& one : outcomes) {
    result.value.push_back(ToJson(one));
    if (one.creation.ok()) {
      rows.push_back(RowOf(*one.creation));
      result.names.push_back(SnapshotResourceName(one.creation->snapshot.name()));
    }
  }
  if (rows.size() > 1) {
    result.table = absl::StrCat(FormatTable(rows), was_held ? LastLine(outcomes) : "");
  }
  PrintClusterResult(session(), result);
}

std::string SnapshotCreateCommand::LastLine(const std::vector<Outcome>& outcomes) const {
  if (wait_ == "no") {
    return "";
  }
  absl::Time first = absl::InfiniteFuture();
  absl::Time last = absl::InfinitePast();
  for (const Outcome& one : outcomes) {
    if (!one.creation.ok()) {
      return "not all were taken: the application must not go on\n";
    }
    if (const auto taken = EntryOf(*one.creation).status.taken_at; taken.has_value()) {
      first = std::min(first, *taken);
      last = std::max(last, *taken);
    }
  }
  return absl::StrCat("taken: the application may go on\n",
                      outcomes.size() > 1 && first < last
                          ? absl::StrCat("the first and the last were taken ",
                                         FormatElapsed(last - first), " apart\n")
                          : "");
}

}  // namespace

void AddSnapshotCreateCommand(Commands& all) { AddEach<SnapshotCreateCommand>(all); }

}  // namespace csidelta::cli
