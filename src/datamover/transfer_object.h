#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"

namespace csidelta::datamover {

// A DataUpload or DataDownload as it was just read, with our changes. They are collected and
// written at once, under the condition that it was not written meanwhile. These kinds have no
// status subresource.
class TransferObject : public objects::DataTransfer {
 public:
  TransferObject(const k8s::ResourceType& type, objects::DataTransfer object)
      : DataTransfer(object), type_(type), stored_(std::move(object)) {}

  const objects::DataTransfer& object() const { return *this; }
  k8s::ObjectKey key() const { return {type_, namespace_name(), name()}; }
  // An annotation of csi-delta that holds a time.
  std::optional<absl::Time> TimeOf(absl::string_view key) const;

  // Texts that are too long are truncated.
  void SetMessage(absl::string_view message);
  void SetAnnotation(absl::string_view key, absl::string_view value);
  void SetTime(absl::string_view key, absl::Time time);
  // Not on an object that is being deleted: the API server takes no new finalizers then.
  void AddFinalizer();
  void RemoveFinalizer() { DataTransfer::RemoveFinalizer(objects::kMoverFinalizer); }

  // The API server refuses to make the Pod of this transfer, or what that needs: by a quota, a
  // policy, a webhook, or because a class does not exist.
  //
  //   admitted --refused--> refused-since, refusal; the admission is given back: awaiting-at
  //      ^                                |
  //      |                                |  a pause
  //      +-- queued for an admission <----+
  //
  // until the Pod is made, which ends the refusal, or the time to prepare is over. That time begins
  // with the admission before the first refusal, and goes on while the transfer is queued again.
  bool is_refused() const { return TimeOf(objects::kRefusedSinceAnnotation).has_value(); }
  // `since`: when it was admitted, which counts at the first time.
  void RecordRefusal(absl::string_view message, absl::Time since);
  void EndRefusal();
  // When one that gave its admission back tries again: 2 s after the first admission, the later the
  // longer it is refused, and half a minute at most. InfinitePast for others.
  absl::Time TriesAgainAt() const;
  // `waits_for`, and what was refused before.
  std::string WithRefusal(absl::string_view waits_for) const;

  // Writes the changes, if there are any. ABORTED if another client was faster.
  absl::Status Write(const CallContext& ctx, k8s::ApiClient& api);

 private:
  const k8s::ResourceType& type_;
  objects::DataTransfer stored_;
};

// The "Backup" or "Restore" of Velero that owns a transfer; nothing if there is none.
std::optional<objects::OwnerReference> VeleroOwnerOf(const objects::DataTransfer& transfer,
                                                     absl::string_view kind);

// The name of the Backup that owns a DataUpload; "" if there is none.
std::string OwningBackupOf(const objects::DataTransfer& upload);

}  // namespace csidelta::datamover
