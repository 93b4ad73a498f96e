#pragma once

#include <list>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "k8s/object.h"
#include "longhorn/types.h"
#include "objects/client.h"

namespace csidelta::longhorn {

// How long nothing may be seen of a Snapshot before it is read: the watch may be late, or be gone.
inline constexpr absl::Duration kReadAgainAfter = absl::Seconds(10);

// How do the native snapshots of one backup stand? One watch tells all that wait for one of them,
// for as long as this lives: of a thousand PVCs each by itself would else watch and be told of
// nothing but its own.
//
// Begins with the first one that is awaited, at its resourceVersion, so that nothing is listed;
// where the API server does not remember that any more, those of the backup are listed. Of what it
// is told it keeps the newest of each Snapshot that is awaited. Thread-safe; has a thread of its
// own.
class NativeWatch : private k8s::ObjectEventHandler {
 public:
  // Of the Snapshots in Longhorn's namespace that MakeNativeSnapshot() made for the Backup with
  // this uid.
  NativeWatch(k8s::ApiClient& api, const Clock& clock, std::string namespace_name,
              const std::string& backup_uid);
  // Ends the watch. REQUIRES that no Interest is left.
  ~NativeWatch() override;

  // In one Snapshot, from before it is requested, so that nothing is missed. One owner.
  class Interest {
   public:
    Interest(NativeWatch& watch, std::string name);
    ~Interest();
    Interest(const Interest&) = delete;
    Interest& operator=(const Interest&) = delete;

    // Looks at the Snapshot until `done` says so, as k8s::WaitFor() does; may be called again after
    // `ctx` ended. REQUIRES that it was made; `known` is that, or null in further calls.
    absl::Status Await(const CallContext& ctx, objects::Predicate<Snapshot> done,
                       const Snapshot* known = nullptr);

   private:
    friend class NativeWatch;

    // What came last, with null for a Snapshot that is gone; nothing when that was shown. Then
    // `wake` is what the next news ends.
    std::optional<Json> TakeNews(std::stop_source& wake);
    absl::StatusOr<Json> Read(const CallContext& ctx);
    void Tell(Json news);  // REQUIRES that the watch's lock is held.

    NativeWatch& watch_;
    const std::string name_;
    bool is_watched_;         // It was there from the beginning.
    absl::Duration read_at_;  // By the clock's Uptime().
    // Guarded by the watch's lock, which the compiler does not know to be the one of its own watch:
    std::optional<Json> news_;
    std::stop_source wake_;
  };

 private:
  // Whether this call began the watch.
  bool BeginAt(const std::string& resource_version);
  void OnObjectChanged(const Json& object) override { Show(k8s::Name(object), object); }
  void OnObjectDeleted(const k8s::ObjectId& id, const Json* /*last*/) override {
    Show(id.name, Json());
  }
  bool Holds(const k8s::ObjectId& id) const override;
  // Tells those that wait for it; null: it is gone.
  void Show(const std::string& name, const Json& object);

  k8s::ApiClient& api_;
  const Clock& clock_;
  k8s::Informer informer_;
  mutable Mutex mutex_;
  std::list<Interest*> interests_ ABSL_GUARDED_BY(mutex_);
  std::jthread handler_ ABSL_GUARDED_BY(mutex_);  // Until the destructor.
};

}  // namespace csidelta::longhorn
