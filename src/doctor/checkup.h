#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/random.h"
#include "datamover/repository_access.h"
#include "doctor/cluster_facts.h"
#include "doctor/finding.h"
#include "k8s/api_client.h"

namespace csidelta::doctor {

struct CheckupOptions {
  std::vector<std::string> velero_namespaces = {"velero"};
  std::string mover_namespace = "csi-delta";
  datamover::StoreOpener open_store;
  bool probe = false;            // also make the checks that make objects
  std::string probe_class = {};  // of this storage class alone; "": of those in use
};

// One check at work: what it may read, and where it says what it found.
class Visit {
 public:
  Visit(ClusterFacts& facts, const CheckupOptions& options, Random& random, absl::string_view check,
        const FindingSink& sink)
      : facts_(facts), options_(options), random_(random), check_(check), sink_(sink) {}

  ClusterFacts& facts() { return facts_; }
  const CallContext& ctx() const { return facts_.ctx(); }
  const CheckupOptions& options() const { return options_; }
  Random& random() { return random_; }

  void Good(std::string subject, std::string text);
  void Note(std::string subject, std::string text, std::string cure);
  void Warn(std::string subject, std::string text, std::string cure);
  void Fault(std::string subject, std::string text, std::string cure);
  // What could not be read, and why.
  void Unknown(std::string subject, const absl::Status& status);

  // The objects of a kind, or none after having said why they are not known.
  std::vector<objects::Object> Look(const k8s::ResourceType& type,
                                    absl::string_view namespace_name = "");
  template <typename Kind>
  std::vector<Kind> Look(absl::string_view namespace_name = "") {
    return objects::AllFrom<Kind>(Look(Kind::Type(), namespace_name));
  }

 private:
  void Say(Grade grade, std::string subject, std::string text, std::string cure);

  ClusterFacts& facts_;
  const CheckupOptions& options_;
  Random& random_;
  const absl::string_view check_;
  const FindingSink& sink_;
};

struct Check {
  absl::string_view name;      // kebab case; in documents and alerts, so it never changes
  absl::string_view question;  // what it looks at, as a sentence without a full stop
  void (*run)(Visit& visit);
  bool makes_objects = false;  // in the mover's namespace, and removes them
};

// All checks, in the order in which they are made.
absl::Span<const Check> AllChecks();

// Makes all checks and says what each found, at least one finding for each, as they are made. Each
// ends after 10 s or so, whatever it looks at. Writes nothing into the cluster, unless asked to
// probe; into a bucket one small object, which it deletes. Borrows `api`.
void RunCheckup(const CallContext& ctx, k8s::ApiClient& api, const CheckupOptions& options,
                Random& random, const FindingSink& sink);

}  // namespace csidelta::doctor
