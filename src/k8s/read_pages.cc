#include "k8s/read_pages.h"

namespace csidelta::k8s {
namespace {

constexpr int kListTriesMax = 3;

}  // namespace

absl::Status ReadPages(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                       absl::string_view namespace_name, const ListOptions& options,
                       absl::FunctionRef<void(const std::vector<Json>& page, bool is_first)> sink) {
  absl::Status read = absl::OkStatus();
  for (int tries = 0; tries < kListTriesMax; ++tries) {
    read = api.ListPages(ctx, type, namespace_name, options, sink).status();
    if (!absl::IsOutOfRange(read)) {
      break;
    }
  }
  return read;
}

}  // namespace csidelta::k8s
