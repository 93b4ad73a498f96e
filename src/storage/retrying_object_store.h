#pragma once

#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "base/random.h"
#include "base/retry.h"
#include "storage/forwarding_object_store.h"
#include "storage/metered_object_store.h"
#include "storage/object_rules.h"

namespace csidelta::storage {

struct RetryOptions {
  // A place that refuses for a minute is waited for: that is what all delays are at least.
  BackoffOptions backoff = {.delay_first = absl::Milliseconds(500),
                            .delay_max = absl::Seconds(30),
                            .attempts_max = 10,
                            .jitter = 0.5};
  // Of one Stat() or Delete() with all its attempts and delays. The other calls take as long as
  // their bytes or pages do: what hangs, or all but hangs, is the place's to end (see
  // net::HttpLimits), and the attempts are counted.
  absl::Duration total_max = absl::Minutes(15);
  // Told why, once for each call that waits longer than `grace period`, on the caller's thread.
  absl::Duration grace_period = absl::Seconds(5);
  std::function<void(const absl::Status&)> on_wait = nullptr;
};

// Makes a call to `inner` again while MayHeal() says so, with growing, jittered delays, or with the
// longer ones that the place requests (RequestedPause(), at most two minutes each), until it is
// answered otherwise or the attempts or the time are used up; then the last answer of `inner` is
// the caller's. Every call of ObjectStore may be repeated, with two cares:
//   - Put() with if_absent: an attempt that seemed to fail may have stored the object. When a later
//     one meets it, the object counts as ours if it has our bytes.
//     So does one that stored other bytes than were sent: it is put again, over them.
//   - List(): goes on behind the last key, or restarts where the keys did not come in their order,
//     and passes on what it has not passed on yet. It keeps 16 bytes for every object listed.
//     Attempts are counted from the last one that passed something on.
// Borrows everything that it is given.
class RetryingObjectStore : public ForwardingObjectStore {
 public:
  RetryingObjectStore(ObjectStore& inner, const RetryOptions& options, Random& random,
                      StoreMeter& meter)
      : ForwardingObjectStore(inner), options_(options), random_(random), meter_(meter) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override;

 protected:
  absl::Status Pass(const CallContext& ctx, const PassedCall& call,
                    absl::FunctionRef<absl::Status(const CallContext&)> pass) override;

 private:
  // `has_moved` says whether the last attempt brought anything: then attempts are counted again
  // from one.
  absl::Status RetryUntilDone(
      const CallContext& ctx, absl::Duration total_max,
      absl::FunctionRef<absl::Status(const CallContext&)> attempt,
      absl::FunctionRef<bool(const absl::Status&)> may_heal = MayHeal,
      absl::FunctionRef<bool()> has_moved = [] { return false; });

  // Either listing: each attempt calls `list`, which may begin behind the key `after`.
  absl::Status PassOnOnce(
      const CallContext& ctx, ObjectSink sink,
      absl::FunctionRef<absl::Status(const CallContext&, const std::string& after, ObjectSink)>
          list);

  const RetryOptions options_;
  Random& random_;
  StoreMeter& meter_;
};

}  // namespace csidelta::storage
