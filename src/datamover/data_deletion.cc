#include "datamover/data_deletion.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kSnapshotDigits = 64;

}  // namespace

objects::DataDeletion MakeDeletionOfUnnamed(const velero::DataTransfer& upload,
                                            const velero::DataReference& reference,
                                            bool worker_ended) {
  velero::DataReference unnamed = reference;
  unnamed.snapshot_id = std::string(kSnapshotDigits, '0');
  const auto backup = upload.labels.find(objects::kBackupNameLabel);
  const std::string backup_name = backup == upload.labels.end() ? "" : backup->second;
  auto deletion =
      objects::DataDeletion::Make(upload.namespace_name, absl::StrCat("unnamed-", upload.uid));
  deletion.SetLabels(
      {{objects::kBackupNameLabel, backup_name}, {objects::kExcludeFromBackupLabel, "true"}});
  deletion.SetSpec({.location = upload.storage_location,
                    .snapshot_id = velero::FormatDataReference(unnamed),
                    .backup = backup_name,
                    .upload = upload.uid,
                    .worker_ended = worker_ended});
  return deletion;
}

}  // namespace csidelta::datamover
