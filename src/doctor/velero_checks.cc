#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "doctor/checks.h"
#include "objects/backup_storage_location.h"
#include "objects/data_deletion.h"
#include "objects/data_download.h"
#include "objects/data_upload.h"
#include "objects/deployment.h"
#include "velero/data_upload.h"

namespace csidelta::doctor {
namespace {

using objects::Deployment;

constexpr char kVeleroDeployment[] = "velero";
constexpr char kPluginImage[] = "velero-plugin-for-csi-delta";
constexpr char kCsiFeature[] = "EnableCSI";
constexpr int kMinorVersionMin = 12;
// A controller that runs takes up what is new within seconds.
constexpr absl::Duration kTakenUpWithin = absl::Minutes(5);
constexpr absl::Duration kRecently = absl::Hours(24);
constexpr absl::Duration kDeletedWithin = absl::Hours(1);

std::string SubjectOf(absl::string_view kind, absl::string_view space, absl::string_view name) {
  return absl::StrCat(kind, " ", space, "/", name);
}

// The Deployment of the server; nothing after having said why.
std::optional<Deployment> Server(Visit& visit, const std::string& space) {
  auto found = visit.facts().Find<Deployment>(space, kVeleroDeployment);
  if (found.ok()) {
    return *found;
  }
  const std::string subject = SubjectOf("deployment", space, kVeleroDeployment);
  if (absl::IsNotFound(found.status())) {
    visit.Note(subject, "there is none, so nothing can be said of the server",
               "nothing, if Velero runs under another name");
  } else {
    visit.Unknown(subject, found.status());
  }
  return std::nullopt;
}

// Command and arguments of all containers.
std::string CommandLine(const Deployment& deployment) {
  std::string line;
  for (const objects::DeployedContainer& container : deployment.containers()) {
    absl::StrAppend(&line, absl::StrJoin(container.arguments, " "), " ");
  }
  return line;
}

// The minor version in an image's tag "…:v1.18.1"; nothing when it has another form.
std::optional<int> MinorVersion(absl::string_view image) {
  const std::size_t colon = image.rfind(':');
  const std::string tag(colon == image.npos ? "" : image.substr(colon + 1));
  const std::vector<std::string> parts = absl::StrSplit(tag, '.');
  int minor = 0;
  if (parts.size() < 2 || (parts[0] != "v1" && parts[0] != "1") ||
      !absl::SimpleAtoi(parts[1], &minor)) {
    return std::nullopt;
  }
  return minor;
}

bool IsOlder(Visit& visit, const objects::Object& object, absl::Duration age) {
  const auto made = object.created_at();
  return made.has_value() && *made + age < visit.ctx().clock->Now();
}

// DataUploads or DataDownloads of our mover that nobody took up.
template <typename Kind>
void FindWaiting(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    for (const Kind& object : visit.Look<Kind>(space)) {
      const std::string phase = object.phase();
      if (object.data_mover() == velero::kDataMoverName && (phase.empty() || phase == "New") &&
          IsOlder(visit, object, kTakenUpWithin)) {
        visit.Fault(SubjectOf(Kind::kKind.kind, space, object.name()),
                    "has been New for over five minutes: no mover takes it up",
                    "see that the mover's controller runs and is given this namespace");
      }
    }
  }
}

}  // namespace

void CheckVeleroNamespace(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    const absl::Status status =
        visit.facts().List(objects::BackupStorageLocation::Type(), space).status();
    if (absl::IsNotFound(status)) {
      visit.Fault(absl::StrCat("namespace ", space), "Velero's kinds are not served",
                  "install Velero");
    } else if (!status.ok()) {
      visit.Unknown(absl::StrCat("namespace ", space), status);
    } else if (visit.facts().List(objects::BackupStorageLocation::Type(), space)->empty()) {
      visit.Fault(absl::StrCat("namespace ", space), "has no BackupStorageLocation",
                  "name Velero's namespace with --velero-namespaces, or make a location");
    }
  }
}

void CheckVeleroServer(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    const std::optional<Deployment> server = Server(visit, space);
    if (server.has_value() && server->available_replicas() < 1) {
      visit.Fault(SubjectOf("deployment", space, kVeleroDeployment), "is not available",
                  "kubectl describe it and its pods");
    }
  }
}

void CheckVeleroVersion(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    const std::optional<Deployment> server = Server(visit, space);
    if (!server.has_value()) {
      continue;
    }
    for (const auto& [image, arguments] : server->containers()) {
      const std::optional<int> minor = MinorVersion(image);
      const std::string subject = SubjectOf("deployment", space, kVeleroDeployment);
      if (!minor.has_value()) {
        visit.Note(subject,
                   absl::StrCat("which version image ", image, " is, its tag does not say"),
                   "see that it is Velero 1.12 or newer");
      } else if (*minor < kMinorVersionMin) {
        visit.Fault(subject, absl::StrCat("image ", image, " is too old to move data"),
                    "update Velero to 1.12 or newer");
      } else {
        visit.Good(subject, absl::StrCat("runs image ", image));
      }
    }
  }
}

void CheckVeleroCsiFeature(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    const std::optional<Deployment> server = Server(visit, space);
    if (server.has_value() && !absl::StrContains(CommandLine(*server), kCsiFeature)) {
      visit.Fault(SubjectOf("deployment", space, kVeleroDeployment),
                  "runs without --features=EnableCSI, so CSI volumes are left out",
                  "add the flag to the server's arguments");
    }
  }
}

void CheckVeleroPlugin(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    const std::optional<Deployment> server = Server(visit, space);
    if (!server.has_value()) {
      continue;
    }
    bool installed = false;
    for (const auto& [image, arguments] : server->init_containers()) {
      installed = installed || absl::StrContains(image, kPluginImage);
    }
    if (!installed) {
      visit.Warn(SubjectOf("deployment", space, kVeleroDeployment),
                 absl::StrCat("has no init container of an image named ", kPluginImage),
                 "velero plugin add IMAGE; without it moved data is never deleted");
    }
  }
}

void CheckUploadsWaiting(Visit& visit) { FindWaiting<objects::DataUpload>(visit); }

void CheckDownloadsWaiting(Visit& visit) { FindWaiting<objects::DataDownload>(visit); }

void CheckDeletionsPending(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    for (const objects::DataDeletion& object : visit.Look<objects::DataDeletion>(space)) {
      const objects::DataDeletionStatus deletion = object.status();
      const std::string subject = SubjectOf("DataDeletion", space, object.name());
      if (deletion.phase == objects::DeletionPhase::kFailed) {
        visit.Warn(subject, absl::StrCat("its data stays: ", deletion.message),
                   "do what the message says; the object may be deleted then");
      } else if (deletion.phase != objects::DeletionPhase::kCompleted &&
                 IsOlder(visit, object, kDeletedWithin)) {
        visit.Warn(subject,
                   absl::StrCat("is not done after an hour and ", deletion.attempts,
                                " attempts: ", deletion.message),
                   "see that the mover's controller runs, and who holds the repository's lock");
      }
    }
  }
}

void CheckUploadsFailed(Visit& visit) {
  for (const std::string& space : visit.options().velero_namespaces) {
    for (const objects::DataUpload& upload : visit.Look<objects::DataUpload>(space)) {
      if (upload.data_mover() == velero::kDataMoverName && upload.phase() == "Failed" &&
          !IsOlder(visit, upload, kRecently)) {
        visit.Warn(absl::StrCat("volume ", upload.source_namespace(), "/", upload.source_pvc()),
                   absl::StrCat("was not saved by DataUpload ", space, "/", upload.name(), ": ",
                                upload.message()),
                   "do what the message says, and back it up again");
      }
    }
  }
}

}  // namespace csidelta::doctor
