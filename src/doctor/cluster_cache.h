#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/object.h"

namespace csidelta::doctor {

// Kinds that only doctor reads.
inline constexpr objects::KindName kCsiDriverKind = {"storage.k8s.io", "v1", "csidrivers",
                                                     "CSIDriver", /*is_namespaced=*/false};
inline constexpr objects::KindName kPriorityClassKind = {
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", /*is_namespaced=*/false};
inline constexpr objects::KindName kScheduleKind = {"velero.io", "v1", "schedules", "Schedule"};

// The objects of the API server, read once for all checks. Borrows `api`. Not thread-safe.
class ClusterCache {
 public:
  ClusterCache(const CallContext& ctx, k8s::ApiClient& api) : ctx_(ctx), api_(api) {}

  // All objects of a kind, in a namespace or in all (""). NOT_FOUND: the kind is not served.
  // Valid as long as this object. DataUploads and DataDownloads that are over are reduced to their
  // outcome, see DataTransfer::ReduceToOutcome().
  const absl::StatusOr<std::vector<objects::Object>>& List(const k8s::ResourceType& type,
                                                           absl::string_view namespace_name = "");
  // As objects of that kind; objects of another kind are omitted.
  template <typename Kind>
  absl::StatusOr<std::vector<Kind>> List(absl::string_view namespace_name = "") {
    const absl::StatusOr<std::vector<objects::Object>>& list = List(Kind::Type(), namespace_name);
    RETURN_IF_ERROR(list.status());
    return objects::AllFrom<Kind>(*list);
  }

  // The one of this name; NOT_FOUND when the list has none.
  absl::StatusOr<objects::Object> Find(const k8s::ResourceType& type,
                                       absl::string_view namespace_name, absl::string_view name);
  template <typename Kind>
  absl::StatusOr<Kind> Find(absl::string_view namespace_name, absl::string_view name) {
    ASSIGN_OR_RETURN(const objects::Object found, Find(Kind::Type(), namespace_name, name));
    return Kind::From(found);
  }

  const CallContext& ctx() const { return ctx_; }
  k8s::ApiClient& api() { return api_; }

 private:
  using Key = std::pair<std::string, std::string>;  // kind, namespace

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::map<Key, absl::StatusOr<std::vector<objects::Object>>> lists_;
};

}  // namespace csidelta::doctor
