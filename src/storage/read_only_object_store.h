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

 protected:
  absl::Status Pass(const CallContext& ctx, const PassedCall& call,
                    absl::FunctionRef<absl::Status(const CallContext&)> pass) override {
    if (call.kind == CallKind::kRemoveLeftovers) {
      return absl::OkStatus();  // None were removed.
    }
    const bool changes =
        call.kind == CallKind::kPutVersioned || call.kind == CallKind::kDeleteVersion;
    return changes ? Refuse("change", "versions") : pass(ctx);
  }

 private:
  static absl::Status Refuse(absl::string_view what, const std::string& key) {
    return absl::PermissionDeniedError(absl::StrCat(what, " ", key, ": opened for reading only"));
  }
};

}  // namespace csidelta::storage
