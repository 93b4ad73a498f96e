#include "snapshots/snapshot_audit.h"

#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/snapshot_text.h"
#include "cli/text.h"
#include "diffsnap/class_secrets.h"
#include "diffsnap/snapshot_listing.h"

namespace csidelta::cli {
namespace {

using snapshots::AuditFindings;
using snapshots::AuditInfo;
using snapshots::HandleTwice;
using snapshots::KnownContent;
using snapshots::KnownSnapshot;
using snapshots::UnknownSnapshot;

std::string SnapshotOf(const KnownContent& content) {
  return absl::StrCat(content.snapshot_namespace, "/", content.snapshot_name);
}

std::string PolicyOf(const KnownContent& content) {
  return content.is_retained ? "Retain" : "Delete";
}

Json ContentsJson(const std::vector<KnownContent>& contents) {
  Json list = Json::array();
  for (const KnownContent& one : contents) {
    list.push_back({{"content", one.name},
                    {"driver", one.driver},
                    {"handle", one.handle},
                    {"namespace", one.snapshot_namespace},
                    {"snapshot", one.snapshot_name},
                    {"policy", PolicyOf(one)}});
  }
  return list;
}

class SnapshotAuditCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::Status CheckAddress() const;
  static std::string CommandOf(const AuditInfo& info, const UnknownSnapshot& one,
                               const std::string& space);
  static Json ValueOf(const snapshots::AuditReading& reading, const AuditFindings& findings,
                      const std::string& space);
  static std::string ContentsText(const char* head, const std::vector<KnownContent>& contents);
  static std::string UnknownText(const AuditInfo& info, const AuditFindings& findings,
                                 const std::string& space);
  static std::string OthersText(const AuditFindings& findings);
  static std::string TextOf(const AuditInfo& info, const AuditFindings& findings,
                            const std::string& space);

  // What kubectl can show.
  static std::vector<std::string> NamesOf(const AuditFindings& findings);

  std::string driver_;
  std::string address_;
};

VerbSyntax SnapshotAuditCommand::Declare() {
  ArgumentTable table;
  table.Add("--driver", "DRIVER", "only what is of this CSI driver", driver_);
  table.Add("--csi-address", "ADDRESS", "the driver's socket, as unix:///path: it is asked, too",
            address_);
  return {.name = "snapshot audit",
          .summary = "Report what the storage has and the cluster does not know, and the reverse",
          .details =
              "Looks at all namespaces, and changes nothing. Without --csi-address only what the "
              "cluster says of itself is compared: VolumeSnapshotContents whose VolumeSnapshot "
              "is gone, VolumeSnapshots whose content is gone, two contents of one handle. With "
              "it, where the socket of the driver's controller is, also which snapshots the "
              "storage lists that no content has, and the reverse. A storage may serve several "
              "clusters: what this one does not know may be another's. -n goes into the commands "
              "that are printed. Where a VolumeSnapshotClass of the driver names a Secret for "
              "listing, "
              "the driver is asked with it. Needs the ClusterRole csi-delta-snapshot-reader, and "
              "the right to get such a Secret.",
          .table = std::move(table),
          .family = VerbFamily::kCluster};
}

absl::StatusOr<ExitCode> SnapshotAuditCommand::Run(const CallContext& ctx, Session& session) {
  const ClusterOptions& cluster = session.options().cluster;
  if (!cluster.selector.empty()) {
    return absl::InvalidArgumentError("snapshot audit looks at everything: leave out -l");
  }
  if (!driver_.empty() && !snapshots::IsDriverName(driver_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", driver_, "\" is not the name of a CSI driver; kubectl get csidrivers lists them"));
  }
  RETURN_IF_ERROR(CheckAddress());
  const std::unique_ptr<k8s::ApiClient> api = cluster.access.MakeClient();
  snapshots::StorageReader read_storage;
  if (!address_.empty()) {
    read_storage = [&] {
      const auto secrets = [&](const std::string& driver) {
        return diffsnap::ReadListingSecrets(ctx, *api, driver);
      };
      return diffsnap::ListStorage(ctx, address_, driver_, secrets, {});
    };
  }
  ASSIGN_OR_RETURN(const snapshots::AuditReading reading,
                   snapshots::ReadAuditInfo(ctx, *api, driver_, read_storage));
  for (const std::string& sentence : reading.not_checked) {
    session.console().Note(Printable(sentence));
  }
  const AuditFindings findings = snapshots::Audit(reading.info);
  PrintClusterResult(session, {.value = ValueOf(reading, findings, cluster.namespace_name),
                               .table = TextOf(reading.info, findings, cluster.namespace_name),
                               .names = NamesOf(findings)});
  return ExitCode::kOk;
}

absl::Status SnapshotAuditCommand::CheckAddress() const {
  if (address_.empty()) {
    return absl::OkStatus();
  }
  const std::string socket(absl::StripPrefix(address_, "unix://"));
  if (std::error_code error; !std::filesystem::exists(socket, error)) {
    return absl::NotFoundError(absl::StrCat(
        "there is no socket ", socket, "; --csi-address is that of the driver's controller, as ",
        "unix:///csi/csi.sock, and works where the driver runs"));
  }
  return absl::OkStatus();
}

std::string SnapshotAuditCommand::CommandOf(const AuditInfo& info, const UnknownSnapshot& one,
                                            const std::string& space) {
  const std::string& handle = one.snapshot.handle;
  if (one.may_be_new) {
    return "younger than 5 minutes: it may be on its way";
  }
  if (Printable(handle) != handle) {
    return "-o json has the handle";
  }
  return ImportCommand(info.storage->driver, handle, space);
}

Json SnapshotAuditCommand::ValueOf(const snapshots::AuditReading& reading,
                                   const AuditFindings& findings, const std::string& space) {
  const AuditInfo& info = reading.info;
  Json unknown = Json::array();
  for (const UnknownSnapshot& one : findings.unknown) {
    const snapshots::StorageSnapshot& snapshot = one.snapshot;
    unknown.push_back({{"handle", snapshot.handle},
                       {"driver", info.storage->driver},
                       {"volume", snapshot.volume_handle},
                       {"size_bytes", OrNull(snapshot.size_bytes)},
                       {"taken_at", OrNull(snapshot.taken_at)},
                       {"may_be_new", one.may_be_new},
                       {"namespace", space}});
  }
  Json without_content = Json::array();
  for (const KnownSnapshot& one : findings.without_content) {
    without_content.push_back(
        {{"namespace", one.namespace_name}, {"name", one.name}, {"content", one.content}});
  }
  Json twice = Json::array();
  for (const HandleTwice& one : findings.twice) {
    twice.push_back({{"driver", one.driver}, {"handle", one.handle}, {"contents", one.contents}});
  }
  const auto count = [](const auto& list) {
    return list.has_value() ? Json(static_cast<int64_t>(list->size())) : Json();
  };
  return {{"driver", info.driver},
          {"storage_asked", info.storage.has_value()},
          {"not_checked", reading.not_checked},
          {"unknown", std::move(unknown)},
          {"lost", ContentsJson(findings.lost)},
          {"without_snapshot", ContentsJson(findings.without_snapshot)},
          {"without_content", std::move(without_content)},
          {"twice", std::move(twice)},
          {"storage_snapshots",
           info.storage.has_value() ? Json(std::ssize(info.storage->snapshots)) : Json()},
          {"contents", std::ssize(info.after)},
          {"snapshots", count(info.snapshots)}};
}

std::string SnapshotAuditCommand::ContentsText(const char* head,
                                               const std::vector<KnownContent>& contents) {
  if (contents.empty()) {
    return "";
  }
  std::vector<std::vector<std::string>> rows = {
      {"CONTENT", "VOLUMESNAPSHOT", "DRIVER", "HANDLE", "POLICY"}};
  rows.reserve(contents.size() + 1);
  for (const KnownContent& one : contents) {
    rows.push_back({one.name, SnapshotOf(one), one.driver, one.handle, PolicyOf(one)});
  }
  return absl::StrCat(head, FormatTable(rows), "\n");
}

std::string SnapshotAuditCommand::UnknownText(const AuditInfo& info, const AuditFindings& findings,
                                              const std::string& space) {
  if (findings.unknown.empty()) {
    return "";
  }
  std::vector<std::vector<std::string>> rows = {{"HANDLE", "VOLUME", "SIZE", "TAKEN", "IMPORT"}};
  rows.reserve(findings.unknown.size() + 1);
  for (const UnknownSnapshot& one : findings.unknown) {
    const snapshots::StorageSnapshot& snapshot = one.snapshot;
    rows.push_back({snapshot.handle, snapshot.volume_handle,
                    snapshot.size_bytes.has_value() ? FormatBytes(*snapshot.size_bytes) : "",
                    SnapshotTimeText(snapshot.taken_at), CommandOf(info, one, space)});
  }
  return absl::StrCat("the storage has these, and the cluster does not know them:\n",
                      FormatTable(rows), "\n");
}

std::string SnapshotAuditCommand::OthersText(const AuditFindings& findings) {
  std::string text;
  if (!findings.without_content.empty()) {
    std::vector<std::vector<std::string>> rows = {{"VOLUMESNAPSHOT", "CONTENT"}};
    rows.reserve(findings.without_content.size() + 1);
    for (const KnownSnapshot& one : findings.without_content) {
      rows.push_back({absl::StrCat(one.namespace_name, "/", one.name), one.content});
    }
    absl::StrAppend(&text, "the content of these VolumeSnapshots is gone:\n", FormatTable(rows),
                    "\n");
  }
  if (!findings.twice.empty()) {
    std::vector<std::vector<std::string>> rows = {{"HANDLE", "DRIVER", "CONTENTS"}};
    rows.reserve(findings.twice.size() + 1);
    for (const HandleTwice& one : findings.twice) {
      rows.push_back({one.handle, one.driver, absl::StrJoin(one.contents, ",")});
    }
    absl::StrAppend(&text,
                    "these handles have several contents, and each may delete the snapshot:\n",
                    FormatTable(rows), "\n");
  }
  return text;
}

std::string SnapshotAuditCommand::TextOf(const AuditInfo& info, const AuditFindings& findings,
                                         const std::string& space) {
  std::string compared = Counted(std::ssize(info.after), "VolumeSnapshotContent");
  if (info.snapshots.has_value()) {
    absl::StrAppend(&compared, ", ", Counted(std::ssize(*info.snapshots), "VolumeSnapshot"));
  }
  if (info.storage.has_value()) {
    absl::StrAppend(&compared, ", ", Counted(std::ssize(info.storage->snapshots), "snapshot"),
                    " of ", info.storage->driver);
  }
  return absl::StrCat(
      UnknownText(info, findings, space),
      ContentsText("the storage does not have what these contents name:\n", findings.lost),
      ContentsText("the VolumeSnapshot of these contents is gone:\n", findings.without_snapshot),
      OthersText(findings), findings.IsEmpty() ? "nothing was found; " : "", "compared ", compared,
      "\n");
}

std::vector<std::string> SnapshotAuditCommand::NamesOf(const AuditFindings& findings) {
  std::vector<std::string> names;
  names.reserve(findings.lost.size() + findings.without_snapshot.size() +
                findings.without_content.size());
  for (const std::vector<KnownContent>* const list : {&findings.lost, &findings.without_snapshot}) {
    for (const KnownContent& one : *list) {
      names.push_back(absl::StrCat("volumesnapshotcontent.snapshot.storage.k8s.io/", one.name));
    }
  }
  for (const KnownSnapshot& one : findings.without_content) {
    names.push_back(SnapshotResourceName(one.name));
  }
  return names;
}

}  // namespace

std::unique_ptr<Command> MakeSnapshotAuditCommand() {
  return std::make_unique<SnapshotAuditCommand>();
}

}  // namespace csidelta::cli
