#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::diffsnap {

// An API server that also decides whose a token is and what its user may do. Set up before it is
// shared.
class FakeReviews : public support::FakeApiClient {
 public:
  struct Bearer {
    std::string user;
    std::string audience;
  };

  absl::StatusOr<Json> Create(const CallContext& ctx, const k8s::ResourceType& type,
                              absl::string_view namespace_name, const Json& object) override {
    if (type.plural != "tokenreviews" && type.plural != "subjectaccessreviews") {
      return FakeApiClient::Create(ctx, type, namespace_name, object);
    }
    ++reviews_;
    if (!failure.ok()) {
      return failure;
    }
    Json answer = object;
    answer["status"] = type.plural == "tokenreviews" ? ReviewToken(object) : ReviewRight(object);
    return answer;
  }

  // "user resource namespace/name"; for volumesnapshots without a name.
  void Allow(const std::string& right) {
    std::scoped_lock lock(mutex_);
    rights_.insert(right);
  }
  void Revoke() {
    std::scoped_lock lock(mutex_);
    rights_.clear();
  }

  int reviews() const { return reviews_; }

  std::map<std::string, Bearer> bearers;  // by token
  absl::Status failure;

 private:
  Json ReviewToken(const Json& object) const {
    const auto found = bearers.find(GetString(object, {"spec", "token"}));
    if (found == bearers.end()) {
      return {{"authenticated", false}, {"error", "unknown token"}};
    }
    return {{"authenticated", true},
            {"audiences", {found->second.audience}},
            {"user", {{"username", found->second.user}, {"groups", {"everybody"}}}}};
  }

  Json ReviewRight(const Json& object) {
    std::scoped_lock lock(mutex_);
    const std::string name = GetString(object, {"spec", "resourceAttributes", "name"});
    const std::string right =
        absl::StrCat(GetString(object, {"spec", "user"}), " ",
                     GetString(object, {"spec", "resourceAttributes", "resource"}), " ",
                     GetString(object, {"spec", "resourceAttributes", "namespace"}),
                     name.empty() ? "" : "/", name);
    return {{"allowed", rights_.count(right) > 0}};
  }

  std::atomic<int> reviews_ = 0;
  std::mutex mutex_;
  std::set<std::string> rights_;  // Guarded by mutex_.
};

}  // namespace csidelta::diffsnap
