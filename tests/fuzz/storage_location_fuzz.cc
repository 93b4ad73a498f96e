// A BackupStorageLocation as the API server returns it: what is made of it leads into its bucket,
// and below its prefix.

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/json.h"
#include "datamover/location_settings.h"
#include "datamover/repository_access.h"
#include "objects/backup_storage_location.h"
#include "storage/location.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  constexpr char kPath[] = "plugins/csi-delta/c/n/u";
  const auto object =
      csidelta::ParseJsonObject(absl::string_view(reinterpret_cast<const char*>(data), bytes));
  if (!object.ok()) {
    return 0;
  }
  const auto location =
      csidelta::objects::BackupStorageLocation::Parse(csidelta::objects::Object(*object));
  if (!location.ok()) {
    CSIDELTA_CHECK(location.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  csidelta::datamover::CheckLocationSettings(*location).IgnoreError();
  csidelta::datamover::StoreOptions(*location);
  const auto address = csidelta::datamover::RepositoryAddress(*location, kPath);
  if (!address.ok()) {
    CSIDELTA_CHECK(address.status().code() == absl::StatusCode::kFailedPrecondition);
    return 0;
  }
  const auto place = csidelta::storage::ParseLocation(*address);
  CSIDELTA_CHECK(place.ok() && place->kind == *csidelta::datamover::StoreKindOf(*location));
  CSIDELTA_CHECK(place->bucket == location->bucket());
  CSIDELTA_CHECK(place->prefix == absl::StrCat(location->prefix(),
                                               location->prefix().empty() ? "" : "/", kPath, "/"));
  return 0;
}
