#include "backupitemactions/longhorn_records.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::backupitemactions {
namespace {

constexpr char kRecordPrefix[] = "csi-delta-";
constexpr char kRecordLabelValue[] = "native-snapshot";

k8s::ObjectKey RecordKey(const csi::Environment& env, absl::string_view snapshot_name) {
  return objects::Lease::Key(env.velero_namespace, absl::StrCat(kRecordPrefix, snapshot_name));
}

// No Backup owns it: when its object goes, nothing would tell any more that the Snapshot is in no
// archive.
objects::Lease MakeRecord(const longhorn::NativeRequest& request, const k8s::ObjectKey& key) {
  objects::Lease record = objects::Lease::Make(key.namespace_name, key.name);
  record.SetLabel(objects::kCsiDeltaLabel, kRecordLabelValue);
  record.SetLabel(objects::kPvcUidLabel, request.pvc_uid);
  record.SetLabel(objects::kExcludeFromBackupLabel, "true");
  record.SetHolder(request.backup_name);  // For people.
  return record;
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
  const absl::Status made = csi::RetryTransient(
      ctx, [&] { return objects::Create(ctx, env.api, MakeRecord(request, key)).status(); });
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
      const auto leases,
      objects::List<objects::Lease>(
          ctx, env.api, env.velero_namespace,
          {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", kRecordLabelValue)}));
  std::map<std::string, NativeRecord> records;
  for (const objects::Lease& lease : leases) {
    const std::string name = lease.name();
    std::string snapshot(absl::StripPrefix(name, kRecordPrefix));
    NativeRecord record{.name = name,
                        .snapshot_name = snapshot,
                        .pvc_uid = lease.Label(objects::kPvcUidLabel),
                        .made_at = lease.created_at(),
                        .backup_missing_since =
                            ParseRfc3339(lease.Annotation(objects::kBackupMissingSinceAnnotation)),
                        .lease = lease};
    records.emplace(std::move(snapshot), std::move(record));
  }
  return records;
}

absl::Status RecordMissing(const CallContext& ctx, const csi::Environment& env,
                           const NativeRecord& record, std::optional<absl::Time> since) {
  objects::Lease lease = record.lease;
  if (since.has_value()) {
    lease.SetAnnotation(objects::kBackupMissingSinceAnnotation, FormatRfc3339(*since));
  } else {
    lease.RemoveAnnotation(objects::kBackupMissingSinceAnnotation);
  }
  return k8s::IgnoreNotFound(objects::Update(ctx, env.api, lease).status());
}

absl::Status RemoveRecord(const CallContext& ctx, const csi::Environment& env,
                          const NativeRecord& record) {
  return k8s::IgnoreGone(
      env.api.Delete(ctx, RecordKey(env, record.snapshot_name), {.uid = record.lease.uid()}));
}

}  // namespace csidelta::backupitemactions
