#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "storage/forwarding_object_store.h"

namespace csidelta::storage {

// Lets reading through to `inner` (borrowed) and answers PERMISSION_DENIED to everything else.
class ReadOnlyObjectStore : public ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  absl::Status Put(const CallContext&, const std::string& key, absl::string_view,
                   const PutOptions&) override {
    return Refuse("put", key);
  }
  absl::Status Delete(const CallContext&, const std::string& key) override {
    return Refuse("delete", key);
  }
  absl::StatusOr<int64_t> RemoveLeftovers(const CallContext&, absl::Span<const std::string>,
                                          KeyPredicate, absl::Duration) override {
    return 0;
  }

 protected:
  absl::Status Versioned(const CallContext& ctx, VersionedCall call, PassedCall pass) override {
    return call == VersionedCall::kGet || call == VersionedCall::kList
               ? pass(ctx)
               : Refuse("change", "versions");
  }

 private:
  static absl::Status Refuse(absl::string_view what, const std::string& key) {
    return absl::PermissionDeniedError(absl::StrCat(what, " ", key, ": opened for reading only"));
  }
};

}  // namespace csidelta::storage
