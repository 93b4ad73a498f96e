#include <algorithm>
#include <climits>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/mover/movement_json.h"
#include "cli/mover/trial_objects.h"
#include "cli/text.h"
#include "csi/kept_snapshots.h"
#include "datamover/controller/overview.h"
#include "datamover/records/volume_records.h"
#include "datamover/settings.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/copy_record.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "objects/volume_snapshot.h"
#include "objects/volume_task.h"

namespace csidelta::cli {
namespace {

using datamover::Movement;
using datamover::ProtectedVolumeRecord;

// Objects of one request, which are held at once.
constexpr int kTransfersPerPage = 250;
constexpr std::size_t kModeBytes = 4;  // "full", "incr"

std::string Moved(const Movement& movement) {
  if (movement.total_bytes == 0) {
    return movement.done_bytes == 0 ? "" : FormatBytes(movement.done_bytes);
  }
  return absl::StrCat(FormatBytes(movement.done_bytes), " of ", FormatBytes(movement.total_bytes));
}

std::vector<std::string> RowOf(const Movement& movement) {
  std::string state = movement.phase;
  if (!movement.stage.empty() && !movement.is_over) {
    absl::StrAppend(&state, " (", movement.stage, ")");
  }
  return {absl::StrCat(" ", movement.kind),
          movement.volume,
          absl::StrCat(movement.velero_namespace, "/", movement.name),
          state,
          Moved(movement),
          movement.bytes_per_second.has_value()
              ? absl::StrCat(FormatBytes(*movement.bytes_per_second), "/s")
              : "",
          movement.left.has_value() ? FormatElapsed(*movement.left) : "",
          movement.message};
}

std::vector<std::string> RowOf(const ProtectedVolumeRecord& record, absl::Time now) {
  const objects::ProtectedVolumeStatus& status = record.status;
  const objects::LastGoodBackup good = status.last_good.value_or(objects::LastGoodBackup());
  return {absl::StrCat(" ", record.spec.pvc_namespace, "/", record.spec.pvc),
          absl::StrCat(record.velero_namespace, "/", record.spec.location),
          status.last_good.has_value()
              ? FormatAge(good.taken_at.has_value() ? good.taken_at : good.completed_at, now)
              : "never",
          good.mode,
          status.last_good.has_value() ? FormatBytes(good.logical_bytes) : "",
          status.base.has_value() ? FormatAge(status.base->taken_at, now) : "",
          status.verification.has_value() ? FormatAge(status.verification->at, now) : "",
          status.next_step};
}

// Of the JSON of a backup.
std::vector<std::string> RowOf(const Json& backup, absl::Time now) {
  const bool is_done = GetString(backup, {"phase"}) == "Completed";
  const auto bytes = [&](const char* field) {
    return is_done ? FormatBytes(GetInt(backup, {field})) : "";
  };
  const auto verified_at = ParseRfc3339(GetString(backup, {"verified_at"}));
  return {
      GetString(backup, {"volume"}),
      is_done ? GetString(backup, {"mode"}).substr(0, kModeBytes) : GetString(backup, {"phase"}),
      GetString(backup, {"why_full"}),
      bytes("changed_bytes"),
      bytes("read_bytes"),
      bytes("stored_bytes"),
      is_done ? FormatElapsed(absl::Milliseconds(GetInt(backup, {"duration_ms"}))) : "",
      !is_done                        ? ""
      : backup["restorable"] == false ? "broken"
      : verified_at.has_value()       ? absl::StrCat(FormatAge(verified_at, now), " ago")
                                      : "not yet",
      GetString(backup, {"next_step"})};
}

// Volumes with a next step first, then by namespace and PVC.
std::vector<ProtectedVolumeRecord> OrderedByNeed(std::vector<ProtectedVolumeRecord> records) {
  std::stable_sort(
      records.begin(), records.end(),
      [](const ProtectedVolumeRecord& a, const ProtectedVolumeRecord& b) {
        return std::make_tuple(a.status.next_step.empty(), a.spec.pvc_namespace, a.spec.pvc) <
               std::make_tuple(b.status.next_step.empty(), b.spec.pvc_namespace, b.spec.pvc);
      });
  return records;
}

// The part of very many DataUploads and DataDownloads that is kept in memory: unfinished ones, for
// the queue, and those that are shown.
struct Transfers {
  std::vector<objects::DataUpload> uploads;
  std::vector<objects::DataDownload> downloads;
  std::vector<Movement> shown;
  bool shows_all = false;  // what is over, too
};

// Calls `keep` for all objects of a namespace, page by page, and `drop` where the list begins
// again. Not as the API server remembers them: then it gives all in one answer, which may be
// longer than any client reads.
template <typename Kind>
absl::Status ReadEach(const CallContext& ctx, k8s::ApiClient& api, absl::string_view space,
                      const std::string& selector,
                      absl::FunctionRef<void(std::vector<Kind> page)> keep,
                      absl::FunctionRef<void()> drop) {
  return objects::ReadPages<Kind>(
      ctx, api, Kind::Type(), space,
      {.label_selector = selector, .field_selector = "", .page_items_max = kTransfersPerPage},
      [&](std::vector<Kind> page, bool is_first) {
        if (is_first) {
          drop();
        }
        keep(std::move(page));
      });
}

// Adds what `make` makes of each object of a namespace to `all`.
template <typename Kind, typename Made>
absl::Status ReadAll(const CallContext& ctx, k8s::ApiClient& api, absl::string_view space,
                     Made (*make)(const Kind&), std::vector<Made>& all) {
  const std::size_t known = all.size();
  return ReadEach<Kind>(
      ctx, api, space, "",
      [&all, make](const std::vector<Kind>& page) {
        std::transform(page.begin(), page.end(), std::back_inserter(all), make);
      },
      [&all, known] { all.resize(known); });
}

void Show(std::vector<Movement> movements, Transfers& all) {
  for (Movement& movement : movements) {
    if (all.shows_all || !movement.is_over) {
      all.shown.push_back(std::move(movement));
    }
  }
}

// `unfinished`: the objects of `all` that are of this kind.
template <typename Kind>
absl::Status ReadTransfers(const CallContext& ctx, k8s::ApiClient& api, absl::string_view space,
                           const std::string& selector,
                           const std::vector<objects::VolumeTask>& tasks, Transfers& all,
                           std::vector<Kind>& unfinished) {
  const std::size_t kept = unfinished.size();
  const std::size_t shown = all.shown.size();
  return ReadEach<Kind>(
      ctx, api, space, selector,
      [&](std::vector<Kind> page) {
        if constexpr (std::is_same_v<Kind, objects::DataUpload>) {
          Show(datamover::ListMovements(page, {}, tasks), all);
        } else {
          Show(datamover::ListMovements({}, page, tasks), all);
        }
        std::copy_if(page.begin(), page.end(), std::back_inserter(unfinished),
                     [](const Kind& transfer) { return !transfer.is_over(); });
      },
      [&] {
        unfinished.resize(kept);
        all.shown.resize(shown);
      });
}

// A PVC that exists, and which a Restore left without data.
struct Unrestored {
  std::string restore;  // "namespace/name"
  objects::PvcWithoutData pvc;
};

absl::Status ReadUnrestored(const CallContext& ctx, k8s::ApiClient& api, absl::string_view space,
                            std::vector<Unrestored>& all) {
  const auto restores = objects::List<objects::Restore>(ctx, api, space);
  RETURN_IF_ERROR(k8s::IgnoreNotFound(restores.status()));
  for (const objects::Restore& restore : restores.value_or(std::vector<objects::Restore>())) {
    for (const objects::PvcWithoutData& pvc : restore.pvcs_without_data()) {
      ASSIGN_OR_RETURN(
          const auto found,
          objects::Find<objects::PersistentVolumeClaim>(
              ctx, api, objects::PersistentVolumeClaim::Key(pvc.namespace_name, pvc.name)));
      if (found.has_value() && restore.IsStillWithoutData(pvc, *found)) {
        all.push_back({absl::StrCat(space, "/", restore.name()), pvc});
      }
    }
  }
  return absl::OkStatus();
}

// On a terminal as wide as that; elsewhere each row is one line, for programs.
std::string FormatRows(const Session& session, const std::vector<std::vector<std::string>>& rows) {
  const bool is_narrow = session.environment().out_is_terminal && OutputForm(session) != "wide";
  return FormatTable(rows, is_narrow ? session.environment().table_columns : INT_MAX);
}

void Print(Session& session, const std::vector<Movement>& shown,
           const datamover::QueueOverview& queue, const std::vector<ProtectedVolumeRecord>& records,
           const std::vector<Unrestored>& unrestored, absl::Time now,
           const std::vector<objects::VolumeSnapshotContent>& kept) {
  Json list = Json::array();
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> rows = {
      {" Kind", "Volume", "Object", "Phase", "Moved", "Rate", "Left", "Message"}};
  for (const Movement& movement : shown) {
    list.push_back(cli::ToJson(movement));
    names.push_back(absl::StrCat("data", movement.kind, ".velero.io/", movement.name));
    rows.push_back(RowOf(movement));
  }
  std::vector<std::vector<std::string>> volumes = {
      {" PVC", "Location", "Last good", "Mode", "Size", "Base", "Verified", "Next step"}};
  for (const ProtectedVolumeRecord& record : records) {
    list.push_back(cli::ToJson(record));
    names.push_back(absl::StrCat("protectedvolume.mover.csi-delta.io/", record.name));
    volumes.push_back(RowOf(record, now));
  }
  std::vector<std::vector<std::string>> pvcs = {{" PVC", "Restore", "Next step"}};
  for (const auto& [restore, pvc] : unrestored) {
    const std::string name = absl::StrCat(pvc.namespace_name, "/", pvc.name);
    list.push_back({{"kind", "unrestored"},
                    {"restore", restore},
                    {"volume", name},
                    {"pvc_uid", pvc.uid},
                    {"next_step", objects::NextStepOf(pvc.command)}});
    pvcs.push_back({absl::StrCat(" ", name), restore, objects::NextStepOf(pvc.command)});
  }
  std::vector<std::vector<std::string>> lost = {{" Backup", "Not restorable"}};
  for (const auto& record : kept) {
    if (const csi::KeptSnapshot one = csi::ReadKept(record); one.state == csi::kKeptGone) {
      list.push_back({{"kind", "lost"}, {"backup", one.backup}, {"message", one.text}});
      lost.push_back({absl::StrCat(" ", one.backup), one.text});
    }
  }
  const auto section = [&session](const char* title,
                                  const std::vector<std::vector<std::string>>& table) {
    return table.size() == 1 ? "" : absl::StrCat("\n", title, "\n", FormatRows(session, table));
  };
  PrintClusterResult(
      session, {.value = std::move(list),
                .table = absl::StrCat(
                    shown.empty() ? "nothing is being moved\n" : FormatRows(session, rows),
                    datamover::ToText(queue), section("Lost on the storage", lost),
                    section("Restored without data", pvcs), section("Protected volumes", volumes)),
                .names = std::move(names)});
}

constexpr char kClearScreen[] = "\x1b[H\x1b[J";
// Between two drawings of --watch, which each read all: the API server is busy with them for a
// tenth of the time at most.
constexpr absl::Duration kPauseMin = absl::Seconds(1);
constexpr int kPausePerReading = 10;

class StatusCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  using Newest = std::map<std::vector<std::string>, objects::DataUpload>;  // of each volume

  // Reads all and prints it, behind `before`.
  absl::Status Show(absl::string_view before) const;
  // The same of --backup and -n: the newest backup of each volume.
  absl::Status ShowBackups(absl::string_view before) const;
  absl::StatusOr<Newest> ReadNewest() const;
  // Those of namespaces that cannot be read are omitted, with a note.
  std::vector<ProtectedVolumeRecord> ReadRecords() const;
  // Draws again and again, until it is interrupted, which is how it ends.
  absl::StatusOr<ExitCode> Watch() const;

  std::string backup_;  // "": all that is under way
  bool all_ = false;
  bool watch_ = false;
};

VerbSyntax StatusCommand::Describe(ArgumentTable& table) {
  table.Add("--backup", "NAME", "what this Backup of Velero did with each volume, and its cost",
            backup_);
  table.Add("--all", "also finished transfers, as long as their objects exist", all_);
  table.Add("-w,--watch",
            "on a terminal: stay, and draw again each second, or less often if reading takes long, "
            "until it is interrupted (Ctrl-C)",
            watch_);
  return {.name = "status",
          .summary = "Show transfers under way, and the last good backup of each PVC",
          .details =
              "First come the transfers: progress, speed, time left, and what the others wait for, "
              "such as a paused data mover or a closed upload window. Then comes each protected "
              "volume: the age of its last good backup, of its base and of its newest check; those "
              "that need a next step come first. Then come PVCs that a Restore of Velero left "
              "without data, because they existed before, each with the command that restores it. "
              "With --backup or -n it prints one row for each volume instead: its backup, why it "
              "was full, what it cost, whether it was checked since, and the next step. -l selects "
              "by labels of DataUploads.",
          .examples = {"status --backup nightly-1", "status --watch --context prod"}};
}

absl::StatusOr<ExitCode> StatusCommand::Work() {
  if (cluster().all_namespaces) {
    return absl::InvalidArgumentError("without -n, status is of all namespaces: leave out -A");
  }
  if (all_ && (!backup_.empty() || !cluster().namespace_name.empty())) {
    return absl::InvalidArgumentError("--backup and -n show what is over, too: leave out --all");
  }
  if (watch_) {
    return Watch();
  }
  RETURN_IF_ERROR(Show(""));
  return ExitCode::kOk;
}

absl::Status StatusCommand::Show(absl::string_view before) const {
  if (!backup_.empty() || !cluster().namespace_name.empty()) {
    return ShowBackups(before);
  }
  std::vector<objects::VolumeTask> tasks;
  RETURN_IF_ERROR(ReadAll(
      ctx(), api(), cluster().mover_namespace,
      +[](const objects::VolumeTask& task) { return task; }, tasks));
  Transfers all{.uploads = {}, .downloads = {}, .shown = {}, .shows_all = all_};
  std::vector<Unrestored> unrestored;
  for (const absl::string_view space :
       absl::StrSplit(cluster().velero_namespaces, ',', absl::SkipEmpty())) {
    RETURN_IF_ERROR(
        ReadTransfers(ctx(), api(), space, cluster().selector, tasks, all, all.uploads));
    RETURN_IF_ERROR(
        ReadTransfers(ctx(), api(), space, cluster().selector, tasks, all, all.downloads));
    if (const absl::Status read = ReadUnrestored(ctx(), api(), space, unrestored); !read.ok()) {
      console().Info(absl::StrCat("what the Restores of namespace ", space,
                                  " left without data is not known: ", read.message()));
    }
  }
  const auto kept = objects::List<objects::VolumeSnapshotContent>(
      ctx(), api(), "", {.label_selector = objects::kKeptLabel});
  if (!kept.ok() && !absl::IsNotFound(kept.status())) {
    console().Info(absl::StrCat("lost snapshots are not known: ", kept.status().message()));
  }
  const absl::StatusOr<datamover::MoverSettings> settings =
      datamover::ReadMoverSettings(ctx(), api(), cluster().mover_namespace);
  if (!settings.ok()) {
    console().Info(
        absl::StrCat("what transfers wait for is not known: ", settings.status().message()));
  }
  const datamover::QueueOverview queue =
      settings.ok()
          ? datamover::DescribeQueue(*settings, all.uploads, all.downloads, ctx().clock->Now())
          : datamover::QueueOverview();
  std::stable_sort(all.shown.begin(), all.shown.end(), [](const Movement& a, const Movement& b) {
    return a.created_at < b.created_at;
  });
  for (Movement& movement : all.shown) {
    if (const auto reason = queue.reasons.find(movement.uid); reason != queue.reasons.end()) {
      movement.waits_for = reason->second;
    }
  }
  session().environment().out(before);
  Print(session(), all.shown, queue, OrderedByNeed(ReadRecords()), unrestored, ctx().clock->Now(),
        kept.value_or(std::vector<objects::VolumeSnapshotContent>()));
  return console().Check();
}

absl::StatusOr<StatusCommand::Newest> StatusCommand::ReadNewest() const {
  std::string selector = cluster().selector;
  if (!backup_.empty()) {
    absl::StrAppend(&selector, selector.empty() ? "" : ",",
                    LabelledWith(objects::kBackupNameLabel, backup_).label_selector);
  }
  Newest newest;
  for (const absl::string_view space :
       absl::StrSplit(cluster().velero_namespaces, ',', absl::SkipEmpty())) {
    RETURN_IF_ERROR(ReadEach<objects::DataUpload>(
        ctx(), api(), space, selector,
        [&](std::vector<objects::DataUpload> page) {
          for (objects::DataUpload& upload : page) {
            const std::string of = upload.source_namespace();
            if (upload.is_managed() &&
                (cluster().namespace_name.empty() || of == cluster().namespace_name)) {
              objects::DataUpload& kept =
                  newest[{of, upload.source_pvc(), upload.storage_location(), std::string(space)}];
              kept = kept.created_at() > upload.created_at() ? kept : std::move(upload);
            }
          }
        },
        [] {}));  // One that is read twice is shown once.
  }
  if (!newest.empty()) {
    return newest;
  }
  return absl::NotFoundError(absl::StrCat(
      "namespace ", cluster().velero_namespaces, " has no such DataUpload of csi-delta; ",
      backup_.empty() ? absl::StrCat("-n is the namespace of PVCs, --mover-namespace the mover's; "
                                     "csi-delta try ",
                                     cluster().namespace_name)
                      : absl::StrCat("velero backup describe ", backup_, " --details")));
}

absl::Status StatusCommand::ShowBackups(absl::string_view before) const {
  ASSIGN_OR_RETURN(const Newest newest, ReadNewest());
  const std::vector<ProtectedVolumeRecord> records = ReadRecords();
  // By the namespace of Velero and by name, which has the uid of the PVC.
  std::map<std::pair<std::string, std::string>, const ProtectedVolumeRecord*> by_name;
  for (const ProtectedVolumeRecord& record : records) {
    by_name[{record.velero_namespace, record.name}] = &record;
  }
  std::vector<std::vector<std::string>> rows = {
      {"Volume", "Mode", "Why full", "Changed", "Read", "Stored", "Took", "Verified", "Next step"}};
  ClusterResult result{.value = Json::array()};
  for (const auto& [volume, upload] : newest) {
    result.value.push_back(cli::ToJson(
        upload,
        by_name[{upload.namespace_name(),
                 objects::ProtectedVolume::NameOf(upload.pvc_uid(), upload.storage_location())}]));
    rows.push_back(RowOf(result.value.back(), ctx().clock->Now()));
    result.names.push_back(absl::StrCat("dataupload.velero.io/", upload.name()));
  }
  result.table = FormatRows(session(), rows);
  session().environment().out(before);
  PrintClusterResult(session(), result);
  return console().Check();
}

std::vector<ProtectedVolumeRecord> StatusCommand::ReadRecords() const {
  std::vector<ProtectedVolumeRecord> records;
  for (const absl::string_view space :
       absl::StrSplit(cluster().velero_namespaces, ',', absl::SkipEmpty())) {
    if (const absl::Status read =
            ReadAll(ctx(), api(), space, &datamover::ReadProtectedVolume, records);
        !read.ok()) {
      console().Info(absl::StrCat("the protected volumes of namespace ", space,
                                  " are not known: ", read.message()));
    }
  }
  return records;
}

absl::StatusOr<ExitCode> StatusCommand::Watch() const {
  if (!session().environment().out_is_terminal || !AsksForTable(session())) {
    return absl::InvalidArgumentError(
        "--watch draws on a terminal, as a table; without --watch, status prints once");
  }
  bool is_first = true;
  while (!ctx().stop.stop_requested() && console().IsRead()) {
    const absl::Duration began = ctx().clock->Uptime();
    const absl::Status shown = Show(kClearScreen);
    if (ctx().stop.stop_requested()) {
      break;
    }
    if (!shown.ok() && is_first) {
      return shown;
    }
    if (!shown.ok()) {
      console().Warn(absl::StrCat("not up to date: ", shown.message()));
    }
    is_first = false;
    const absl::Duration pause =
        std::max(kPauseMin, kPausePerReading * (ctx().clock->Uptime() - began));
    if (!ctx().clock->SleepFor(pause, ctx().stop)) {
      break;
    }
  }
  return ExitCode::kOk;
}

}  // namespace

void AddStatusCommand(Commands& all) { AddEach<StatusCommand>(all); }

}  // namespace csidelta::cli
