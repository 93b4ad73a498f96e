#include "storage/versioned_store.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

absl::Status HasNoVersions() {
  return absl::UnimplementedError(
      "this store has no object locks and no versions; they need a bucket with object lock");
}

}  // namespace

absl::StatusOr<Retention> VersionedStore::GetRetention(const CallContext&, const std::string&,
                                                       const std::string&) {
  return HasNoVersions();
}

absl::Status VersionedStore::SetRetention(const CallContext&, const std::string&,
                                          const std::string&, const Retention&) {
  return HasNoVersions();
}

absl::StatusOr<VersionPage> VersionedStore::ListVersions(const CallContext&, const std::string&,
                                                         const VersionCursor&) {
  return HasNoVersions();
}

absl::Status VersionedStore::RestoreVersion(const CallContext&, const std::string&,
                                            const std::string&) {
  return HasNoVersions();
}

absl::Status VersionedStore::DeleteVersion(const CallContext&, const std::string&,
                                           const std::string&) {
  return HasNoVersions();
}

absl::StatusOr<std::string> VersionedStore::GetBucketDocument(const CallContext&, BucketDocument) {
  return HasNoVersions();
}

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
