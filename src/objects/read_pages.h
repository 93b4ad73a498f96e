#pragma once

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/read_pages.h"
#include "objects/client.h"

// k8s::ReadPages() and k8s::ReadWanted() in the types of objects/. What is of another kind is left
// out.
namespace csidelta::objects {

template <typename Kind>
using PageSink = absl::FunctionRef<void(std::vector<Kind> page, bool is_first)>;

// `sink` for a page as it is read, whose objects it takes. Borrows `sink`.
template <typename Kind>
auto OfJsonPage(const PageSink<Kind>& sink) {
  return [&sink](std::vector<Json>& page, bool is_first) {
    std::vector<Kind> all;
    all.reserve(page.size());
    for (Json& json : page) {
      if (absl::StatusOr<Kind> one = As<Kind>(std::move(json)); one.ok()) {
        all.push_back(*std::move(one));
      }
    }
    sink(std::move(all), is_first);
  };
}

template <typename Kind>
absl::Status ReadPages(const CallContext& ctx, k8s::ApiClient& api, const k8s::ResourceType& type,
                       absl::string_view namespace_name, const k8s::ListOptions& options,
                       PageSink<Kind> sink) {
  return k8s::ReadPages(ctx, api, type, namespace_name, options, OfJsonPage<Kind>(sink));
}

template <typename Kind>
absl::Status ReadWanted(const CallContext& ctx, k8s::ApiClient& api, const k8s::ResourceType& type,
                        absl::string_view namespace_name,
                        absl::FunctionRef<bool(absl::string_view name)> is_wanted,
                        PageSink<Kind> sink) {
  return k8s::ReadWanted(ctx, api, type, namespace_name, is_wanted, OfJsonPage<Kind>(sink));
}

}  // namespace csidelta::objects
