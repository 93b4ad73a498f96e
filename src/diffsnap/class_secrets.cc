#include "diffsnap/class_secrets.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "csi/snapshot_secrets.h"
#include "csi/snapshot_types.h"

namespace csidelta::diffsnap {
namespace {

absl::StatusOr<Json> Get(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key) {
  absl::StatusOr<Json> object = api.Get(ctx, key);
  return object.ok() ? std::move(object)
                     : absl::UnavailableError(absl::StrCat("the driver's secrets cannot be read: ",
                                                           object.status().message()));
}

std::string Fill(const std::string& text, const SecretsOwner& owner) {
  return absl::StrReplaceAll(text, {{"${volumesnapshot.name}", owner.snapshot_name},
                                    {"${volumesnapshot.namespace}", owner.namespace_name}});
}

}  // namespace

absl::StatusOr<DriverSecrets> ClassSecrets::Read(const CallContext& ctx,
                                                 const SecretsOwner& owner) {
  if (owner.class_name.empty()) {
    return DriverSecrets{};
  }
  {
    std::scoped_lock lock(mutex_);
    const auto found = remembered_.find(owner);
    if (found != remembered_.end() &&
        ctx.clock->Uptime() - found->second.read_at < kSecretsAgeMax) {
      return found->second.secrets;
    }
  }
  const absl::Duration read_at = ctx.clock->Uptime();
  ASSIGN_OR_RETURN(const DriverSecrets secrets, ReadNow(ctx, owner));
  std::scoped_lock lock(mutex_);
  std::erase_if(remembered_, [&](const auto& entry) {
    return read_at - entry.second.read_at >= kSecretsAgeMax;
  });
  if (std::ssize(remembered_) < kSecretsMax) {
    remembered_.insert_or_assign(owner, Remembered{.read_at = read_at, .secrets = secrets});
  }
  return secrets;
}

absl::StatusOr<DriverSecrets> ClassSecrets::ReadNow(const CallContext& ctx,
                                                    const SecretsOwner& owner) {
  ASSIGN_OR_RETURN(const Json snapshot_class, Get(ctx, api_,
                                                  {.type = csi::VolumeSnapshotClassType(),
                                                   .namespace_name = "",
                                                   .name = owner.class_name}));
  const csi::SecretName written = csi::SnapshotterSecretOf(snapshot_class);
  const std::string name = Fill(written.name, owner);
  const std::string space = Fill(written.namespace_name, owner);
  if (name.empty() && space.empty()) {
    return DriverSecrets{};
  }
  if (name.empty() || space.empty() || absl::StrContains(name, "${") ||
      absl::StrContains(space, "${")) {
    return absl::UnavailableError(absl::StrCat("VolumeSnapshotClass ", owner.class_name,
                                               " names the secret ", space, "/", name,
                                               ", which is none that can be read here"));
  }
  ASSIGN_OR_RETURN(
      const Json secret,
      Get(ctx, api_, {.type = csi::SecretType(), .namespace_name = space, .name = name}));
  DriverSecrets secrets;
  for (const auto& [key, encoded] : GetStringMap(secret, {"data"})) {
    std::string text;
    if (!absl::Base64Unescape(encoded, &text)) {
      return absl::UnavailableError(
          absl::StrCat("secret ", space, "/", name, ": what is called ", key, " is not base64"));
    }
    secrets.emplace(key, Secret(std::move(text)));
  }
  return secrets;
}

}  // namespace csidelta::diffsnap
