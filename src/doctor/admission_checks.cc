#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "doctor/checks.h"
#include "objects/cluster.h"

namespace csidelta::doctor {
namespace {

using objects::ValidatingAdmissionPolicy;
using Binding = objects::ValidatingAdmissionPolicyBinding;

// A policy of the chart, and what is possible without it.
struct ChartPolicy {
  const char* name;
  const char* value;  // of the chart
  const char* risk;
};

constexpr ChartPolicy kPolicies[] = {
    {"csi-delta-worker", "admission.workers",
     "a worker that was taken over can write the tasks of other volumes"},
    {"csi-delta-mover-volumes", "admission.volumes",
     "with a stolen token of the controller a PersistentVolume of hostPath can be made"},
};

void ReportPolicy(CheckContext& context, const ChartPolicy& policy,
                  const std::vector<Binding>& bindings) {
  const std::string subject = absl::StrCat("ValidatingAdmissionPolicy ", policy.name);
  const absl::StatusOr<ValidatingAdmissionPolicy> found =
      context.cache().Find<ValidatingAdmissionPolicy>("", policy.name);
  if (context.IsMissing(subject, found.status())) {
    context.Warn(subject, absl::StrCat("was not found: ", policy.risk),
                 absl::StrCat(HelmCommand(context, "upgrade --reset-then-reuse-values"), " --set ",
                              policy.value, "=true"));
  }
  if (!found.ok()) {
    return;
  }
  bool is_bound = false;
  for (const Binding& binding : bindings) {
    is_bound = is_bound || (binding.policy() == policy.name && binding.denies());
  }
  if (!is_bound || !found->fails_closed()) {
    context.Warn(subject,
                 absl::StrCat(is_bound ? "has failurePolicy Ignore: " : "is not bound to deny: ",
                              policy.risk),
                 HelmCommand(context, "upgrade --reset-then-reuse-values"));
    return;
  }
  context.Good(subject, "is bound and denies");
}

}  // namespace

void CheckMoverAdmission(CheckContext& context) {
  const std::string subject = "ValidatingAdmissionPolicies";
  const absl::Status served = context.cache().List(ValidatingAdmissionPolicy::Type()).status();
  if (context.IsMissing(subject, served)) {
    context.Warn("API server",
                 absl::StrCat("has no ValidatingAdmissionPolicy: ", kPolicies[0].risk, ", and ",
                              kPolicies[1].risk),
                 "upgrade Kubernetes to 1.30 or newer, then upgrade the chart");
  }
  const absl::StatusOr<std::vector<Binding>> bindings = context.cache().List<Binding>();
  if (!served.ok() || !context.IsKnown(subject, bindings.status())) {
    return;
  }
  for (const ChartPolicy& policy : kPolicies) {
    ReportPolicy(context, policy, *bindings);
  }
}

}  // namespace csidelta::doctor
