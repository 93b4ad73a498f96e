#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"

namespace csidelta::datamover {

// A DataUpload or DataDownload as it was just read, and what we make of it: changes are gathered
// and written at once, under the condition that it was not written meanwhile. These kinds have no
// status subresource.
class TransferObject {
 public:
  TransferObject(const k8s::ResourceType& type, objects::DataTransfer object);

  const objects::DataTransfer& object() const { return object_; }
  k8s::ObjectKey key() const;
  std::string Annotation(absl::string_view key) const;
  // An annotation of csi-delta that holds a time.
  std::optional<absl::Time> TimeOf(absl::string_view key) const;

  void SetPhase(objects::DataPhase phase);
  // Foreign words are cut where they become too long.
  void SetMessage(absl::string_view message);
  void SetAcceptedAt(absl::Time time) { object_.SetAcceptedAt(time); }
  void SetStartedAt(absl::Time time) { object_.SetStartedAt(time); }
  void SetCompletedAt(absl::Time time) { object_.SetCompletedAt(time); }
  void SetAnnotation(absl::string_view key, absl::string_view value);
  void SetTime(absl::string_view key, absl::Time time);
  void RemoveAnnotation(absl::string_view key);
  void SetProgress(int64_t done_bytes, int64_t total_bytes) {
    object_.SetProgress(done_bytes, total_bytes);
  }
  // What an upload stored.
  void SetSnapshotId(absl::string_view id) { object_.SetSnapshotId(id); }
  void SetFigures(const objects::BackupFigures& figures) { object_.SetFigures(figures); }
  void SetIncrementalBytes(int64_t bytes) { object_.SetIncrementalBytes(bytes); }
  // Not on an object that is being deleted: the API server takes no new finalizers then.
  void AddFinalizer();
  void RemoveFinalizer() { object_.RemoveFinalizer(objects::kMoverFinalizer); }

  // Writes what changed; nothing when nothing did. ABORTED when another client was faster.
  absl::Status Write(const CallContext& ctx, k8s::ApiClient& api);

 private:
  const k8s::ResourceType& type_;
  objects::DataTransfer stored_;
  objects::DataTransfer object_;
};

// The object of Velero that owns a transfer, a "Backup" or a "Restore"; nothing where none does.
std::optional<objects::OwnerReference> VeleroOwnerOf(const objects::DataTransfer& transfer,
                                                     absl::string_view kind);

// The name of the Backup that owns a DataUpload; "" where none does.
std::string OwningBackupOf(const objects::DataTransfer& upload);

}  // namespace csidelta::datamover
