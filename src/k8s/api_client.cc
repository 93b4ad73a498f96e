#include "k8s/api_client.h"

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"

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

std::string ToString(const ResourceType& type) {
  return type.group.empty() ? type.plural : absl::StrCat(type.plural, ".", type.group);
}

std::string ToString(const ObjectKey& key) {
  return absl::StrCat(ToString(key.type), " ", key.namespace_name,
                      key.namespace_name.empty() ? "" : "/", key.name);
}

std::string NameText(const ObjectKey& key) {
  return absl::StrCat(key.type.kind, " ", key.namespace_name, key.namespace_name.empty() ? "" : "/",
                      key.name);
}

absl::StatusOr<std::optional<Json>> Find(const CallContext& ctx, ApiClient& api,
                                         const ObjectKey& key) {
  absl::StatusOr<Json> object = api.Get(ctx, key);
  if (absl::IsNotFound(object.status())) {
    return std::optional<Json>();
  }
  RETURN_IF_ERROR(object.status());
  return std::optional<Json>(*std::move(object));
}

absl::Status IgnoreNotFound(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status IgnoreGone(const absl::Status& status) {
  return absl::IsAborted(status) ? absl::OkStatus() : IgnoreNotFound(status);
}

bool IsDeniedByWebhook(absl::string_view message) {
  constexpr absl::string_view kBegin = "admission webhook \"";
  const std::size_t begin = message.find(kBegin);
  if (begin == absl::string_view::npos) {
    return false;
  }
  const absl::string_view rest = message.substr(begin + kBegin.size());
  const std::size_t end = rest.find('"');
  return end != absl::string_view::npos &&
         absl::StartsWith(rest.substr(end + 1), " denied the request");
}

bool IsWebhookAway(absl::string_view message) {
  // What denies may say of its reasons what it likes.
  return absl::StrContains(message, "failed calling webhook \"") && !IsDeniedByWebhook(message);
}

bool IsNamespaceTerminating(absl::string_view message) {
  return absl::StrContains(message, "because it is being terminated");
}

absl::Status ReadPages(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                       absl::string_view namespace_name, const ListOptions& options,
                       PageSink sink) {
  return ReadAgainWhenTooOld(
      [&] { return api.ListPages(ctx, type, namespace_name, options, sink); });
}

absl::Status ReadWanted(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                        absl::string_view namespace_name, NameFilter is_wanted, PageSink sink) {
  return ReadAgainWhenTooOld(
      [&] { return api.ListWanted(ctx, type, namespace_name, is_wanted, sink); });
}

}  // namespace csidelta::k8s
