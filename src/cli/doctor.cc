#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/location_store.h"
#include "cli/text.h"
#include "datamover/repository_access.h"
#include "doctor/checkup.h"

namespace csidelta::cli {
namespace {

using doctor::Grade;

constexpr absl::Duration kTimeMax = absl::Seconds(55);
constexpr std::size_t kGradeWidth = 9;  // of the longest one and two spaces

class DoctorCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    access_.DeclareAsKubectl(table);
    DeclareMoverPlaces(table, options_.mover_namespace, velero_namespaces_);
    table.Add("--all", "also what is good", all_);
    table.Add("--probe",
              "also make a claim of each storage class in use and a Pod that opens it, and remove "
              "them",
              options_.probe);
    table.Add("--class", "NAME",
              "with --probe: of this storage class alone, whether it is in use or not",
              options_.probe_class);
    return {.name = "doctor",
            .summary = "Look for what keeps backups from working, before they fail",
            .details =
                "Looks at the cluster, Velero, its storage locations, the mover, its keys and the "
                "CSI drivers, within a minute, and says what to do. Where the API server does not "
                "answer, "
                "it ends within ten seconds. A fault that explains others is said alone. Writes "
                "nothing into the cluster, unless --probe is given, and into each bucket one small "
                "object that it deletes. Exit code 1 when something is a fault.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (!options_.probe_class.empty() && !options_.probe) {
      return absl::InvalidArgumentError("--class is of no use without --probe");
    }
    options_.velero_namespaces = absl::StrSplit(velero_namespaces_, ',', absl::SkipEmpty());
    options_.open_store = [&session](const datamover::RepositoryAccess& access) {
      return OpenLocationStore(session.environment(), access);
    };
    const std::unique_ptr<k8s::ApiClient> api = access_.MakeClient();
    std::map<Grade, int64_t> counts;
    doctor::RunCheckup(ctx.WithTimeout(kTimeMax), *api, options_, *session.environment().random,
                       [&](const doctor::Finding& finding) {
                         ++counts[finding.grade];
                         Say(session.console(), finding);
                       });
    const Json totals = {{"message_type", "result"},        {"good", counts[Grade::kGood]},
                         {"notes", counts[Grade::kNote]},   {"warnings", counts[Grade::kWarning]},
                         {"faults", counts[Grade::kFault]}, {"unknown", counts[Grade::kUnknown]}};
    session.console().PrintResult(
        totals, absl::StrCat(Counted(counts[Grade::kFault], "fault"), ", ",
                             Counted(counts[Grade::kWarning], "warning"), ", ",
                             Counted(counts[Grade::kNote], "note"), ", ", counts[Grade::kUnknown],
                             " unknown, ", counts[Grade::kGood], " good\n"));
    return counts[Grade::kFault] == 0 ? ExitCode::kOk : ExitCode::kFailed;
  }

 private:
  void Say(Console& console, const doctor::Finding& finding) const {
    const absl::string_view grade = doctor::WordOf(finding.grade);
    if (console.options().json) {
      console.PrintJson({{"message_type", "finding"},
                         {"grade", std::string(grade)},
                         {"check", finding.check},
                         {"subject", finding.subject},
                         {"text", finding.text},
                         {"cure", finding.cure}});
      return;
    }
    if (finding.grade == Grade::kGood && !all_) {
      return;
    }
    console.Print(absl::StrCat(Padded(std::string(grade), kGradeWidth), finding.check, ": ",
                               finding.subject, finding.subject.empty() ? "" : ": ", finding.text,
                               "\n"));
    if (!finding.cure.empty()) {
      console.Print(absl::StrCat(std::string(kGradeWidth, ' '), finding.cure, "\n"));
    }
  }

  ClusterAccess access_;
  doctor::CheckupOptions options_;
  std::string velero_namespaces_ = "velero";
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDoctorCommand() { return std::make_unique<DoctorCommand>(); }

}  // namespace csidelta::cli
