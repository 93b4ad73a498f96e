#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datamover/repository_access.h"
#include "doctor/checks.h"
#include "objects/backup_storage_location.h"

namespace csidelta::doctor {

void CheckLocationShared(CheckContext& context) {
  std::vector<objects::BackupStorageLocation> all;
  for (const std::string& space : context.options().velero_namespaces) {
    std::vector<objects::BackupStorageLocation> locations =
        context.Look<objects::BackupStorageLocation>(space);
    std::move(locations.begin(), locations.end(), std::back_inserter(all));
  }
  for (const datamover::SharedAddress& shared : datamover::FindSharedAddresses(all)) {
    context.Fault(
        absl::StrCat("location ", shared.location),
        absl::StrCat("has the bucket and prefix of location ", shared.oldest,
                     ", but other keys: a PVC that is backed up to both has one repository, "
                     "which one of them cannot open"),
        "give it another prefix, or remove it");
  }
}

}  // namespace csidelta::doctor
