#include "k8s/read_pages.h"

#include "absl/status/statusor.h"

namespace csidelta::k8s {
namespace {

constexpr int kListTriesMax = 3;

absl::Status ReadAgainWhenTooOld(absl::FunctionRef<absl::StatusOr<std::string>()> read) {
  absl::Status status = read().status();
  for (int tries = 1; tries < kListTriesMax && absl::IsOutOfRange(status); ++tries) {
    status = read().status();
  }
  return status;
}

}  // namespace

absl::Status ReadPages(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                       absl::string_view namespace_name, const ListOptions& options,
                       absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink) {
  return ReadAgainWhenTooOld(
      [&] { return api.ListPages(ctx, type, namespace_name, options, sink); });
}

absl::Status ReadWanted(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                        absl::string_view namespace_name,
                        absl::FunctionRef<bool(absl::string_view name)> is_wanted,
                        absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink) {
  return ReadAgainWhenTooOld(
      [&] { return api.ListWanted(ctx, type, namespace_name, is_wanted, sink); });
}

}  // namespace csidelta::k8s
