#include "backupitemactions/longhorn_records.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "csi/snapshot_types.h"
#include "k8s/api_client.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::backupitemactions {
namespace {

constexpr char kRecordPrefix[] = "csi-delta-";
constexpr char kRecordLabelValue[] = "native-snapshot";

k8s::ObjectKey RecordKey(const csi::Environment& env, absl::string_view snapshot_name) {
  return {.type = csi::LeaseType(),
          .namespace_name = env.velero_namespace,
          .name = absl::StrCat(kRecordPrefix, snapshot_name)};
}

// No Backup owns it: when its object goes, nobody would know any more that the Snapshot is in no
// archive.
Json MakeRecord(const longhorn::NativeRequest& request, const k8s::ObjectKey& key) {
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata",
           {{"name", key.name},
            {"namespace", key.namespace_name},
            {"labels",
             {{objects::kCsiDeltaLabel, kRecordLabelValue},
              {objects::kPvcUidLabel, request.pvc_uid},
              {objects::kExcludeFromBackupLabel, "true"}}}}},
          // For people.
          {"spec", {{"holderIdentity", request.backup_name}}}};
}

}  // namespace

bool IsRecordOf(const NativeRecord& record, const longhorn::Snapshot& snapshot) {
  return record.snapshot_name == snapshot.name() && !record.pvc_uid.empty() &&
         record.pvc_uid == snapshot.Label(objects::kPvcUidLabel);
}

absl::Status RecordRequest(const CallContext& ctx, const csi::Environment& env,
                           const longhorn::NativeRequest& request,
                           absl::string_view snapshot_name) {
  const k8s::ObjectKey key = RecordKey(env, snapshot_name);
  const absl::Status made = csi::RetryTransient(ctx, [&] {
    return env.api.Create(ctx, key.type, key.namespace_name, MakeRecord(request, key)).status();
  });
  return absl::IsAlreadyExists(made)
             ? absl::OkStatus()
             : Annotate(made, absl::StrCat("record the request for Snapshot ", snapshot_name));
}

absl::Status RecordArchived(const CallContext& ctx, const csi::Environment& env,
                            absl::string_view snapshot_name) {
  const k8s::ObjectKey key = RecordKey(env, snapshot_name);
  return Annotate(
      csi::RetryTransient(ctx, [&] { return k8s::IgnoreNotFound(env.api.Delete(ctx, key, {})); }),
      absl::StrCat("record that Snapshot ", snapshot_name, " is archived"));
}

absl::StatusOr<std::map<std::string, NativeRecord>> ListRecords(const CallContext& ctx,
                                                                const csi::Environment& env) {
  ASSIGN_OR_RETURN(
      const k8s::ObjectList list,
      env.api.List(ctx, csi::LeaseType(), env.velero_namespace,
                   {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", kRecordLabelValue),
                    .field_selector = ""}));
  std::map<std::string, NativeRecord> records;
  for (const Json& lease : list.items) {
    const std::string name = k8s::Name(lease);
    std::string snapshot(absl::StripPrefix(name, kRecordPrefix));
    NativeRecord record{.name = name,
                        .snapshot_name = snapshot,
                        .pvc_uid = k8s::Label(lease, objects::kPvcUidLabel),
                        .made_at = k8s::CreatedAt(lease),
                        .backup_missing_since = ParseRfc3339(
                            k8s::Annotation(lease, objects::kBackupMissingSinceAnnotation)),
                        .lease = lease};
    records.emplace(std::move(snapshot), std::move(record));
  }
  return records;
}

absl::Status NoteMissing(const CallContext& ctx, const csi::Environment& env,
                         const NativeRecord& record, std::optional<absl::Time> since) {
  Json lease = record.lease;
  if (since.has_value()) {
    SetJson(lease, {"metadata", "annotations", objects::kBackupMissingSinceAnnotation},
            FormatRfc3339(*since));
  } else {
    EraseJson(lease, {"metadata", "annotations", objects::kBackupMissingSinceAnnotation});
  }
  return k8s::IgnoreNotFound(
      env.api.Update(ctx, RecordKey(env, record.snapshot_name), lease).status());
}

absl::Status RemoveRecord(const CallContext& ctx, const csi::Environment& env,
                          const NativeRecord& record) {
  return k8s::IgnoreGone(env.api.Delete(ctx, RecordKey(env, record.snapshot_name),
                                        {.uid = k8s::Uid(record.lease), .resource_version = ""}));
}

}  // namespace csidelta::backupitemactions
