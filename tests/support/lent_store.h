#pragma once

#include "storage/location.h"
#include "storage/metered_object_store.h"

namespace csidelta::support {

// A store that another object owns, opened again for each look. Borrows the store.
class LentStore : public storage::OpenedStore {
 public:
  explicit LentStore(storage::ObjectStore& store) : store_(store) {}
  storage::ObjectStore& store() override { return store_; }
  const storage::StoreMeter& meter() const override { return meter_; }

 private:
  storage::ObjectStore& store_;
  storage::StoreMeter meter_;
};

}  // namespace csidelta::support
