#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::k8s {

// Reads a list page by page, as ApiClient::ListPages() does; again from its beginning where it grew
// too old between two pages, as a list of many pages may on a busy API server: three times at most.
// The objects of a page are the sink's to take.
absl::Status ReadPages(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                       absl::string_view namespace_name, const ListOptions& options,
                       absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink);

// The same by ApiClient::ListWanted().
absl::Status ReadWanted(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                        absl::string_view namespace_name,
                        absl::FunctionRef<bool(absl::string_view name)> is_wanted,
                        absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink);

}  // namespace csidelta::k8s
