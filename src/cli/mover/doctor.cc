#include <cstddef>
#include <map>
#include <memory>
#include <string>
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
#include "doctor/checkup.h"
#include "k8s/rest_client.h"

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
    return {.name = "doctor",
            .summary = "Find what will make backups or restores fail",
            .details =
                "Checks the cluster, Velero, its storage locations, the data mover, its keys and "
                "the CSI drivers within a minute, and lists what to do, each with its command: "
                "faults first, in the order in which they are mended. If the API server does not "
                "answer, it ends within ten seconds. A fault that causes others is reported alone. "
                "Writes nothing to the cluster without --probe, and one "
                "small object to each bucket, which it deletes. Exit code 1 when it finds a fault.",
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
    const std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(cluster.access.Settings());
    if (!csi_address_.empty()) {
      options_.list_snapshots = [&](const CallContext& limited) {
        const auto secrets = [&](const std::string& driver) {
          return diffsnap::ReadListingSecrets(limited, *api, driver);
        };
        return diffsnap::ListStorage(limited, csi_address_, secrets, {});
      };
    }
    Console& console = session.console();
    std::map<Severity, int64_t> counts;
    std::vector<doctor::Finding> findings;
    doctor::RunCheckup(ctx.WithTimeout(kTimeMax), *api, options_, *session.environment().random,
                       [&](const doctor::Finding& finding) {
                         ++counts[finding.severity];
                         if (console.options().json || console.options().yaml) {
                           PrintFinding(console, finding);
                         } else if (console.options().error_is_terminal) {
                           console.ShowLine(absl::StrCat("checking: ", finding.check));
                         }
                         findings.push_back(finding);
                       });
    const std::string next =
        counts[Severity::kFault] > 0 ? "csi-delta doctor" : "csi-delta try NAMESPACE";
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
  doctor::CheckupOptions options_;
  std::string csi_address_;
  bool all_ = false;
};

}  // namespace

void AddDoctorCommand(Commands& all) { AddEach<DoctorCommand>(all); }

}  // namespace csidelta::cli
