#pragma once

#include <functional>
#include <string>

namespace csidelta::doctor {

// What a finding means for backups: nothing to do; good to know; will cause failures later; backups
// or restores fail; could not be checked.
enum class Severity { kGood, kNote, kWarning, kFault, kUnknown };

// One answer of one check. A check that looks at several things has a finding for each.
struct Finding {
  Severity severity = Severity::kGood;
  std::string check;        // its name
  std::string subject;      // what was looked at: "location velero/default"; "" for the cluster
  std::string text;         // what was found, without a full stop
  std::string remediation;  // what to do; "" for kGood
};

using FindingSink = std::function<void(const Finding&)>;

// "good", "note", "warning", "fault", "unknown".
std::string WordOf(Severity severity);

}  // namespace csidelta::doctor
