#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "k8s/api_client.h"

namespace csidelta::contract {

// An API server with snapshot-controller, csi-snapshotter, csi-provisioner and a driver under the
// contract. Owns what it needs; a new one for every test.
class SnapshotClusterSubject {
 public:
  virtual ~SnapshotClusterSubject() = default;
  virtual k8s::ApiClient& client() = 0;
  virtual std::string namespace_name() = 0;  // exists, and holds nothing managed
  virtual std::string driver_name() = 0;
  virtual std::string storage_class() = 0;
  // Calls of a method fail with a gRPC code, "INTERNAL"; for those about `match` alone.
  virtual void Fail(const std::string& method, const std::string& match, const std::string& code,
                    const std::string& message) = 0;
  virtual void StopFailing() = 0;
  // Handles of all that the driver has, of others, too.
  virtual std::set<std::string> DriverSnapshots() = 0;
  // How long the programs may take, and how long a test looks whether they let something be.
  virtual absl::Duration grace_period() = 0;
  virtual absl::Duration quiet_time() = 0;
};

struct SnapshotClusterCase {
  const char* name;
  std::function<std::unique_ptr<SnapshotClusterSubject>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const SnapshotClusterCase& subject) {
  return out << subject.name;
}

// What the programs between the API server and a CSI driver do (external-snapshotter 8.6.0), as far
// as ours rely on it: the suite that FakeSnapshotCluster and the real ones pass.
class SnapshotClusterContract : public testing::TestWithParam<SnapshotClusterCase> {
 public:
  using Check = std::function<bool(const Json&)>;

 protected:
  SnapshotClusterContract();
  ~SnapshotClusterContract() override;

  // Asks again for as long as the subject's grace period lasts: what fails names itself, and the
  // suite goes on, so that what a failed case left in a real cluster is cleaned up.
  bool Until(const std::function<bool()>& done);
  // Waits until an object is as `check` wants it, or fails the test; returns it as it is then.
  Json Await(const k8s::ObjectKey& key, const std::string& what, const Check& check);
  void AwaitGone(const k8s::ObjectKey& key);
  void AwaitDriver(const std::string& handle, bool holds);
  // Fails the test when the object goes or changes from what `check` wants while nothing may
  // happen.
  Json ExpectStays(const k8s::ObjectKey& key, const std::string& what, const Check& check);

  k8s::ObjectKey SnapshotKey(const std::string& name) const;
  k8s::ObjectKey ContentKeyOf(const std::string& snapshot);
  std::string MakeClass(const std::string& policy);
  std::string MakeGroupClass();
  // A bound claim; returns its volume's handle.
  std::string MakeClaim(const std::string& name, const std::string& group = "",
                        const std::string& from_snapshot = "");
  void MakeSnapshot(const std::string& name, const std::string& claim,
                    const std::string& class_name);
  // One that is ready; returns its content.
  Json TakeSnapshot(const std::string& name, const std::string& policy = "Delete");
  // A ready group of the claims that MakeClaim() was told to put into "db".
  Json TakeGroup(const std::string& name);
  // A content of an existing snapshot, for the VolumeSnapshot `snapshot` with this uid.
  std::string MakeContent(const std::string& base_name, const std::string& handle,
                          const std::string& snapshot, const std::string& uid, bool finalizer);
  Json MustCreate(const k8s::ResourceType& type, Json object);
  void MustDelete(const k8s::ObjectKey& key);

  std::unique_ptr<SnapshotClusterSubject> subject_;
  k8s::ApiClient& client_;
  const std::string namespace_;
  std::vector<k8s::ObjectKey> made_;
  std::vector<k8s::ObjectKey> retained_;  // contents whose snapshots a test left to the driver
};

}  // namespace csidelta::contract
