#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "doctor/checkup.h"
#include "storage/location.h"
#include "storage/object_store.h"

namespace csidelta::doctor {

struct BucketCheckupOptions {
  storage::Location::Kind kind = storage::Location::Kind::kDirectory;
  std::string bucket = {};         // for commands: a bucket or container
  std::string prefix = {};         // of keys in the bucket: "", or with "/" behind
  std::string credentials = {};    // where they come from, for people
  std::string storage_class = {};  // that is asked for; "": the bucket's default
  bool is_read_only = false;       // Nothing is written then.
  // For how long the object lock that backups request lasts; 0: none. The store must not request it
  // for what is tried here, which could not be removed again.
  absl::Duration lock_duration = absl::ZeroDuration();
};

// Tries in a scratch folder of `store`, "doctor/bucket-TIME-RANDOM/", what backups and restores do,
// and reads the bucket's own rules. Each check ("bucket-write") has one finding or more; a check
// that needs an object is not made if none can be written. Removes what it wrote, with its older
// versions, also after a failure or a request to stop, and what a run left that began more than an
// hour ago. At most three objects of less than 1 KiB are there at once.
//
// CANCELLED once `ctx` has ended; everything else is a finding. Each check takes 20 s at most.
// Borrows what it is given.
absl::Status RunBucketCheckup(const CallContext& ctx, storage::ObjectStore& store,
                              const BucketCheckupOptions& options, Random& random,
                              const FindingSink& sink);

}  // namespace csidelta::doctor
