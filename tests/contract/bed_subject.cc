#include "tests/contract/bed_subject.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"

#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "csi/expose/audience_tokens.h"
#include "incremental/sources/csi_metadata_source.h"
#include "k8s/object.h"
#include "k8s/rest_client.h"
#include "k8s/wait.h"

namespace csidelta::contract {
namespace {

using k8s::ObjectKey;

constexpr char kClaim[] = "data";

Json ReadDescription(const std::string& path) {
  std::ifstream file(path);
  return ParseJsonObject(std::string(std::istreambuf_iterator<char>(file), {})).value();
}

std::unique_ptr<k8s::ApiClient> MakeClientOf(const std::string& kubeconfig) {
  k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
  settings.own_kubeconfig = kubeconfig;
  return k8s::MakeClient(settings);
}

class BedSubject : public ChangedBlockSubject {
 public:
  explicit BedSubject(const Json& bed)
      : bed_(bed),
        admin_(MakeClientOf(GetString(bed, {"admin"}))),
        client_(MakeClientOf(GetString(bed, {"client"}))) {
    const k8s::ResourceType namespaces{"", "v1", "namespaces", "Namespace", false};
    const Json made = admin_
                          ->Create(Soon(), namespaces, "",
                                   Json{{"apiVersion", "v1"},
                                        {"kind", "Namespace"},
                                        {"metadata", {{"generateName", "csi-delta-contract-"}}}})
                          .value();
    namespace_ = {namespaces, "", k8s::Name(made)};
  }

  // The controllers take it away when they come to it; that is not awaited here.
  ~BedSubject() override {
    for (const char* snapshot : {"old", "new"}) {
      admin_->Delete(Soon(), VolumeSnapshotKey(namespace_.name, snapshot), {}).IgnoreError();
    }
    admin_->Delete(Soon(), {PersistentVolumeClaimType(), namespace_.name, kClaim}, {})
        .IgnoreError();
    admin_->Delete(Soon(), namespace_, {}).IgnoreError();
  }

  incremental::DiffRequest Play(const VolumeWorkload& story) override {
    MakeClaim(story.size_bytes);
    Write(story.before_base, 'a');
    const std::string base = TakeSnapshot("old");
    Write(story.after_base, 'b');
    TakeSnapshot("new");
    return {.base = base,
            .target = absl::StrCat(namespace_.name, "/new"),
            .size_bytes = story.size_bytes};
  }

  incremental::ChangedBlockSource* source() override { return &source_; }

  void RemoveBase() override { Remove(VolumeSnapshotKey(namespace_.name, "old")); }
  void RemoveTarget() override { Remove(VolumeSnapshotKey(namespace_.name, "new")); }

 private:
  static CallContext Soon() { return CallContext().WithTimeout(absl::Seconds(60)); }

  void MakeClaim(int64_t size_bytes) {
    const Json claim{{"apiVersion", "v1"},
                     {"kind", "PersistentVolumeClaim"},
                     {"metadata", {{"name", kClaim}}},
                     {"spec",
                      {{"accessModes", {"ReadWriteOnce"}},
                       {"volumeMode", "Block"},
                       {"storageClassName", GetString(bed_, {"storage_class"})},
                       {"resources", {{"requests", {{"storage", absl::StrCat(size_bytes)}}}}}}}};
    CSIDELTA_CHECK(
        admin_->Create(Soon(), PersistentVolumeClaimType(), namespace_.name, claim).ok());
    std::string volume;
    Await({PersistentVolumeClaimType(), namespace_.name, kClaim}, [&](const Json* object) {
      volume = object == nullptr ? "" : GetString(*object, {"spec", "volumeName"});
      return object != nullptr && GetString(*object, {"status", "phase"}) == "Bound";
    });
    const Json bound = admin_->Get(Soon(), {PersistentVolumeType(), "", volume}).value();
    volume_path_ = absl::StrCat(GetString(bed_, {"volumes"}), "/",
                                GetString(bound, {"spec", "csi", "volumeHandle"}));
  }

  void Write(const std::vector<Extent>& extents, char byte) const {
    std::fstream volume(volume_path_, std::ios::binary | std::ios::in | std::ios::out);
    for (const Extent& extent : extents) {
      volume.seekp(extent.offset_bytes);
      volume << std::string(static_cast<std::size_t>(extent.length_bytes), byte);
    }
    CSIDELTA_CHECK(volume.flush().good());
  }

  // The handle that the driver gave it.
  std::string TakeSnapshot(const std::string& name) {
    const Json snapshot{{"apiVersion", "snapshot.storage.k8s.io/v1"},
                        {"kind", "VolumeSnapshot"},
                        {"metadata", {{"name", name}}},
                        {"spec",
                         {{"volumeSnapshotClassName", GetString(bed_, {"snapshot_class"})},
                          {"source", {{"persistentVolumeClaimName", kClaim}}}}}};
    CSIDELTA_CHECK(admin_->Create(Soon(), VolumeSnapshotType(), namespace_.name, snapshot).ok());
    std::string content;
    Await(VolumeSnapshotKey(namespace_.name, name), [&](const Json* object) {
      content = object == nullptr ? "" : support::BoundContentName(*object);
      return object != nullptr && GetBool(*object, {"status", "readyToUse"});
    });
    return support::SnapshotHandle(admin_->Get(Soon(), VolumeSnapshotContentKey(content)).value());
  }

  // With what stands behind it: the controllers take their finalizers off when that is gone.
  void Remove(const ObjectKey& key) {
    const absl::StatusOr<Json> object = admin_->Get(Soon(), key);
    if (!object.ok()) {
      return;
    }
    const std::string content = support::BoundContentName(*object);
    admin_->Delete(Soon(), key, {}).IgnoreError();
    const auto is_gone = [](const Json* left) { return left == nullptr; };
    Await(key, is_gone);
    if (!content.empty()) {
      Await(VolumeSnapshotContentKey(content), is_gone);
    }
  }

  template <typename Done>
  void Await(const ObjectKey& key, const Done& done) {
    const absl::Status status =
        k8s::WaitFor(Soon(), *admin_, key,
                     [&](const Json* object) -> absl::StatusOr<bool> { return done(object); });
    EXPECT_TRUE(status.ok()) << ToString(key) << ": " << status;
  }

  const Json bed_;
  const std::unique_ptr<k8s::ApiClient> admin_;
  const std::unique_ptr<k8s::ApiClient> client_;
  ObjectKey namespace_;
  std::string volume_path_;
  csi::AudienceTokens tokens_{*client_, {}};
  incremental::CsiMetadataSource source_{*client_, tokens_, Random::Real(), {}};
};

}  // namespace

std::unique_ptr<ChangedBlockSubject> MakeBedSubject(const std::string& description) {
  return std::make_unique<BedSubject>(ReadDescription(description));
}

}  // namespace csidelta::contract
