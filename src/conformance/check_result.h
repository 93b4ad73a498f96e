#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::conformance {

enum class Verdict { kPass, kFail, kNotApplicable };

// What a driver is held to, once.
struct CheckResult {
  Verdict verdict = Verdict::kPass;
  std::string subject;  // what was asked: "delta 1-2"
  std::string rule;     // the name of a rule
  std::string detail;   // what is wrong, and where; or why the rule does not apply
};

using CheckResultSink = std::function<void(const CheckResult&)>;

// What a rule demands, as a sentence without a full stop. REQUIRES the name of a rule.
absl::string_view RuleText(absl::string_view rule);

// A failure with `fault` as its detail, or a pass when there is no fault.
CheckResult MakeCheckResult(absl::string_view subject, absl::string_view rule, std::string fault);

}  // namespace csidelta::conformance
