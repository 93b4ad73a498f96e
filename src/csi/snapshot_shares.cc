#include "csi/snapshot_shares.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "csi/snapshot_lifecycle.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// Nothing: it may not be read.
template <typename Kind>
absl::StatusOr<std::optional<std::optional<Kind>>> FindIfAllowed(const CallContext& ctx,
                                                                 k8s::ApiClient& api,
                                                                 const k8s::ObjectKey& key) {
  absl::StatusOr<std::optional<Kind>> found = objects::Find<Kind>(ctx, api, key);
  if (absl::IsPermissionDenied(found.status())) {
    return std::optional<std::optional<Kind>>();
  }
  RETURN_IF_ERROR(found.status());
  return std::optional<std::optional<Kind>>(*std::move(found));
}

}  // namespace

std::vector<SharedSnapshot> SharesOf(const VolumeSnapshotContent& content) {
  std::vector<SharedSnapshot> shares;
  for (const absl::string_view one :
       absl::StrSplit(content.Annotation(objects::kSharedWithAnnotation), ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(one, absl::MaxSplits('/', 1));
    if (k8s::IsObjectName(parts.first) && k8s::IsObjectName(parts.second)) {
      shares.push_back(
          {.namespace_name = parts.first,
           .name = parts.second,
           .content_name = SharedContentName(content.uid(), parts.first, parts.second)});
    }
  }
  return shares;
}

std::string SharesText(const std::vector<SharedSnapshot>& shares) {
  return absl::StrJoin(shares, ",", [](std::string* out, const SharedSnapshot& one) {
    absl::StrAppend(out, one.namespace_name, "/", one.name);
  });
}

std::string SharedContentName(absl::string_view shared_uid, absl::string_view namespace_name,
                              absl::string_view name) {
  const std::string hash = Sha256Hex(absl::StrCat(shared_uid, "\n", namespace_name, "\n", name));
  return absl::StrCat("csi-delta-shared-", hash.substr(0, kNameHashBytes));
}

absl::StatusOr<bool> IsShareThere(const CallContext& ctx, k8s::ApiClient& api,
                                  const SharedSnapshot& share) {
  ASSIGN_OR_RETURN(const auto content_read,
                   FindIfAllowed<VolumeSnapshotContent>(
                       ctx, api, VolumeSnapshotContent::Key("", share.content_name)));
  if (content_read.has_value() && !content_read->has_value()) {
    return false;
  }
  ASSIGN_OR_RETURN(const auto snapshot_read,
                   FindIfAllowed<VolumeSnapshot>(
                       ctx, api, VolumeSnapshot::Key(share.namespace_name, share.name)));
  if (!content_read.has_value() || !snapshot_read.has_value()) {
    return true;
  }
  return snapshot_read->has_value() && (*content_read)->Names(**snapshot_read);
}

}  // namespace csidelta::csi
