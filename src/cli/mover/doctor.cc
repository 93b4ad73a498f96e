#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/location_store.h"
#include "cli/text.h"
#include "datamover/repository_access.h"
#include "diffsnap/class_secrets.h"
#include "diffsnap/snapshot_listing.h"
#include "doctor/bucket_checkup.h"
#include "doctor/checkup.h"
#include "k8s/rest_client.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"

namespace csidelta::cli {
namespace {

using doctor::Severity;

constexpr absl::Duration kTimeMax = absl::Seconds(55);
constexpr std::size_t kSeverityWidth = 9;  // of the longest one and two spaces
constexpr char kNoColor[] = "\x1b[0m";
constexpr std::pair<Severity, const char*> kOrder[] = {{Severity::kFault, "\x1b[31m"},
                                                       {Severity::kWarning, "\x1b[33m"},
                                                       {Severity::kUnknown, "\x1b[35m"},
                                                       {Severity::kNote, "\x1b[36m"},
                                                       {Severity::kGood, "\x1b[32m"}};

void PrintFinding(Console& console, const doctor::Finding& finding) {
  console.PrintJson({{"message_type", "finding"},
                     {"grade", doctor::ToString(finding.severity)},
                     {"check", finding.check},
                     {"subject", finding.subject},
                     {"text", finding.text},
                     {"cure", finding.remediation}});
}

// What is to be done first comes first: by severity, then in the order of the checks. Faults and
// warnings are numbered.
std::string Checklist(const std::vector<doctor::Finding>& findings, bool has_colors,
                      bool shows_good) {
  std::string text;
  int steps = 0;
  for (const auto& [severity, color] : kOrder) {
    for (const doctor::Finding& finding : findings) {
      if (finding.severity != severity || (severity == Severity::kGood && !shows_good)) {
        continue;
      }
      const bool is_step = severity == Severity::kFault || severity == Severity::kWarning;
      absl::StrAppend(
          &text, has_colors ? color : "", Padded(doctor::ToString(severity), kSeverityWidth),
          has_colors ? kNoColor : "", is_step ? absl::StrCat(++steps, ". ") : "",
          PrintableLines(absl::StrCat(finding.check, ": ", finding.subject,
                                      finding.subject.empty() ? "" : ": ", finding.text, "\n")));
      if (!finding.remediation.empty()) {
        absl::StrAppend(&text, std::string(kSeverityWidth, ' '),
                        PrintableLines(finding.remediation), "\n");
      }
    }
  }
  return text;
}

// Where credentials come from, as far as it is known before the first request.
std::string CredentialSource(const engine::RepositoryTarget& target, const GetVariable& get) {
  const storage::CredentialsEnvironment& environment = target.settings.environment;
  const std::string& key = environment.keys.access_key_id;
  if (target.location.kind == storage::Location::Kind::kDirectory) {
    return "a directory is used with the rights of this user";
  }
  if (target.location.kind != storage::Location::Kind::kS3 ||
      (key.empty() && environment.role_arn.empty())) {
    return "the first way to sign in that docs/buckets.md lists and that is set up";
  }
  return key.empty()
             ? absl::StrCat("role ", environment.role_arn, " by a web identity")
             : absl::StrCat("access key ", key, " of ",
                            key == Variable(get, "AWS_ACCESS_KEY_ID") ? "AWS_ACCESS_KEY_ID"
                                                                      : "the location's Secret");
}

void AddBucketFlags(ArgumentTable& table, GlobalOptions& options) {
  table.Add("-r,--repo", "REPO", "with --bucket: the repository, no cluster is needed",
            options.choice.repository);
  table.Add("--pvc", "NS/NAME", "with --bucket: the repository of this PVC's newest backup",
            options.in_cluster.pvc);
  table.Add("--location", "NAME", "with --bucket: the data mover's folder of this location",
            options.in_cluster.location);
  table.Add("--cacert", "FILE", "with --bucket: certificates to trust, as PEM", options.ca_file);
  table.Add("--insecure-tls", "with --bucket: do not verify the certificate of its server",
            options.insecure_tls);
  table.AddList("--option", "KEY=VALUE", "with --bucket: a setting of the bucket, as of backup",
                options.store_options);
  table.AddOptionalPositional("REPO", "with --bucket: the same as --repo",
                              options.choice.repository);
}

// The repository of `options`, which are those of --bucket.
absl::StatusOr<engine::RepositoryTarget> BucketTarget(const CallContext& ctx,
                                                      GlobalOptions& options, Session& session) {
  const ClusterOptions& cluster = session.options().cluster;
  ClusterRepositoryFlags& flags = options.in_cluster;
  ASSIGN_OR_RETURN(flags.velero_namespace, cluster.OneVelero());
  flags.mover_namespace = cluster.mover_namespace;
  flags.cluster = cluster.access;
  if (!flags.pvc.empty() || flags.location.empty()) {
    return Session(options, session.environment(), session.console()).Target(ctx, LockKind::kWrite);
  }
  const std::unique_ptr<k8s::ApiClient> api = cluster.access.MakeClient();
  const k8s::ObjectKey key =
      objects::BackupStorageLocation::Key(flags.velero_namespace, flags.location);
  ASSIGN_OR_RETURN(const auto location,
                   objects::Get<objects::BackupStorageLocation>(ctx, *api, key));
  ASSIGN_OR_RETURN(const datamover::RepositoryAccess access,
                   datamover::OpenLocationAccess(ctx, *api, location));
  ASSIGN_OR_RETURN(engine::RepositoryTarget target,
                   TargetOf(access, options, session.environment().get));
  target.settings.read_only = location.is_read_only();
  return target;
}

// Of a directory: folders in which nothing is left are not removed with their objects.
void RemoveEmptyFolders(const std::filesystem::path& folder) {
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (std::filesystem::is_directory(entry.symlink_status(unreadable))) {
      RemoveEmptyFolders(entry.path());
    }
  }
  std::filesystem::remove(folder, unreadable);  // Not if it has anything in it.
}

absl::Status TryBucket(const CallContext& ctx, GlobalOptions& flags, Session& session,
                       const doctor::FindingSink& sink) {
  const ProgramEnvironment& environment = session.environment();
  ASSIGN_OR_RETURN(engine::RepositoryTarget target, BucketTarget(ctx, flags, session));
  storage::S3Options& s3 = target.settings.s3;
  s3.object_lock_mode.clear();
  const doctor::BucketCheckupOptions options = {
      .kind = target.location.kind,
      .bucket = target.location.bucket,
      .prefix = target.location.prefix,
      .credentials = CredentialSource(target, environment.get),
      .storage_class = s3.storage_class,
      .is_read_only = target.settings.read_only,
      .lock_duration = std::exchange(s3.object_lock_duration, absl::ZeroDuration())};
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::OpenedStore> opened,
                   environment.open_store(target.location, target.settings, *environment.random));
  const absl::Status status =
      doctor::RunBucketCheckup(ctx, opened->store(), options, *environment.random, sink);
  if (options.kind == storage::Location::Kind::kDirectory) {
    RemoveEmptyFolders(std::filesystem::path(target.location.directory) / "doctor");
  }
  return status;
}

class DoctorCommand : public Command {
 public:
  DoctorCommand() : Command(VerbFamily::kMover) {}

  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--all", "also show checks that found nothing", all_);
    table.Add("--probe",
              "also create a PVC of each storage class in use and a Pod that opens it, and delete "
              "them",
              options_.probe);
    table.Add("--csi-address", "ADDRESS",
              "socket of a CSI driver's controller, such as unix:///csi/csi.sock: asks whether the "
              "storage has all snapshots that the cluster names",
              csi_address_);
    table.Add("--class", "NAME", "with --probe: only this storage class, in use or not",
              options_.probe_class);
    table.Add("--restore", "NAME",
              "also name each PVC that this Restore of Velero left without data, as it existed "
              "before, and the command that brings it",
              options_.restore);
    table.Add("--bucket",
              "instead: try what backups do in a scratch folder of one repository's bucket, which "
              "is removed again: --repo, --pvc or --location, else $RESTIC_REPOSITORY",
              tries_bucket_);
    AddBucketFlags(table, bucket_);
    return {.name = "doctor",
            .summary = "Find what will make backups or restores fail",
            .details =
                "Checks the cluster, Velero, its storage locations, the data mover, its keys and "
                "the CSI drivers within a minute, and lists what to do, each with its command: "
                "faults first, in the order in which they are mended. If the API server does not "
                "answer, it ends within ten seconds. A fault that causes others is reported alone. "
                "Writes nothing to the cluster without --probe, and one "
                "small object to each bucket, which it deletes. With --bucket it needs no cluster, "
                "and looks at one bucket alone. Exit code 1 when it finds a fault.",
            .examples = {"doctor", "doctor --probe --class fast --context prod",
                         "doctor --bucket s3:https://HOST/BUCKET/PREFIX"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (!options_.probe_class.empty() && !options_.probe) {
      return absl::InvalidArgumentError("--class needs --probe");
    }
    if (!tries_bucket_ &&
        (bucket_.choice != RepositoryChoice() || !bucket_.in_cluster.pvc.empty() ||
         !bucket_.in_cluster.location.empty())) {
      return absl::InvalidArgumentError("a repository or location needs --bucket");
    }
    Console& console = session.console();
    std::map<Severity, int64_t> counts;
    std::vector<doctor::Finding> findings;
    const doctor::FindingSink sink = [&](const doctor::Finding& finding) {
      ++counts[finding.severity];
      if (console.options().json || console.options().yaml) {
        PrintFinding(console, finding);
      } else if (console.options().error_is_terminal) {
        console.ShowLine(absl::StrCat("checking: ", finding.check));
      }
      findings.push_back(finding);
    };
    if (tries_bucket_) {
      RETURN_IF_ERROR(TryBucket(ctx, bucket_, session, sink));
    } else {
      CheckCluster(ctx, session, sink);
    }
    const std::string next = tries_bucket_                  ? "csi-delta doctor"
                             : counts[Severity::kFault] > 0 ? "csi-delta doctor"
                                                            : "csi-delta try NAMESPACE";
    const Json totals = {{"message_type", "result"},
                         {"good", counts[Severity::kGood]},
                         {"notes", counts[Severity::kNote]},
                         {"warnings", counts[Severity::kWarning]},
                         {"faults", counts[Severity::kFault]},
                         {"unknown", counts[Severity::kUnknown]},
                         {"next", next}};
    console.PrintResult(
        totals, "",
        absl::StrCat(Checklist(findings, HasColors(session.environment()), all_),
                     Counted(counts[Severity::kFault], "fault"), ", ",
                     Counted(counts[Severity::kWarning], "warning"), ", ",
                     Counted(counts[Severity::kNote], "note"), ", ", counts[Severity::kUnknown],
                     " unknown, ", counts[Severity::kGood], " good\nthen: ", next, "\n"));
    return counts[Severity::kFault] == 0 ? ExitCode::kOk : ExitCode::kFailed;
  }

 private:
  void CheckCluster(const CallContext& ctx, Session& session, const doctor::FindingSink& sink) {
    const ClusterOptions& cluster = session.options().cluster;
    options_.mover_namespace = cluster.mover_namespace;
    options_.velero_namespaces = absl::StrSplit(cluster.velero_namespaces, ',', absl::SkipEmpty());
    options_.open_store = [&session](const datamover::RepositoryAccess& access) {
      return OpenLocationStore(session.environment(), access);
    };
    const std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(cluster.access.Settings());
    if (!csi_address_.empty()) {
      options_.list_snapshots = [&](const CallContext& limited) {
        const auto secrets = [&](const std::string& driver) {
          return diffsnap::ReadListingSecrets(limited, *api, driver);
        };
        return diffsnap::ListStorage(limited, csi_address_, secrets, {});
      };
    }
    doctor::RunCheckup(ctx.WithTimeout(kTimeMax), *api, options_, *session.environment().random,
                       sink);
  }

  doctor::CheckupOptions options_;
  bool tries_bucket_ = false;
  GlobalOptions bucket_;  // of --bucket
  std::string csi_address_;
  bool all_ = false;
};

}  // namespace

void AddDoctorCommand(Commands& all) { AddEach<DoctorCommand>(all); }

}  // namespace csidelta::cli
