#include "datamover/records/restored_pvcs.h"

#include <map>
#include <utility>

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

k8s::ObjectKey KeyOf(const MoverEnvironment& env, const RestoredPlace& place) {
  return objects::Secret::Key(env.mover_namespace, RestoredSecretName(place));
}

std::map<std::string, std::string> Encode(const RestoredPvc& restored) {
  std::map<std::string, std::string> data = {
      {kPvcUidField, restored.pvc_uid},
      {kSnapshotField, velero::FormatDataReference(restored.source)},
      {kBytesField, absl::StrCat(restored.data_bytes)}};
  for (auto& [field, text] : data) {
    text = absl::Base64Escape(text);
  }
  return data;
}

std::optional<RestoredPvc> Decode(const objects::Secret& secret) {
  const auto text = [&secret](const char* field) {
    std::string decoded;
    return absl::Base64Unescape(secret.EncodedValue(field), &decoded) ? decoded : std::string();
  };
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
  // None of these has a slash in it.
  const std::string text = absl::StrCat(place.velero_namespace, "/", place.location, "/",
                                        place.pvc_namespace, "/", place.pvc);
  return absl::StrCat(kRestoredSecretPrefix, Sha256Hex(text).substr(0, kNameDigits));
}

absl::Status RecordRestored(const CallContext& ctx, const MoverEnvironment& env,
                            const RestoredPlace& place, const RestoredPvc& restored) {
  auto secret = objects::Secret::Make(env.mover_namespace, RestoredSecretName(place));
  secret.SetType("Opaque");
  secret.SetLabels({{objects::kMoverVeleroNamespaceLabel, place.velero_namespace},
                    {objects::kExcludeFromBackupLabel, "true"}});
  secret.SetEncodedData(Encode(restored));
  const absl::Status made = objects::Create(ctx, env.api, secret).status();
  return absl::IsAlreadyExists(made)
             ? objects::Apply(ctx, env.api, KeyOf(env, place),
                              objects::Patch().SetEncodedData(Encode(restored)))
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
    CSIDELTA_LOG(kWarn, "what a PVC was restored from does not read: it starts over",
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

objects::TaskVolume ChooseRepository(const std::optional<RestoredPvc>& restored,
                                     absl::string_view cluster, objects::TaskVolume volume) {
  if (!restored.has_value() || restored->pvc_uid != volume.claim_uid) {
    return volume;
  }
  if (restored->source.cluster == cluster) {
    volume.repository_uid = restored->source.claim_uid;
    volume.restored_snapshot = restored->source.snapshot_id;
  } else {
    volume.why_own = absl::StrCat("restored from a backup of cluster ", restored->source.cluster,
                                  ", whose repositories only that cluster writes to; this backup "
                                  "stores ",
                                  FormatBytes(restored->data_bytes), " once more");
  }
  return volume;
}

}  // namespace csidelta::datamover
