#pragma once

#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/random.h"
#include "datamover/repository_access.h"
#include "diffsnap/snapshot_listing.h"
#include "doctor/cluster_cache.h"
#include "k8s/api_client.h"

namespace csidelta::doctor {

// The meaning for backups, in this order: nothing to do; good to know; will cause failures later;
// backups or restores fail; could not be checked.
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
std::string ToString(Severity severity);

struct CheckupOptions {
  std::vector<std::string> velero_namespaces = {"velero"};
  std::string mover_namespace = "csi-delta";
  datamover::StoreOpener open_store;
  // Asks a CSI driver what its storage has; null: none is asked.
  std::function<absl::StatusOr<diffsnap::StoredSnapshots>(const CallContext& ctx)> list_snapshots;
  bool probe = false;            // also make the checks that make objects
  std::string probe_class = {};  // of this storage class alone; "": of those in use
  std::string restore = {};      // all of what this Restore left without data; "": a count of each
  // For the first answer of the API server, with retries and a log-in program.
  absl::Duration reach_time_max = absl::Seconds(9);
};

// The context of one check: what it may read, and the sink of its findings.
class CheckContext {
 public:
  CheckContext(ClusterCache& cache, const CheckupOptions& options, Random& random,
               absl::string_view check, const FindingSink& sink)
      : cache_(cache), options_(options), random_(random), check_(check), sink_(sink) {}

  ClusterCache& cache() { return cache_; }
  const CallContext& ctx() const { return cache_.ctx(); }
  const CheckupOptions& options() const { return options_; }
  Random& random() { return random_; }
  // Whether more than `age` has passed since then; false if that is not known.
  bool IsPast(std::optional<absl::Time> since, absl::Duration age) const {
    return since.has_value() && *since + age < ctx().clock->Now();
  }

  void Good(std::string subject, std::string text) {
    Report(Severity::kGood, std::move(subject), std::move(text), "");
  }
  void Note(std::string subject, std::string text, std::string remediation) {
    Report(Severity::kNote, std::move(subject), std::move(text), std::move(remediation));
  }
  void Warn(std::string subject, std::string text, std::string remediation) {
    Report(Severity::kWarning, std::move(subject), std::move(text), std::move(remediation));
  }
  void Fault(std::string subject, std::string text, std::string remediation) {
    Report(Severity::kFault, std::move(subject), std::move(text), std::move(remediation));
  }
  // What could not be read, and why; nothing of an OK status.
  void Unknown(std::string subject, const absl::Status& status, std::string remediation = "");
  // Whether `status` is OK; else Unknown().
  bool IsKnown(std::string subject, const absl::Status& status);
  // Whether `status` is NOT_FOUND; another error is Unknown().
  bool IsMissing(std::string subject, const absl::Status& status);
  // Call it after a finding that explains the findings of dependent checks: these are not made.
  void ExplainsOthers() { explains_others_ = true; }
  bool explains_others() const { return explains_others_; }

  // The objects of a kind, or none after having said why they are not known.
  std::vector<objects::Object> List(const k8s::ResourceType& type,
                                    absl::string_view namespace_name = "");
  template <typename Kind>
  std::vector<Kind> List(absl::string_view namespace_name = "") {
    const std::vector<objects::Object>* list = Listed(Kind::Type(), namespace_name);
    return list == nullptr ? std::vector<Kind>() : objects::AllFrom<Kind>(*list);
  }
  // The same in the namespaces of all Veleros.
  template <typename Kind>
  std::vector<Kind> ListInVeleros() {
    std::vector<Kind> all;
    for (const std::string& space : options_.velero_namespaces) {
      absl::c_move(List<Kind>(space), std::back_inserter(all));
    }
    return all;
  }

 private:
  // nullptr after having said why they are not known, and where the kind is not served.
  const std::vector<objects::Object>* Listed(const k8s::ResourceType& type,
                                             absl::string_view namespace_name);
  void Report(Severity severity, std::string subject, std::string text, std::string remediation);

  ClusterCache& cache_;
  const CheckupOptions& options_;
  Random& random_;
  const absl::string_view check_;
  const FindingSink& sink_;
  bool explains_others_ = false;
};

struct Check {
  absl::string_view name;      // kebab case; in documents and alerts, so it never changes
  absl::string_view question;  // what it looks at, as a sentence without a full stop
  void (*run)(CheckContext& context);
  bool makes_objects = false;  // in the mover's namespace, and removes them
};

// All checks, in the order in which they are made.
absl::Span<const Check> AllChecks();

// The checks that explain what `check` would find, where they fail. Each is made before it.
std::vector<absl::string_view> PrerequisitesOf(absl::string_view check);

// Makes all checks and says what each found, at least one finding for each, as they are made. Each
// ends after 20 s or so, whatever it looks at. Each cause is reported once. A check whose
// prerequisite failed is not made, and a reason why something could not be read is not repeated. A
// last finding for each such cause counts the checks that are missing because of it. Without
// --probe it writes nothing into the cluster, but asks the API server for dry runs. Into a bucket
// it writes one small object, which it deletes. Borrows `api`.
void RunCheckup(const CallContext& ctx, k8s::ApiClient& api, const CheckupOptions& options,
                Random& random, const FindingSink& sink);

}  // namespace csidelta::doctor
