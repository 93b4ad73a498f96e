#pragma once

#include <mutex>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "csi/snapshot_types.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::support {

// Plays the snapshot controller, the sidecar and a driver for a FakeApiClient: binds a new
// VolumeSnapshot of a claim to a content, has the driver cut a snapshot, and deletes it when policy
// says so; binds one of an existing content to that, and ends a content's deletion once the marks
// say that it is meant. What it does is done before the causing call returns; the switches leave
// steps out, for tests that take them themselves. Thread-safe but for the switches, which are set
// before the calls. Outlives no `api` call.
class FakeSnapshotController {
 public:
  bool binds = true;
  bool gives_handle = true;
  bool ready = true;
  std::string error;  // status.error of the content
  std::string class_policy = "Delete";
  int64_t restore_size_bytes = 64 << 20;
  int64_t cut_at_nanoseconds = 1'700'000'000'500'000'000;

  explicit FakeSnapshotController(FakeApiClient& api) : api_(api) {
    api.OnEvent("volumesnapshots", [this](FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind == k8s::WatchEvent::Kind::kAdded) {
        OnCreated(event.object);
      } else if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
        OnDeleted(event.object);
      }
    });
    api.OnEvent("volumesnapshotcontents", [this](FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
        OnContentDeleted(event.object);
      } else if (csi::BeingDeleted(event.object)) {
        OnContentDeleting(event.object);
      }
    });
  }

  // Handles of the snapshots that the driver holds.
  std::set<std::string> driver_snapshots() const {
    std::scoped_lock lock(mutex_);
    return driver_snapshots_;
  }

  // Binds a VolumeSnapshot that exists already.
  void Bind(const Json& snapshot) {
    const std::string uid = csi::Uid(snapshot);
    const std::string name = absl::StrCat("snapcontent-", uid);
    Json content = {{"metadata", {{"name", name}}}, {"spec", Json::object()}};
    content["spec"] = {
        {"driver", "d.example.com"},
        {"deletionPolicy", class_policy},
        {"source", {{"volumeHandle", "volume-1"}}},
        {"volumeSnapshotRef",
         {{"namespace", csi::Namespace(snapshot)}, {"name", csi::Name(snapshot)}, {"uid", uid}}}};
    api_.Seed(csi::VolumeSnapshotContentType(), content);
    api_.Mutate(csi::VolumeSnapshotKey(csi::Namespace(snapshot), csi::Name(snapshot)),
                [&](Json& object) {
                  SetJson(object, {"status", "boundVolumeSnapshotContentName"}, name);
                  SetJson(object, {"status", "readyToUse"}, false);
                });
    if (!error.empty()) {
      api_.Mutate(csi::VolumeSnapshotContentKey(name), [&](Json& object) {
        SetJson(object, {"status", "error", "message"}, error);
      });
    }
    if (gives_handle) {
      Cut(snapshot);
    }
  }

  // The driver cuts the snapshot of a bound VolumeSnapshot.
  void Cut(const Json& snapshot) {
    const std::string uid = csi::Uid(snapshot);
    {
      std::scoped_lock lock(mutex_);
      driver_snapshots_.insert(absl::StrCat("handle-", uid));
    }
    api_.Mutate(csi::VolumeSnapshotContentKey(absl::StrCat("snapcontent-", uid)),
                [&](Json& object) {
                  object["status"]["snapshotHandle"] = absl::StrCat("handle-", uid);
                  object["status"]["readyToUse"] = ready;
                  object["status"]["restoreSize"] = restore_size_bytes;
                  object["status"]["creationTime"] = cut_at_nanoseconds;
                });
    api_.Mutate(csi::VolumeSnapshotKey(csi::Namespace(snapshot), csi::Name(snapshot)),
                [&](Json& object) {
                  object["status"]["readyToUse"] = ready;
                  object["status"]["creationTime"] = "2023-11-14T22:13:20Z";
                });
  }

 private:
  void OnCreated(const Json& snapshot) {
    if (binds && !csi::SourceClaimName(snapshot).empty()) {
      Bind(snapshot);
    } else if (binds) {
      BindStatic(snapshot);
    }
  }

  void BindStatic(const Json& snapshot) {
    const std::string name = GetString(snapshot, {"spec", "source", "volumeSnapshotContentName"});
    const bool known = api_.Mutate(csi::VolumeSnapshotContentKey(name), [&](Json& content) {
      content["spec"]["volumeSnapshotRef"]["uid"] = csi::Uid(snapshot);
      content["status"]["snapshotHandle"] =
          GetString(content, {"spec", "source", "snapshotHandle"});
      content["status"]["readyToUse"] = ready;
    });
    if (known) {
      api_.Mutate(csi::VolumeSnapshotKey(csi::Namespace(snapshot), csi::Name(snapshot)),
                  [&](Json& object) {
                    object["status"]["boundVolumeSnapshotContentName"] = name;
                    object["status"]["readyToUse"] = ready;
                  });
    }
  }

  // The sidecar looks for the mark that the controller sets, or for a content that was never bound;
  // it asks the driver only for what the status names.
  void OnContentDeleting(const Json& content) {
    const bool meant =
        GetString(content, {"spec", "volumeSnapshotRef", "uid"}).empty() ||
        csi::Annotation(content, "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted") ==
            "yes";
    if (meant) {
      api_.Remove(csi::VolumeSnapshotContentKey(csi::Name(content)));
      OnContentDeleted(content);
    }
  }

  void OnDeleted(const Json& snapshot) {
    const auto key =
        csi::VolumeSnapshotContentKey(absl::StrCat("snapcontent-", csi::Uid(snapshot)));
    const std::optional<Json> content = api_.Find(key);
    if (content.has_value() && GetString(*content, {"spec", "deletionPolicy"}) == "Delete") {
      api_.Remove(key);
      OnContentDeleted(*content);
    }
  }

  void OnContentDeleted(const Json& content) {
    if (GetString(content, {"spec", "deletionPolicy"}) == "Delete") {
      std::scoped_lock lock(mutex_);
      driver_snapshots_.erase(csi::SnapshotHandle(content));
    }
  }

  FakeApiClient& api_;
  mutable std::mutex mutex_;
  std::set<std::string> driver_snapshots_;
};

}  // namespace csidelta::support
