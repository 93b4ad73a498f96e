#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::contract {

// An API server with Longhorn, or what stands for it, under the contract. Owns what it needs; a new
// one for every test.
class LonghornSubject {
 public:
  virtual ~LonghornSubject() = default;
  virtual k8s::ApiClient& client() = 0;
  virtual std::string namespace_name() = 0;  // Longhorn's own
  // A namespace that exists, and holds nothing of Longhorn's.
  virtual std::string other_namespace() = 0;
  // Volumes that exist, which tests take snapshots of and do nothing else to.
  virtual std::string attached_volume() = 0;
  virtual std::string detached_volume() = 0;

  // What is not in the API: attach, detach and engine-snapshots of a volume; manager-stop,
  // manager-start. A case that needs one that is not there is skipped.
  virtual bool HasCommand(const std::string& command) = 0;
  // What it printed. engine-snapshots prints a JSON object, {name: {"removed": bool, "parent":
  // text, "sizeBytes": number}}, as the engine's process has it.
  virtual absl::StatusOr<std::string> RunCommand(const std::string& command,
                                                 const std::string& volume) = 0;

  virtual void Pass(absl::Duration time) = 0;
  virtual absl::Time Now() = 0;
  // Rules of the original proposal where today's differ: spec and labels immutable, the deletion of
  // a Volume waits.
  virtual bool is_as_proposed() = 0;
};

struct LonghornCase {
  const char* name;
  std::function<std::unique_ptr<LonghornSubject>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const LonghornCase& subject) {
  return out << subject.name;
}

// What Longhorn's Snapshot system does, as far as clients rely on it: webhooks, snapshot
// controller, engine monitor (longhorn-manager 1.12 and newer, v1 engine). The suite that the
// stand-in (tests/support/longhorn) and the real programs pass. Where they differ the stand-in is
// wrong. It was run on longhorn-manager 5ddaa369 (v1.13.0-dev) in November 2026; docs/longhorn.md
// lists the cases that are younger.
class LonghornContract : public testing::TestWithParam<LonghornCase> {
 public:
  using Check = std::function<bool(const Json&)>;

 protected:
  LonghornContract();
  ~LonghornContract() override;

  // Whether all of these commands are there; a test whose are not skips itself.
  bool Has(const std::vector<std::string>& commands);
  void MustRun(const std::string& command, const std::string& volume = "");
  // What the engine's process has, without the volume head.
  Json EngineSnapshots(const std::string& volume);
  bool EngineHas(const std::string& volume, const std::string& name);

  // Lets time pass until it is so, for as long as kGracePeriod.
  bool Until(const std::function<bool()>& done);
  // Waits until a Snapshot is as `check` wants it, or fails the test; returns it.
  Json Await(const std::string& name, const std::string& what, const Check& check);
  Json AwaitReady(const std::string& name);
  void AwaitGone(const k8s::ObjectKey& key);
  // Fails the test when a Snapshot is not as `check` wants it after `time`.
  void ExpectStays(const std::string& name, absl::Duration time, const std::string& what,
                   const Check& check);

  k8s::ObjectKey SnapshotKey(const std::string& name) const;
  k8s::ObjectKey VolumeKey(const std::string& name) const;
  // A name that no other test uses.
  std::string NewName(const std::string& base_name);
  Json SnapshotJson(const std::string& name, const std::string& volume,
                    bool create_snapshot = true) const;
  absl::StatusOr<Json> Create(const Json& snapshot, const std::string& namespace_name = "");
  Json MustCreate(const std::string& name, const std::string& volume, bool create_snapshot = true);
  // One that is ready.
  std::string Take(const std::string& base_name, const std::string& volume);
  absl::StatusOr<Json> Patch(const k8s::ObjectKey& key, const Json& patch,
                             const std::string& subresource = "");
  absl::StatusOr<Json> Get(const k8s::ObjectKey& key);
  absl::Status Delete(const std::string& name);
  void MustDelete(const std::string& name);
  bool HasTicket(const std::string& volume, const std::string& snapshot);
  std::string StateOf(const std::string& volume);
  // A volume of the test's own, which may be deleted or broken; attached.
  std::string MakeVolume();
  // With these fields in its spec besides; its name begins with `base_name`.
  std::string CreateVolume(const std::string& base_name, const Json& more = Json::object());
  // A volume whose data is copied from that snapshot.
  std::string MakeClone(const std::string& volume, const std::string& snapshot);
  std::string CloneStateOf(const std::string& volume);
  void SetMaxCount(const std::string& volume, int count);

  std::unique_ptr<LonghornSubject> subject_;
  k8s::ApiClient& client_;
  const std::string namespace_;
  const std::string attached_;
  const std::string detached_;
  std::vector<k8s::ObjectKey> made_;
  bool manager_is_stopped_ = false;
};

}  // namespace csidelta::contract
