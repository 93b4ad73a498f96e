#include "datamover/records/restored_pvcs.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/keys.h"
#include "objects/patch.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kNameDigits = 32;
constexpr char kPvcUidField[] = "pvcUID";
constexpr char kSnapshotField[] = "snapshotID";
constexpr char kBytesField[] = "dataBytes";
constexpr char kPvcField[] = "pvc";
constexpr char kByField[] = "by";

k8s::ObjectKey KeyOf(const MoverEnvironment& env, const RestoredPlace& place) {
  return objects::Secret::Key(env.mover_namespace, RestoredSecretName(place));
}

// None of the parts has a slash in it.
std::string NameOf(const char* prefix, absl::string_view parts) {
  return absl::StrCat(prefix, Sha256Hex(parts).substr(0, kNameDigits));
}

objects::Secret MakeSecret(const k8s::ObjectKey& key, const std::string& velero_namespace,
                           const std::map<std::string, std::string>& data) {
  std::map<std::string, std::string> encoded;
  for (const auto& [field, text] : data) {
    encoded.emplace(field, absl::Base64Escape(text));
  }
  auto secret = objects::Secret::Make(key.namespace_name, key.name);
  secret.SetType("Opaque");
  secret.SetLabels({{objects::kMoverVeleroNamespaceLabel, velero_namespace},
                    {objects::kExcludeFromBackupLabel, "true"}});
  secret.SetEncodedData(encoded);
  return secret;
}

std::string FieldOf(const objects::Secret& secret, const char* field) {
  std::string decoded;
  return absl::Base64Unescape(secret.EncodedValue(field), &decoded) ? decoded : std::string();
}

std::optional<RestoredPvc> Decode(const objects::Secret& secret) {
  const auto text = [&secret](const char* field) { return FieldOf(secret, field); };
  absl::StatusOr<velero::DataReference> source = velero::ParseDataReference(text(kSnapshotField));
  if (!source.ok() || !velero::IsUid(text(kPvcUidField))) {
    return std::nullopt;
  }
  RestoredPvc restored{.pvc_uid = text(kPvcUidField), .source = *std::move(source)};
  if (!absl::SimpleAtoi(text(kBytesField), &restored.data_bytes)) {
    restored.data_bytes = 0;
  }
  return restored;
}

}  // namespace

std::string RestoredSecretName(const RestoredPlace& place) {
  return NameOf(kRestoredSecretPrefix, absl::StrCat(place.velero_namespace, "/", place.location,
                                                    "/", place.pvc_namespace, "/", place.pvc));
}

absl::Status RecordRestored(const CallContext& ctx, const MoverEnvironment& env,
                            const RestoredPlace& place, const RestoredPvc& restored) {
  const objects::Secret secret =
      MakeSecret(KeyOf(env, place), place.velero_namespace,
                 {{kPvcUidField, restored.pvc_uid},
                  {kSnapshotField, velero::FormatDataReference(restored.source)},
                  {kBytesField, absl::StrCat(restored.data_bytes)},
                  {kPvcField, place.pvc}});
  const absl::Status made = objects::Create(ctx, env.api, secret).status();
  return absl::IsAlreadyExists(made)
             ? objects::Apply(ctx, env.api, KeyOf(env, place),
                              objects::Patch().SetEncodedData(secret.encoded_data()))
             : made;
}

absl::StatusOr<std::optional<RestoredPvc>> FindRestored(const CallContext& ctx,
                                                        const MoverEnvironment& env,
                                                        const RestoredPlace& place) {
  ASSIGN_OR_RETURN(const std::optional<objects::Secret> secret,
                   objects::Find<objects::Secret>(ctx, env.api, KeyOf(env, place)));
  if (!secret.has_value()) {
    return std::optional<RestoredPvc>();
  }
  std::optional<RestoredPvc> restored = Decode(*secret);
  if (!restored.has_value()) {
    CSIDELTA_LOG(kWarn, "the record of what a PVC was restored from cannot be read: it starts over",
                 {"secret", secret->name()}, {"namespace", place.pvc_namespace},
                 {"pvc", place.pvc});
  }
  return restored;
}

absl::Status ForgetRestored(const CallContext& ctx, const MoverEnvironment& env,
                            const RestoredPlace& place, absl::string_view pvc_uid) {
  ASSIGN_OR_RETURN(const std::optional<objects::Secret> secret,
                   objects::Find<objects::Secret>(ctx, env.api, KeyOf(env, place)));
  const std::optional<RestoredPvc> restored = secret.has_value() ? Decode(*secret) : std::nullopt;
  return restored.has_value() && restored->pvc_uid == pvc_uid
             ? k8s::IgnoreNotFound(env.api.Delete(ctx, KeyOf(env, place), {.uid = secret->uid()}))
             : absl::OkStatus();
}

k8s::ObjectKey AdoptionKey(const ForeignCluster& foreign) {
  return objects::Secret::Key(
      foreign.mover_namespace,
      NameOf(kAdoptedSecretPrefix,
             absl::StrCat(foreign.velero_namespace, "/", foreign.location, "/", foreign.cluster)));
}

absl::Status RecordAdoption(const CallContext& ctx, k8s::ApiClient& api,
                            const ForeignCluster& foreign, const std::string& by) {
  return objects::Create(
             ctx, api, MakeSecret(AdoptionKey(foreign), foreign.velero_namespace, {{kByField, by}}))
      .status();
}

absl::StatusOr<std::optional<std::string>> FindAdoption(const CallContext& ctx, k8s::ApiClient& api,
                                                        const ForeignCluster& foreign) {
  ASSIGN_OR_RETURN(const std::optional<objects::Secret> secret,
                   objects::Find<objects::Secret>(ctx, api, AdoptionKey(foreign)));
  return secret.has_value() ? std::optional(FieldOf(*secret, kByField)) : std::nullopt;
}

absl::StatusOr<std::map<std::string, RestoredPvc>> ListRestored(const CallContext& ctx,
                                                                k8s::ApiClient& api,
                                                                const ForeignCluster& foreign) {
  ASSIGN_OR_RETURN(const std::vector<objects::Secret> secrets,
                   objects::List<objects::Secret>(ctx, api, foreign.mover_namespace));
  std::map<std::string, RestoredPvc> found;
  for (const objects::Secret& secret : secrets) {
    const std::optional<RestoredPvc> restored = Decode(secret);
    if (!restored.has_value() || restored->source.cluster != foreign.cluster) {
      continue;
    }
    const std::string& space = restored->source.namespace_name;
    const std::string pvc = FieldOf(secret, kPvcField);
    if (secret.name() ==
        RestoredSecretName({foreign.velero_namespace, foreign.location, space, pvc})) {
      found.emplace(absl::StrCat(space, "/", pvc), *restored);
    }
  }
  return found;
}

objects::TaskVolume ChooseRepository(const std::optional<RestoredPvc>& restored,
                                     absl::string_view cluster, bool is_adopted,
                                     objects::TaskVolume volume) {
  if (!restored.has_value() || restored->pvc_uid != volume.claim_uid) {
    return volume;
  }
  const velero::DataReference& source = restored->source;
  if (source.cluster == cluster || is_adopted) {
    volume.repository_cluster = source.cluster == cluster ? "" : source.cluster;
    volume.repository_uid = source.claim_uid;
    volume.restored_snapshot = source.snapshot_id;
  } else {
    volume.why_own = absl::StrCat(
        "restored from a backup of cluster ", source.cluster,
        ", whose repositories only that cluster writes to unless csi-delta adopt --from-cluster ",
        source.cluster, " declares before that it is lost; this backup stores ",
        FormatBytes(restored->data_bytes), " once more");
  }
  return volume;
}

}  // namespace csidelta::datamover
