#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "k8s/api_client.h"

namespace csidelta::host {

// What happens to some calls of a user. "" and "*" match everything.
struct Rule {
  std::string user;
  std::string verb;
  std::string plural;
  int every = 0;        // each so-many-th matching call
  absl::Status status;  // not OK: the answer
  bool lost = false;    // the call does its work first
  // A file with the id of the process to kill, once: before the `call`-th matching call, from 1,
  // after so many writes of anybody since the rule was made, or the first one after more writes.
  std::string kill;
  int writes = 0;
  int call = 1;
};

// A call of a user, or one at which he was killed.
struct GatedCall {
  std::string text;  // "verb plural namespace/name"
  int writes = 0;    // of anybody since the last ForgetCalls(), before it
};

// An ApiClient in front of another one: counts the calls of each user, fails them by rules, and
// kills a caller between two calls. Who calls is what SetUser() said last in the thread.
// Thread-safe.
class GatedClient : public k8s::ApiClient {
 public:
  explicit GatedClient(k8s::ApiClient& behind) : behind_(behind) {}

  static void SetUser(const std::string& user);

  void AddRule(Rule rule);
  // Forgets rules; those of a kill that did not come yet, too.
  void ClearRules();
  // The calls of a user since the last ForgetCalls().
  std::vector<GatedCall> calls(const std::string& user) const;
  void ForgetCalls();
  std::vector<GatedCall> kills() const;
  // How many calls a rule has met, in the order in which they were made.
  std::vector<int> hits() const;

  absl::StatusOr<Json> Get(const CallContext& ctx, const k8s::ObjectKey& key) override;
  absl::StatusOr<k8s::ObjectList> List(const CallContext& ctx, const k8s::ResourceType& type,
                                       absl::string_view namespace_name,
                                       const k8s::ListOptions& options) override;
  absl::StatusOr<Json> Create(const CallContext& ctx, const k8s::ResourceType& type,
                              absl::string_view namespace_name, const Json& object) override;
  absl::StatusOr<Json> DryRunCreate(const CallContext& ctx, const k8s::ResourceType& type,
                                    absl::string_view namespace_name, const Json& object) override;
  absl::StatusOr<Json> CreateSubresource(const CallContext& ctx, const k8s::ObjectKey& key,
                                         absl::string_view subresource,
                                         const Json& object) override;
  absl::StatusOr<Json> Update(const CallContext& ctx, const k8s::ObjectKey& key,
                              const Json& object) override;
  absl::StatusOr<Json> Patch(const CallContext& ctx, const k8s::ObjectKey& key, k8s::PatchKind kind,
                             const Json& patch, absl::string_view subresource) override;
  absl::Status Delete(const CallContext& ctx, const k8s::ObjectKey& key,
                      const k8s::DeleteOptions& options) override;
  absl::Status Watch(const CallContext& ctx, const k8s::ResourceType& type,
                     absl::string_view namespace_name, const k8s::WatchOptions& options,
                     absl::FunctionRef<bool(const k8s::WatchEvent&)> sink) override;

 private:
  struct Verdict {
    absl::Status refused;
    absl::Status lost;
  };
  struct Counted {
    Rule rule;
    int first_write = 0;
    int seen = 0;
    int hits = 0;
  };

  // Whether a rule is for this call.
  bool Meets(Counted& counted) const;
  Verdict Admit(const std::string& verb, const k8s::ResourceType& type,
                absl::string_view namespace_name, absl::string_view name);

  k8s::ApiClient& behind_;
  mutable std::mutex mutex_;
  std::vector<Counted> rules_;
  std::map<std::string, std::vector<GatedCall>> calls_;
  std::vector<GatedCall> kills_;
  int writes_ = 0;
  int forgotten_writes_ = 0;
};

}  // namespace csidelta::host
