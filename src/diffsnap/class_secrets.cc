#include "diffsnap/class_secrets.h"

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "csi/expose/snapshot_secrets.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/volume_snapshot.h"

namespace csidelta::diffsnap {
namespace {

using objects::VolumeSnapshotClass;

absl::Status Unreadable(const absl::Status& status) {
  return absl::UnavailableError(
      absl::StrCat("the driver's secrets cannot be read: ", status.message()));
}

template <typename Kind>
absl::StatusOr<Kind> Get(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key) {
  absl::StatusOr<Kind> object = objects::Get<Kind>(ctx, api, key);
  return object.ok() ? std::move(object) : Unreadable(object.status());
}

absl::StatusOr<DriverSecrets> ReadSecret(const CallContext& ctx, k8s::ApiClient& api,
                                         const csi::SecretName& named) {
  ASSIGN_OR_RETURN(
      const objects::Secret secret,
      Get<objects::Secret>(ctx, api, objects::Secret::Key(named.namespace_name, named.name)));
  DriverSecrets secrets;
  for (const auto& [key, encoded] : secret.encoded_data()) {
    std::string text;
    if (!absl::Base64Unescape(encoded, &text)) {
      return absl::UnavailableError(absl::StrCat("secret ", named.namespace_name, "/", named.name,
                                                 ": what is called ", key, " is not base64"));
    }
    secrets.emplace(key, Secret(std::move(text)));
  }
  return secrets;
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
    const MutexLock lock(mutex_);
    const auto found = remembered_.find(owner);
    if (found != remembered_.end() &&
        ctx.clock->Uptime() - found->second.read_at < kSecretsAgeMax) {
      return found->second.secrets;
    }
  }
  const absl::Duration read_at = ctx.clock->Uptime();
  ASSIGN_OR_RETURN(const DriverSecrets secrets, ReadNow(ctx, owner));
  const MutexLock lock(mutex_);
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
  ASSIGN_OR_RETURN(
      const VolumeSnapshotClass snapshot_class,
      Get<VolumeSnapshotClass>(ctx, api_, VolumeSnapshotClass::Key("", owner.class_name)));
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
  return ReadSecret(ctx, api_, {.namespace_name = space, .name = name});
}

absl::StatusOr<std::vector<DriverSecrets>> ReadListingSecrets(const CallContext& ctx,
                                                              k8s::ApiClient& api,
                                                              const std::string& driver) {
  const absl::StatusOr<std::vector<VolumeSnapshotClass>> classes =
      objects::List<VolumeSnapshotClass>(ctx, api, "");
  if (!classes.ok() && !absl::IsNotFound(classes.status())) {
    return Unreadable(classes.status());
  }
  std::set<std::pair<std::string, std::string>> names;  // namespace, name
  for (const VolumeSnapshotClass& one :
       classes.ok() ? *classes : std::vector<VolumeSnapshotClass>()) {
    const csi::SecretName written = csi::ListingSecretOf(one);
    const bool is_whole = !written.name.empty() && !written.namespace_name.empty() &&
                          !absl::StrContains(written.name, "${") &&
                          !absl::StrContains(written.namespace_name, "${");
    if (is_whole && one.driver() == driver) {
      names.emplace(written.namespace_name, written.name);
    }
  }
  std::vector<DriverSecrets> sets;
  for (const auto& [space, name] : names) {
    ASSIGN_OR_RETURN(DriverSecrets secrets,
                     ReadSecret(ctx, api, {.namespace_name = space, .name = name}));
    sets.push_back(std::move(secrets));
  }
  if (sets.empty()) {
    sets.emplace_back();
  }
  return sets;
}

}  // namespace csidelta::diffsnap
