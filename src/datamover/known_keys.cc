#include "datamover/known_keys.h"

#include <stop_token>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

template <typename Kind>
std::string NameOf(const Kind& object) {
  return absl::StrCat(Kind::kKind.kind, " ", object.namespace_name(), "/", object.name());
}

std::optional<KnownKey> KeyOf(const objects::DataUpload& upload, const std::string& location) {
  if (!upload.is_managed() || upload.storage_location() != location) {
    return std::nullopt;
  }
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(upload.snapshot_id());
  const std::string fingerprint =
      reference.ok() ? reference->key : upload.Annotation(objects::kMoverKeyAnnotation);
  return fingerprint.empty()
             ? std::nullopt
             : std::optional(KnownKey{.source = NameOf(upload), .fingerprint = fingerprint});
}

std::optional<KnownKey> KeyOf(const objects::ProtectedVolume& volume, const std::string& location) {
  const std::optional<objects::LastGoodBackup> backup = volume.status().last_good;
  if (volume.spec().location != location || !backup.has_value()) {
    return std::nullopt;
  }
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(backup->snapshot_id);
  return KnownKey{.source = NameOf(volume), .fingerprint = reference.ok() ? reference->key : ""};
}

// Nothing where the kind is not served.
template <typename Kind>
absl::StatusOr<std::optional<KnownKey>> FindIn(const CallContext& ctx, k8s::ApiClient& api,
                                               const std::string& velero_namespace,
                                               const std::string& location) {
  std::optional<KnownKey> known;
  std::stop_source enough;
  const std::stop_callback passed_on(ctx.stop, [&enough] { enough.request_stop(); });
  CallContext until_found = ctx;
  until_found.stop = enough.get_token();
  const auto look = [&](auto& page, bool /*is_first*/) {
    const absl::StatusOr<std::vector<Kind>> objects = objects::AllAs<Kind>(std::move(page));
    for (std::size_t i = 0; objects.ok() && i < objects->size() && !known.has_value(); ++i) {
      known = KeyOf((*objects)[i], location);
    }
    if (known.has_value()) {
      enough.request_stop();
    }
  };
  const absl::Status listed = k8s::IgnoreNotFound(
      api.ListPages(until_found, Kind::Type(), velero_namespace, {}, look).status());
  if (!known.has_value()) {
    RETURN_IF_ERROR(listed);
  }
  return known;
}

}  // namespace

absl::StatusOr<std::optional<KnownKey>> FindKnownKey(const CallContext& ctx, k8s::ApiClient& api,
                                                     const std::string& velero_namespace,
                                                     const std::string& location) {
  // There are fewer of these.
  ASSIGN_OR_RETURN(std::optional<KnownKey> known,
                   FindIn<objects::ProtectedVolume>(ctx, api, velero_namespace, location));
  if (!known.has_value()) {
    ASSIGN_OR_RETURN(known, FindIn<objects::DataUpload>(ctx, api, velero_namespace, location));
  }
  return known;
}

}  // namespace csidelta::datamover
