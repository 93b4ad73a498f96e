#pragma once

#include <string>

#include "base/json.h"
#include "diffsnap/resolver.h"
#include "objects/differential_snapshot.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::diffsnap {

// An API server with volume snapshots of "volume-1" in namespace "app", and one
// DifferentialSnapshot.
class DsnapBed {
 public:
  DsnapBed() {
    api.SetStatusSubresource("differentialsnapshots", true);
    AddSnapshot("monday", "snap-monday");
    AddSnapshot("tuesday", "snap-tuesday");
  }

  void AddSnapshot(const std::string& name, const std::string& handle,
                   const std::string& driver = support::kDriver,
                   const std::string& volume = "volume-1", const std::string& space = "app") {
    Json content = support::MakeContentObject("content-" + name, space, name, handle);
    SetJson(content, {"spec", "driver"}, driver);
    SetJson(content, {"spec", "source"},
            volume.empty() ? Json{{"snapshotHandle", handle}} : Json{{"volumeHandle", volume}});
    SetJson(content, {"status", "restoreSize"}, int64_t{1} << 30);
    api.Seed(VolumeSnapshotContentType(), content);
    Json snapshot = support::MakeSnapshotObject(space, name, "content-" + name);
    SetJson(snapshot, {"status", "readyToUse"}, true);
    api.Seed(VolumeSnapshotType(), snapshot);
  }

  void SetReady(const std::string& name, bool ready) {
    api.Mutate(VolumeSnapshotKey("app", name), [&](Json& object) {
      SetJson(object, {"status", "readyToUse"}, ready);
    });
  }

  // As the API server stores it.
  Json Ask(Json spec, const std::string& name = "diff") {
    Json object =
        support::MakeObject("diffsnap.csi-delta.io/v1alpha1", "DifferentialSnapshot", "app", name);
    object["spec"] = std::move(spec);
    contents_informer.OnAll(api.All(VolumeSnapshotContentType()));
    return api.Seed(objects::DifferentialSnapshot::Type(), std::move(object));
  }

  // The same; one without a field when none exists.
  objects::DifferentialSnapshot Asked(const std::string& name = "diff") const {
    return objects::DifferentialSnapshot::Of(Now(name)).value_or(objects::DifferentialSnapshot());
  }
  Json Now(const std::string& name = "diff") const {
    return api.Find({objects::DifferentialSnapshot::Type(), "app", name}).value_or(Json());
  }

  support::FakeClock clock;
  support::FakeApiClient api{clock};
  ContentIndex contents{support::kDriver};  // As it was when Ask() was called last.
  k8s::Informer contents_informer{ContentIndex::Watched(), {&contents}};
  CallContext ctx{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock};
};

}  // namespace csidelta::diffsnap
