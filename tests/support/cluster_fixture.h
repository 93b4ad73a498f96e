#pragma once

#include <gtest/gtest.h>

#include "base/call_context.h"
#include "base/random.h"
#include "csi/environment.h"
#include "k8s/object.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"

namespace csidelta::support {

// An API server with the controllers and the driver of volume snapshots, Velero in "velero", and a
// clock that advances by itself where the test waits.
class ClusterFixture : public testing::Test {
 protected:
  ClusterFixture() {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
  }

  // As the controller binds a PVC to a volume of before, which was free.
  void BindToOldVolume(const k8s::ObjectKey& pvc) {
    api_.Seed(PersistentVolumeType(),
              {{"metadata", {{"name", "old"}, {"creationTimestamp", "2001-01-01T00:00:00Z"}}},
               {"spec", {{"claimRef", {{"uid", k8s::Uid(*api_.Find(pvc))}}}}}});
    api_.SetField(pvc, {"spec", "volumeName"}, "old");
    api_.SetField(pvc, {"status", "phase"}, "Bound");
  }

  FakeClock clock_;
  FakeApiClient api_{clock_};
  FakeSnapshotCluster cluster_{api_};
  csi::Environment env_{.api = api_,
                        .clock = clock_,
                        .random = Random::Real(),
                        .velero_namespace = "velero",
                        .enable_csi = true};
  CallContext ctx_;
};

}  // namespace csidelta::support
