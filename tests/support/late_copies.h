#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/json.h"
#include "k8s/object.h"
#include "longhorn/types.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"

namespace csidelta::support {

// Volumes that are bound before their data is there, as Longhorn's are, on a FakeSnapshotCluster.
// What is made of a snapshot reads as kCopying until the copy is said to be complete; a source that
// goes before ends the copy for good, as nothing in Longhorn refuses that. Its Volumes show each
// state, if any do. Not thread-safe.
class LateCopies {
 public:
  static constexpr char kCopying[] = "(copying)";

  // `is_shown`: by Volumes of Longhorn; else nothing shows it.
  LateCopies(FakeApiClient& api, FakeSnapshotCluster& cluster, bool is_shown = true)
      : api_(api), cluster_(cluster), is_shown_(is_shown) {
    cluster.fills_when_bound = false;
    cluster.on_volume = [this](const Json& claim, const std::string& handle,
                               const std::string& source) { Begin(claim, handle, source); };
  }

  // All that are not at their end go to this state of cloneStatus; completed and
  // copy-completed-awaiting-healthy bring the data.
  void Show(const std::string& state) {
    const auto snapshots = cluster_.driver().snapshots();
    for (auto& [handle, copy] : copies_) {
      if (copy.is_complete || copy.is_lost) {
        continue;
      }
      copy.is_lost = !snapshots.contains(copy.source);
      copy.state = copy.is_lost ? longhorn::kCloneFailed : state;
      copy.is_complete =
          copy.state == longhorn::kCloneCompleted || copy.state == longhorn::kCloneAwaitsHealth;
      if (copy.is_complete) {
        cluster_.driver().Write(handle, copy.data);
      }
      Publish(handle, copy);
    }
  }
  // Whether a copy has lost its source, which is the loss that must never be.
  bool has_lost_a_source() const {
    const auto snapshots = cluster_.driver().snapshots();
    for (const auto& [handle, copy] : copies_) {
      if (!copy.is_complete && !snapshots.contains(copy.source)) {
        return true;
      }
    }
    return false;
  }
  bool all_complete() const {
    for (const auto& [handle, copy] : copies_) {
      if (!copy.is_complete) {
        return false;
      }
    }
    return true;
  }
  std::size_t size() const { return copies_.size(); }
  bool is_complete(const std::string& handle) const {
    const auto found = copies_.find(handle);
    return found != copies_.end() && found->second.is_complete;
  }
  // As a program found them that did not wait for their end.
  void BeginAgain() {
    for (auto& [handle, copy] : copies_) {
      copy.is_complete = false;
      cluster_.driver().Write(handle, kCopying);
      Publish(handle, copy);
    }
    Show("initiated");
  }

 private:
  struct Copy {
    std::string source;
    std::string data;
    std::string state;
    std::string pvc;
    bool is_complete = false;
    bool is_lost = false;
  };

  void Begin(const Json& claim, const std::string& handle, const std::string& source) {
    Copy copy = {.source = source,
                 .data = cluster_.driver().volumes()[handle],
                 .state = "",
                 .pvc = k8s::Name(claim)};
    cluster_.driver().Write(handle, kCopying);
    Publish(handle, copy);
    copies_.insert_or_assign(handle, std::move(copy));
  }

  void Publish(const std::string& handle, const Copy& copy) {
    if (!is_shown_) {
      return;
    }
    api_.Seed(longhorn::Volume::Type(),
              {{"metadata",
                {{"name", handle},
                 {"namespace", longhorn::kDefaultNamespace},
                 {"uid", "uid-of-" + handle}}},
               {"spec", {{"size", "1073741824"}, {"dataSource", copy.source}}},
               {"status",
                {{"cloneStatus", {{"state", copy.state}}},
                 {"kubernetesStatus", {{"namespace", "shop"}, {"pvcName", copy.pvc}}}}}});
    if (copy.state == longhorn::kCloneFailed) {
      api_.Seed(
          {"", "v1", "events", "Event", true},
          {{"metadata", {{"name", "failed-" + handle}, {"namespace", longhorn::kDefaultNamespace}}},
           {"involvedObject", {{"uid", "uid-of-" + handle}}},
           {"reason", "VolumeCloneFailed"},
           {"message", "cannot read the source"}});
    }
  }

  FakeApiClient& api_;
  FakeSnapshotCluster& cluster_;
  const bool is_shown_;
  std::map<std::string, Copy> copies_;  // by the handle of the volume
};

}  // namespace csidelta::support
