#include "longhorn/snapshot_retake.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "k8s/object.h"
#include "longhorn/native_snapshot.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::longhorn {
namespace {

constexpr std::size_t kRetakenBytesKept = 44;
constexpr std::size_t kRetakenHashBytes = 8;

// What the archive says by itself; "" when there is no reason. Pure.
std::string WhyNotRetaken(const Snapshot& archived) {
  if (!archived.Label(objects::kLonghornMadeByLabel).empty()) {
    return "a backup of Velero made it, and a restore of that makes a volume of it";
  }
  const bool was_taken = TakenAt(archived).has_value();
  if (was_taken && !archived.is_user_created()) {
    return "Longhorn took it for itself, for a rebuild or an expansion";
  }
  return archived.is_marked_removed() ? "it was removed already when it was backed up" : "";
}

// Of the Volume that the archived Snapshot belonged to; "" where the archive does not say.
std::string OwnerUid(const Snapshot& archived) {
  for (const objects::OwnerReference& owner : archived.owners()) {
    if (owner.kind == Volume::kKind.kind) {
      return owner.uid;
    }
  }
  return "";
}

absl::StatusOr<std::string> WhyVolumeHasNone(const CallContext& ctx, k8s::ApiClient& api,
                                             const Snapshot& archived,
                                             const RetakeRequest& request) {
  if (archived.volume().empty()) {
    return "it names no volume";
  }
  ASSIGN_OR_RETURN(
      const std::optional<Volume> volume,
      objects::Find<Volume>(ctx, api, Volume::Key(request.namespace_name, archived.volume())));
  if (!volume.has_value()) {
    return "Longhorn does not have its volume";
  }
  const std::string owner_uid = OwnerUid(archived);
  if (!owner_uid.empty() && owner_uid != volume->uid()) {
    return "the volume of that name is another one than it was taken of";
  }
  if (!RequireUsable(*volume).ok()) {
    return "no snapshot of its volume can be taken now: it is faulted, standby, being deleted, "
           "restored or cloned";
  }
  const absl::Status room =
      RequireRoom(ctx, api, *volume, RetakenName(archived.name(), request.restore_uid));
  if (absl::IsResourceExhausted(room)) {
    return "its volume has no room for one more; csi-delta longhorn prune makes some";
  }
  RETURN_IF_ERROR(room);
  return "";
}

// The object to create.
Json MakeRetaken(const Snapshot& archived, const RetakeRequest& request) {
  return {
      {"apiVersion", absl::StrCat(kGroup, "/", kVersion)},
      {"kind", Snapshot::Type().kind},
      {"metadata",
       {{"name", RetakenName(archived.name(), request.restore_uid)},
        {"namespace", request.namespace_name},
        {"labels", {{objects::kRestoreNameLabel, velero::ValidLabelValue(request.restore_name)}}},
        {"annotations", {{objects::kLonghornRetakenOfAnnotation, archived.name()}}}}},
      {"spec", {{"volume", archived.volume()}, {"createSnapshot", true}}}};
}

}  // namespace

std::string RetakenName(absl::string_view name, absl::string_view restore_uid) {
  const std::string hash =
      Sha256Hex(absl::StrCat(restore_uid, "/", name)).substr(0, kRetakenHashBytes);
  // Dots would be allowed, and not beside a hyphen.
  std::string kept = absl::AsciiStrToLower(name.substr(0, kRetakenBytesKept));
  std::replace_if(
      kept.begin(), kept.end(), [](char c) { return !absl::ascii_isalnum(c); }, '-');
  const std::size_t begin = kept.find_first_not_of('-');
  if (begin == std::string::npos) {
    return absl::StrCat("rt-", hash);
  }
  return absl::StrCat(kept.substr(begin, kept.find_last_not_of('-') + 1 - begin), "-rt-", hash);
}

absl::StatusOr<std::string> Retake(const CallContext& ctx, k8s::ApiClient& api,
                                   const Snapshot& archived, const RetakeRequest& request) {
  if (std::string why = WhyNotRetaken(archived); !why.empty()) {
    return why;
  }
  ASSIGN_OR_RETURN(const std::optional<Json> old,
                   k8s::Find(ctx, api, Snapshot::Key(request.namespace_name, archived.name())));
  if (old.has_value()) {
    return "Longhorn has one of its name";
  }
  ASSIGN_OR_RETURN(std::string why, WhyVolumeHasNone(ctx, api, archived, request));
  if (!why.empty()) {
    return why;
  }
  const absl::Status made =
      api.Create(ctx, Snapshot::Type(), request.namespace_name, MakeRetaken(archived, request))
          .status();
  if (!absl::IsAlreadyExists(made)) {
    RETURN_IF_ERROR(made);
  }
  return "";
}

}  // namespace csidelta::longhorn
