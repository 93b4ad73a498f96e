#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/yaml.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "datamover/settings.h"
#include "k8s/object.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/event.h"
#include "objects/protected_volume.h"
#include "objects/volume_snapshot.h"
#include "objects/volume_task.h"

namespace csidelta::cli {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{2} << 20;

// The members of objects and settings that are shown, or looked into, besides times and sizes. No
// annotation, argument, variable, parameter, proxy or key is among them.
constexpr absl::string_view kShown =
    " metadata name namespace uid finalizers labels app.kubernetes.io/name velero.io/backup-name "
    "velero.io/csi-volumesnapshot-class spec status kind phase type reason message conditions "
    "count involvedObject source component reportingComponent datamover cancel driver "
    "deletionPolicy backupStorageLocation sourceNamespace sourcePVC snapshotID csiSnapshot "
    "volumeSnapshot storageClass snapshotClass targetVolume pvc pvcUID subject volume claim "
    "progress bytesDone stage node outcome code cause mode reasonDetail base durationMs retries "
    "lastGoodBackup backup lastAttempt trouble attempts failures nextStep at verification "
    "finding provider default accessMode objectStorage bucket prefix config region s3Url "
    "containers image nodeName containerStatuses ready restartCount state lastState waiting "
    "running terminated exitCode prepareTimeout onFallback paused uploadWindows checks "
    "percentPerDay workers limits total perNode perNamespace bases maxAge restore "
    "intoExistingVolumes deletions storageClasses intermediateClass readOnlyMany limit drivers "
    "keepBase backupStorageLocations immutability days worker resources requests cpu memory "
    "scratchSize limitUpload limitDownload podSecurity "
    "uploadKiBPerSecond downloadKiBPerSecond ";
bool IsShown(absl::string_view name) {
  return absl::StrContains(kShown, absl::StrCat(" ", name, " ")) ||
         absl::EndsWith(name, "Timestamp") || absl::EndsWith(name, "Time") ||
         absl::EndsWith(name, "At") || absl::EndsWith(name, "Bytes");
}

// Whether its members have names of the cluster.
bool IsMap(absl::string_view name) {
  return name == "storageClasses" || name == "drivers" || name == "backupStorageLocations";
}

// What of `value` is shown. `shows_all`: its members, whatever their names.
Json Excerpt(const Json& value, bool shows_all = false) {
  if (!value.is_structured()) {
    return value;
  }
  Json kept = value.is_array() ? Json::array() : Json::object();
  for (const auto& [name, member] : value.items()) {
    if (value.is_array()) {
      kept.push_back(Excerpt(member));
    } else if (shows_all || IsShown(name)) {
      kept[name] = Excerpt(member, IsMap(name));
    }
  }
  return kept;
}

// A file of a tar archive, in blocks of 512 bytes: a header "ustar" of POSIX.1-1988, and `bytes`.
// https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html
std::string TarEntry(absl::string_view name, absl::string_view bytes, absl::Time written_at) {
  constexpr std::size_t kBlockBytes = 512;
  constexpr std::size_t kNameBytesMax = 99;
  std::string out(kBlockBytes, '\0');
  const auto put = [&out](std::size_t at, absl::string_view field) {
    out.replace(at, field.size(), field.data(), field.size());
  };
  put(0, name.substr(0, kNameBytesMax));
  put(100, absl::StrFormat("%07o%c%07o%c%07o%c%011o%c%011o", S_IRUSR | S_IWUSR, 0, 0, 0, 0, 0,
                           bytes.size(), 0, absl::ToUnixSeconds(written_at)));
  put(148, "        0");  // The sum counts its own field as spaces. 0: a regular file.
  put(257, absl::string_view("ustar\00000", 8));
  const int sum = absl::c_accumulate(out, 0, [](int all, unsigned char c) { return all + c; });
  put(148, absl::StrFormat("%06o%c", sum, 0));
  absl::StrAppend(&out, bytes);
  out.resize((out.size() + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
  return out;
}

// The archive as it grows.
class Bundle {
 public:
  // Borrows what it is given.
  Bundle(const CallContext& ctx, const ClusterOptions& cluster, const ProgramEnvironment& here)
      : ctx_(ctx), cluster_(cluster), environment_(here) {}

  // All that is in the archive passes here, without secrets. Of a longer text, the end stays. An
  // error of the API server names the right that is missing.
  void Add(absl::string_view name, const absl::StatusOr<std::string>& text) {
    const std::string shown =
        WithoutSecrets(text.ok() ? *text : absl::StrCat(name, ": ", text.status().message()));
    if (!text.ok()) {
      not_read_.push_back(shown);
      return;
    }
    absl::StrAppend(&archive_,
                    TarEntry(absl::StrCat("csi-delta-debug/", name),
                             shown.substr(std::max(shown.size(), kFileBytesMax) - kFileBytesMax),
                             ctx_.clock->Now()));
  }

  // What a verb prints, its warnings and errors at the end.
  void AddVerb(absl::string_view name, absl::string_view line) {
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    for (const auto& [flag, value] :
         {std::pair("--kubeconfig", cluster_.access.kubeconfig),
          std::pair("--context", cluster_.access.kubecontext),
          std::pair("--mover-namespace", cluster_.mover_namespace),
          std::pair("--velero-namespace", cluster_.velero_namespaces)}) {
      if (!value.empty()) {
        words.insert(words.end(), {flag, value});
      }
    }
    std::string out;
    std::string error;
    ProgramEnvironment environment = environment_;
    environment.out = [&out](absl::string_view bytes) {
      return absl::StrAppend(&out, bytes), true;
    };
    environment.error = [&error](absl::string_view bytes) {
      return absl::StrAppend(&error, bytes), true;
    };
    environment.error_is_terminal = environment.out_is_terminal = false;
    if (RunProgram(ctx_, words, environment) != ExitCode::kOk && !error.empty()) {
      Add(name, absl::UnknownError(absl::StripAsciiWhitespace(error)));
    }
    Add(name, absl::StrCat(out, error));
  }

  // Returns what was added. `namespace_name` "": of the cluster.
  std::vector<Json> AddObjects(k8s::ApiClient& api, const k8s::ResourceType& type,
                               const std::string& namespace_name) {
    std::vector<Json> all;
    const absl::Status read = k8s::ReadPages(ctx_, api, type, namespace_name, {},
                                             [&](std::vector<Json>& page, bool first) {
                                               all.resize(first ? 0 : all.size());
                                               for (const Json& one : page) {
                                                 all.push_back(Excerpt(one));
                                               }
                                             });
    Add(absl::StrCat(namespace_name, namespace_name.empty() ? "" : "/", type.plural, ".yaml"),
        read.ok() ? absl::StatusOr<std::string>(ToYaml(all)) : read);
    return all;
  }

  // Of the data mover's containers, and of their runs before if they were restarted.
  void AddLogs(k8s::ApiClient& api, const std::vector<Json>& pods) {
    for (const Json& pod : pods) {
      const k8s::ObjectKey key = objects::Pod::Key(k8s::Namespace(pod), k8s::Name(pod));
      const bool is_mover = k8s::Label(pod, "app.kubernetes.io/name") == "csi-delta";
      for (const Json& status : JsonArrayAt(pod, {"status", "containerStatuses"})) {
        for (const bool before : {false, true}) {
          if (is_mover && (!before || GetInt(status, {"restartCount"}) > 0)) {
            const std::string container = GetString(status, {"name"});
            Add(absl::StrCat("logs/", key.name, ".", container, before ? ".before" : ""),
                api.ReadLog(ctx_, key, container, before));
          }
        }
      }
    }
  }

  // REQUIRES that nothing is added later.
  std::string Finish() {
    Add("not-read.txt", absl::StrCat(absl::StrJoin(not_read_, "\n"), "\n"));
    return absl::StrCat(archive_, std::string(1024, '\0'));
  }
  const std::vector<std::string>& not_read() const { return not_read_; }

 private:
  const CallContext& ctx_;
  const ClusterOptions& cluster_;
  const ProgramEnvironment& environment_;
  std::string archive_;
  std::vector<std::string> not_read_;
};

class DebugCommand : public Command {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--output", "FILE", "the new file (default: csi-delta-debug-TIME.tar)", output_);
    cluster_.DeclarePlaces(table);
    return {
        .name = "debug",
        .summary = "Write a file to attach to a report, without secrets",
        .details =
            "A tar archive of what version, doctor, status, bases list and deletions list print, "
            "and of settings, objects and logs of the data mover, storage locations, snapshot "
            "classes and Events. No Secret, annotation or environment is in it, and *** is in the "
            "place of words that look like secrets. What you may not read is listed in it, with "
            "the right that is missing.",
        .examples = {"debug", "debug --output report.tar --context prod"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (output_.empty()) {
      output_ = absl::FormatTime("csi-delta-debug-%Y%m%d-%H%M%S.tar", ctx.clock->Now(),
                                 absl::UTCTimeZone());
    }
    const UniqueFd file(
        ::open(output_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!file.valid()) {
      return absl::FailedPreconditionError(
          absl::StrCat(output_, ": ", std::strerror(errno), "; name a new file by --output"));
    }
    Bundle bundle(ctx, cluster_, session.environment());
    {
      ProgressMeter meter(session.console(), *ctx.clock, "reading the cluster");
      for (const auto& [name, line] :
           {std::pair("version.txt", "version --cluster"), std::pair("doctor.txt", "doctor --all"),
            std::pair("status.txt", "status --all -o wide"),
            std::pair("status.json", "status --all -o json"), std::pair("bases.txt", "bases list"),
            std::pair("deletions.txt", "deletions list --all")}) {
        meter.ReportCount(absl::StrCat("running ", line), 0, 0);
        bundle.AddVerb(name, line);
      }
      meter.ReportCount("reading objects and logs", 0, 0);
      AddCluster(ctx, *cluster_.access.MakeClient(), bundle);
    }
    for (const std::string& part : bundle.not_read()) {
      session.console().Info(absl::StrCat("not read: ", part));
    }
    if (!ctx.Check().ok() || !FdSink(file.get())(bundle.Finish())) {
      const absl::Status failed = absl::UnknownError(std::strerror(errno));
      ::unlink(output_.c_str());
      return Annotate(ctx.Check().ok() ? failed : ctx.Check(), output_);
    }
    session.console().PrintResult(
        {{"message_type", "result"}, {"file", output_}, {"not_read", bundle.not_read()}},
        absl::StrCat("wrote ", output_, "; read it before you attach it to a report\n"));
    return ExitCode::kOk;
  }

 private:
  void AddCluster(const CallContext& ctx, k8s::ApiClient& api, Bundle& bundle) const {
    const std::string& mover = cluster_.mover_namespace;
    const auto map =
        objects::Get<objects::ConfigMap>(ctx, api, mover, datamover::kSettingsConfigMap);
    const auto settings = map.ok() ? ParseJsonObject(map->Value(datamover::kSettingsKey))
                                   : absl::StatusOr<Json>(map.status());
    bundle.Add("settings.yaml", settings.ok()
                                    ? absl::StatusOr<std::string>(ToYaml(Excerpt(*settings)))
                                    : settings.status());
    if (absl::IsUnavailable(settings.status())) {
      return;  // Each further request would wait for the API server, too.
    }
    bundle.AddObjects(api, objects::VolumeTask::Type(), mover);
    bundle.AddLogs(api, bundle.AddObjects(api, objects::Pod::Type(), mover));
    bundle.AddObjects(api, objects::VolumeSnapshotClass::Type(), "");
    std::set<std::string> namespaces = absl::StrSplit(cluster_.velero_namespaces, ',');
    for (const std::string& velero : namespaces) {
      for (const k8s::ResourceType& type :
           {objects::DataUpload::Type(), objects::DataDownload::Type(),
            objects::DataDeletion::Type(), objects::ProtectedVolume::Type(),
            objects::BackupStorageLocation::Type()}) {
        bundle.AddObjects(api, type, velero);
      }
    }
    namespaces.insert(mover);
    for (const std::string& one : namespaces) {
      bundle.AddObjects(api, objects::Event::Type(), one);
    }
  }

  ClusterOptions cluster_;
  std::string output_;
};

}  // namespace

void AddDebugCommand(Commands& all) { AddEach<DebugCommand>(all); }

}  // namespace csidelta::cli
