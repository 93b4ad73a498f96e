#include <cstddef>
#include <map>
#include <memory>
#include <string>

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
#include "doctor/checkup.h"

namespace csidelta::cli {
namespace {

using doctor::Severity;

constexpr absl::Duration kTimeMax = absl::Seconds(55);
constexpr std::size_t kSeverityWidth = 9;  // of the longest one and two spaces

class DoctorCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
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
    return {.name = "doctor",
            .summary = "Find what will make backups or restores fail",
            .details =
                "Checks the cluster, Velero, its storage locations, the data mover, its keys and "
                "the CSI drivers within a minute, and names the remediation of each finding. If "
                "the API server does not answer, it ends within ten seconds. A fault that causes "
                "others is reported alone. Writes nothing to the cluster without --probe, and one "
                "small object to each bucket, which it deletes. Exit code 1 when it finds a fault.",
            .table = std::move(table),
            .family = VerbFamily::kMover,
            .examples = {"doctor", "doctor --probe --class fast --context prod"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (!options_.probe_class.empty() && !options_.probe) {
      return absl::InvalidArgumentError("--class needs --probe");
    }
    const ClusterOptions& cluster = session.options().cluster;
    options_.mover_namespace = cluster.mover_namespace;
    options_.velero_namespaces = absl::StrSplit(cluster.velero_namespaces, ',', absl::SkipEmpty());
    options_.open_store = [&session](const datamover::RepositoryAccess& access) {
      return OpenLocationStore(session.environment(), access);
    };
    const std::unique_ptr<k8s::ApiClient> api = cluster.access.MakeClient();
    if (!csi_address_.empty()) {
      options_.list_snapshots = [&](const CallContext& limited) {
        const auto secrets = [&](const std::string& driver) {
          return diffsnap::ReadListingSecrets(limited, *api, driver);
        };
        return diffsnap::ListStorage(limited, csi_address_, secrets, {});
      };
    }
    std::map<Severity, int64_t> counts;
    doctor::RunCheckup(ctx.WithTimeout(kTimeMax), *api, options_, *session.environment().random,
                       [&](const doctor::Finding& finding) {
                         ++counts[finding.severity];
                         ReportFinding(session.console(), finding);
                       });
    const Json totals = {
        {"message_type", "result"},           {"good", counts[Severity::kGood]},
        {"notes", counts[Severity::kNote]},   {"warnings", counts[Severity::kWarning]},
        {"faults", counts[Severity::kFault]}, {"unknown", counts[Severity::kUnknown]}};
    session.console().PrintResult(
        totals,
        absl::StrCat(Counted(counts[Severity::kFault], "fault"), ", ",
                     Counted(counts[Severity::kWarning], "warning"), ", ",
                     Counted(counts[Severity::kNote], "note"), ", ", counts[Severity::kUnknown],
                     " unknown, ", counts[Severity::kGood], " good\n"));
    return counts[Severity::kFault] == 0 ? ExitCode::kOk : ExitCode::kFailed;
  }

 private:
  void ReportFinding(Console& console, const doctor::Finding& finding) const {
    const std::string severity = doctor::ToString(finding.severity);
    if (console.options().json || console.options().yaml) {
      console.PrintJson({{"message_type", "finding"},
                         {"grade", severity},
                         {"check", finding.check},
                         {"subject", finding.subject},
                         {"text", finding.text},
                         {"cure", finding.remediation}});
      return;
    }
    if (finding.severity == Severity::kGood && !all_) {
      return;
    }
    console.Print(absl::StrCat(Padded(severity, kSeverityWidth), finding.check, ": ",
                               finding.subject, finding.subject.empty() ? "" : ": ", finding.text,
                               "\n"));
    if (!finding.remediation.empty()) {
      console.Print(absl::StrCat(std::string(kSeverityWidth, ' '), finding.remediation, "\n"));
    }
  }

  doctor::CheckupOptions options_;
  std::string csi_address_;
  bool all_ = false;
};

}  // namespace

void AddDoctorCommand(Commands& all) { AddEach<DoctorCommand>(all); }

}  // namespace csidelta::cli
