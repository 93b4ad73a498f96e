#include "storage/versioned_store.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::storage {

absl::Status ForEachVersion(const CallContext& ctx, VersionedStore& store,
                            const std::string& prefix,
                            absl::FunctionRef<absl::Status(const ObjectVersion&)> sink) {
  VersionCursor from;
  while (true) {
    ASSIGN_OR_RETURN(const VersionPage page, store.ListVersions(ctx, prefix, from));
    for (const ObjectVersion& version : page.versions) {
      RETURN_IF_ERROR(sink(version));
    }
    if (page.next.key.empty()) {
      return absl::OkStatus();
    }
    if (page.next.key == from.key && page.next.id == from.id) {
      return absl::DataLossError(absl::StrCat("list versions of ", prefix, ": no end"));
    }
    from = page.next;
  }
}

}  // namespace csidelta::storage
