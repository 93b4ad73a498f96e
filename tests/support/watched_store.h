#pragma once

#include <functional>
#include <string>

#include "storage/forwarding_object_store.h"

namespace csidelta::support {

// Another store, beside whose puts a test does something. Borrows the store.
class WatchedStore : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  std::function<void(const std::string& key)> before_put;
  std::function<void(const std::string& key)> after_put;
  // Takes a conditional put for another one, as some stores do.
  bool ignores_conditions = false;

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    storage::PutOptions taken = options;
    taken.if_absent = options.if_absent && !ignores_conditions;
    if (before_put != nullptr) {
      before_put(key);
    }
    const absl::Status status = inner().Put(ctx, key, bytes, taken);
    if (after_put != nullptr) {
      after_put(key);
    }
    return status;
  }
};

}  // namespace csidelta::support
