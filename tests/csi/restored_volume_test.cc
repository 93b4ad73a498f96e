#include "csi/expose/restored_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::restored_volume_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kDataBytes = 64 << 20;
constexpr char kTaskName[] = "dd-7";

class RestoredVolumeTest : public support::ClusterFixture {
 protected:
  RestoredVolumeTest() {
    SeedStorageClass("Immediate");
    MakeTarget("Block");
  }

  void SeedStorageClass(const std::string& binding_mode,
                        const std::string& provisioner = "d.example.com") {
    api_.Seed(StorageClassType(), {{"metadata", {{"name", "shop-class"}}},
                                   {"provisioner", provisioner},
                                   {"parameters", {{"csi.storage.k8s.io/fstype", "xfs"}}},
                                   {"mountOptions", Json::array({"noatime"})},
                                   {"volumeBindingMode", binding_mode}});
  }

  // As Velero restores it: no controller makes a volume of it by itself.
  void MakeTarget(const std::string& mode, int64_t bytes = kDataBytes) {
    Json claim = {{"metadata", {{"name", "data"}, {"namespace", "shop"}}}};
    claim["spec"] = {
        {"storageClassName", "shop-class"},
        {"volumeMode", mode},
        {"accessModes", Json::array({"ReadWriteOnce"})},
        {"selector", {{"matchLabels", {{objects::kDynamicPvRestoreLabel, "shop.data.x"}}}}}};
    SetJson(claim, {"spec", "resources", "requests", "storage"}, absl::StrCat(bytes));
    SetJson(claim, {"status", "phase"}, "Pending");
    target_uid_ = k8s::Uid(api_.Seed(PersistentVolumeClaimType(), claim));
  }

  RestoreRequest Request() const {
    return {.name = kTaskName,
            .mover_namespace = "mover",
            .target_namespace = "shop",
            .target_claim = "data",
            .target_uid = target_uid_,
            .size_bytes_least = kDataBytes,
            .file_system = "",
            .ignore_delay_binding = false,
            .labels = {{"mover.csi-delta.io/task", kTaskName}},
            .owner = objects::OwnerReference{.kind = "VolumeTask", .uid = "task-uid"}};
  }

  // Looks again where the first look ended with something that was just made.
  absl::StatusOr<RestoredVolume> Prepare(const RestoreRequest& request) {
    RETURN_IF_ERROR(PrepareVolume(ctx_, api_, request).status());
    return PrepareVolume(ctx_, api_, request);
  }
  absl::StatusOr<RestoredVolume> Prepare() { return Prepare(Request()); }
  std::string PreparedVolume() {
    const auto prepared = Prepare();
    EXPECT_THAT(prepared, IsOk());
    if (prepared.ok() && !prepared->volume_name.empty()) {  // As the mover does meanwhile.
      api_.SetField(VolumeKey(prepared->volume_name),
                    {"metadata", "labels", objects::kExcludeFromBackupLabel}, "true");
    }
    return prepared.ok() ? prepared->volume_name : "";
  }

  absl::StatusOr<RebindResult> Give(const std::string& volume) {
    for (int look = 0; look < 3; ++look) {
      ASSIGN_OR_RETURN(const RebindResult over, RebindVolume(ctx_, api_, Request(), volume));
      if (over.is_done) {
        return over;
      }
    }
    return RebindVolume(ctx_, api_, Request(), volume);
  }

  Json Target() { return api_.Find(ClaimKey("shop", "data")).value_or(Json()); }
  std::optional<Json> Claim() { return api_.Find(ClaimKey("mover", kTaskName)); }

  // The target has the one volume that there is, which is as its class wants it.
  void ExpectRestored(const std::string& handle, const std::string& mode) {
    EXPECT_EQ(GetString(Target(), {"status", "phase"}), "Bound");
    EXPECT_FALSE(Claim().has_value());
    ASSERT_THAT(api_.All(PersistentVolumeType()), SizeIs(1));
    const Json volume = api_.All(PersistentVolumeType())[0];
    EXPECT_EQ(GetString(Target(), {"spec", "volumeName"}), k8s::Name(volume));
    EXPECT_EQ(GetString(volume, {"spec", "claimRef", "uid"}), target_uid_);
    EXPECT_EQ(GetString(volume, {"spec", "csi", "volumeHandle"}), handle);
    EXPECT_EQ(GetString(volume, {"spec", "volumeMode"}), mode);
    EXPECT_EQ(GetString(volume, {"spec", "persistentVolumeReclaimPolicy"}),
              cluster_.reclaim_policy);
    EXPECT_EQ(k8s::Label(volume, objects::kDynamicPvRestoreLabel), "shop.data.x");
    EXPECT_EQ(k8s::Label(volume, objects::kExcludeFromBackupLabel), "");
    EXPECT_THAT(GetStringMap(volume, {"metadata", "annotations"}),
                testing::Each(testing::Key("pv.kubernetes.io/provisioned-by")));
  }

  std::string target_uid_;
};

// A free volume of the class is bound before a provisioner is asked. What it holds is foreign data.
TEST_F(RestoredVolumeTest, AVolumeThatWasThereBeforeIsNotWrittenOver) {
  cluster_.provisioner_runs = false;
  ASSERT_THAT(Prepare(), IsOk());
  BindToOldVolume(ClaimKey("mover", kTaskName));
  EXPECT_THAT(Prepare(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("volume old is older than the claim")));
}

TEST_F(RestoredVolumeTest, IsMadeAsABlockDeviceOfTheTargetsClassAndSize) {
  MakeTarget("Filesystem", 2 * kDataBytes);
  const auto prepared = Prepare();
  ASSERT_THAT(prepared, IsOk());
  EXPECT_EQ(prepared->state, RestoredVolume::State::kReady) << prepared->waiting_for;
  EXPECT_EQ(prepared->target_uid, target_uid_);
  EXPECT_EQ(prepared->storage_class, "shop-class");
  EXPECT_EQ(prepared->size_bytes, 2 * kDataBytes);
  EXPECT_EQ(prepared->volume_name, absl::StrCat("pvc-", k8s::Uid(*Claim())));
  EXPECT_TRUE(prepared->node_affinity.selects_all());
  EXPECT_EQ(GetString(*Claim(), {"spec", "volumeMode"}), "Block");
  EXPECT_EQ(GetString(*Claim(), {"spec", "storageClassName"}), "shop-class");
  EXPECT_EQ((*Claim())["metadata"]["ownerReferences"][0]["uid"], "task-uid");
  EXPECT_EQ(FindJson(*Claim(), {"spec", "selector"}), nullptr);
}

// Longhorn's dm-crypt device lacks the header of LUKS: the volume would be too small for its data.
TEST_F(RestoredVolumeTest, IsNotSmallerThanItsDataAndTheHeaderOfADriverThatEncrypts) {
  const std::tuple<const char*, const char*, int64_t, int64_t> cases[] = {
      {"driver.longhorn.io", "true", kDataBytes, kDataBytes + (16 << 20)},
      {"rook-ceph.rbd.csi.ceph.com", "true", 2 * kDataBytes, 2 * kDataBytes},
      {"driver.longhorn.io", "false", kDataBytes, kDataBytes},
      {"driver.longhorn.io", "false", kDataBytes / 2, kDataBytes},
      {"ebs.csi.aws.com", "true", kDataBytes, kDataBytes}};  // The storage encrypts.
  for (const auto& [driver, encrypted, requested_bytes, bytes] : cases) {
    SeedStorageClass("Immediate", driver);
    api_.Mutate({StorageClassType(), "", "shop-class"},
                [&, encrypted = encrypted](Json& storage_class) {
                  storage_class["parameters"]["encrypted"] = encrypted;
                });
    MakeTarget("Block", requested_bytes);
    RestoreRequest request = Request();
    request.name = absl::StrCat("of-", driver, encrypted, requested_bytes);
    const auto prepared = PrepareVolume(ctx_, api_, request);
    ASSERT_THAT(prepared, IsOk());
    EXPECT_EQ(prepared->size_bytes, bytes) << driver << " " << encrypted;
  }
}

// Some drivers make a file share of a volume that several nodes may mount, whatever its mode. They
// refuse to make it as a block device, or, as Longhorn, make it and never publish it as one.
struct ModesCase {
  const char* name;
  const char* volume_mode;
  std::vector<std::string> of_target;
  std::vector<std::string> of_mover;
};

class TargetModesTest : public RestoredVolumeTest,
                        public testing::WithParamInterface<std::tuple<ModesCase, bool>> {};

TEST_P(TargetModesTest, ThePvcOfTheMoverHasWhatTheMoverNeedsAndTheVolumeWhatTheTargetHas) {
  const auto& [modes, is_refused] = GetParam();
  const bool is_file_share = std::string(modes.volume_mode) == "Filesystem";
  cluster_.driver().habits.shares_block_mode = !is_file_share || !is_refused;
  cluster_.driver().habits.shares_files = is_file_share && !is_refused;
  MakeTarget(modes.volume_mode);
  api_.SetField(ClaimKey("shop", "data"), {"spec", "accessModes"}, modes.of_target);
  const std::string volume = PreparedVolume();
  ASSERT_TRUE(Claim().has_value());
  EXPECT_EQ((*Claim())["spec"]["accessModes"], Json(modes.of_mover));
  EXPECT_EQ(GetString(*Claim(), {"spec", "volumeMode"}), "Block");
  EXPECT_THAT(cluster_.driver().PublishVolume((*Claim())["spec"]["accessModes"], true), IsOk());
  ASSERT_THAT(Give(volume), IsOk());
  ExpectRestored("handle-of-" + volume, modes.volume_mode);
  EXPECT_EQ(api_.All(PersistentVolumeType())[0]["spec"]["accessModes"],
            Json(modes.of_target.empty() ? modes.of_mover : modes.of_target));
}

const std::vector<std::string> kOnce = {"ReadWriteOnce"};
const ModesCase kModesCases[] = {
    {"FilesNone", "Filesystem", {}, kOnce},
    {"FilesOnce", "Filesystem", kOnce, kOnce},
    {"FilesOncePod", "Filesystem", {"ReadWriteOncePod"}, kOnce},
    {"FilesReadMany", "Filesystem", {"ReadOnlyMany"}, kOnce},
    {"FilesMany", "Filesystem", {"ReadWriteMany"}, kOnce},
    {"FilesAll", "Filesystem", {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"}, kOnce},
    {"BlockNone", "Block", {}, kOnce},
    {"BlockOnce", "Block", kOnce, kOnce},
    {"BlockOncePod", "Block", {"ReadWriteOncePod"}, {"ReadWriteOncePod"}},
    {"BlockReadMany", "Block", {"ReadOnlyMany"}, kOnce},
    {"BlockMany", "Block", {"ReadWriteMany"}, {"ReadWriteMany"}},
    {"BlockAll",
     "Block",
     {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"},
     {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"}},
};
INSTANTIATE_TEST_SUITE_P(Table, TargetModesTest,
                         testing::Combine(testing::ValuesIn(kModesCases), testing::Bool()),
                         [](const auto& one) {
                           return absl::StrCat(std::get<0>(one.param).name,
                                               std::get<1>(one.param) ? "Refused" : "Shared");
                         });

// A volume of another VolumeAttributesClass is not as fast as the PVC is to be.
TEST_F(RestoredVolumeTest, HasTheAttributesClassOfTheTargetAndNamesOneThatIsMissing) {
  MakeTarget("Filesystem");
  api_.SetField(ClaimKey("shop", "data"), {"spec", "volumeAttributesClassName"}, "gold");
  const auto prepared = Prepare();
  ASSERT_THAT(prepared, IsOk());
  EXPECT_EQ(prepared->state, RestoredVolume::State::kWaiting);
  EXPECT_THAT(prepared->waiting_for, HasSubstr("\"gold\" not found"));
  api_.Seed(VolumeAttributesClassType(), {{"metadata", {{"name", "gold"}}}});
  cluster_.Resync();
  ASSERT_THAT(Give(PreparedVolume()), IsOk());
  EXPECT_EQ(GetString(Target(), {"status", "phase"}), "Bound");
  EXPECT_EQ(GetString(api_.All(PersistentVolumeType())[0], {"spec", "volumeAttributesClassName"}),
            "gold");
}

TEST_F(RestoredVolumeTest, WaitsForATargetThatIsMadeLater) {
  api_.Remove(ClaimKey("shop", "data"));
  RestoreRequest request = Request();
  request.target_uid.clear();
  const auto prepared = Prepare(request);
  ASSERT_THAT(prepared, IsOk());
  EXPECT_EQ(prepared->state, RestoredVolume::State::kWaiting);
  EXPECT_THAT(prepared->waiting_for, HasSubstr("shop/data"));
  EXPECT_FALSE(Claim().has_value());
  // One that was seen and is gone does not come back.
  EXPECT_THAT(Prepare(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(RestoredVolumeTest, AClassThatWaitsForItsConsumerWaitsForThePodsNode) {
  SeedStorageClass("WaitForFirstConsumer");
  cluster_.provisioner_runs = false;
  auto prepared = Prepare();
  ASSERT_THAT(prepared, IsOk());
  EXPECT_EQ(prepared->state, RestoredVolume::State::kWaiting);
  EXPECT_THAT(prepared->waiting_for, HasSubstr("ignoreDelayBinding"));
  EXPECT_FALSE(Claim().has_value());
  api_.SetField(ClaimKey("shop", "data"),
                {"metadata", "annotations", objects::kSelectedNodeAnnotation}, "node-b");
  prepared = Prepare();
  ASSERT_THAT(prepared, IsOk());
  EXPECT_EQ(prepared->state, RestoredVolume::State::kReady);
  EXPECT_EQ(prepared->node_affinity.json()["nodeSelectorTerms"][0]["matchFields"][0]["values"],
            Json::array({"node-b"}));
}

TEST_F(RestoredVolumeTest, DoesNotWaitForThePodIfTheSettingsSaySo) {
  SeedStorageClass("WaitForFirstConsumer");
  cluster_.provisioner_runs = false;
  RestoreRequest request = Request();
  request.ignore_delay_binding = true;
  const auto prepared = Prepare(request);
  ASSERT_THAT(prepared, IsOk());
  EXPECT_EQ(prepared->state, RestoredVolume::State::kReady);
  EXPECT_TRUE(prepared->node_affinity.selects_all());
}

TEST_F(RestoredVolumeTest, ATargetThatCannotBeFilledIsRefused) {
  api_.SetField(ClaimKey("shop", "data"), {"spec", "volumeName"}, "another client");
  EXPECT_THAT(Prepare(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another client")));
  MakeTarget("Block");
  SeedStorageClass("Immediate", "nfs.csi.k8s.io");
  EXPECT_THAT(Prepare(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nfs.csi")));
  api_.Remove({StorageClassType(), "", "shop-class"});
  EXPECT_THAT(Prepare(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("shop-class")));
  api_.SetField(ClaimKey("shop", "data"), {"spec", "storageClassName"}, "");
  EXPECT_THAT(Prepare(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("by a resource modifier in the restore")));
  api_.SetField(ClaimKey("shop", "data"), {"spec", "storageClassName"}, "shop-class");
  SeedStorageClass("Immediate");
  RestoreRequest request = Request();
  request.target_uid = "of another life";
  EXPECT_THAT(Prepare(request), StatusIs(absl::StatusCode::kFailedPrecondition));
  cluster_.driver().Refuse("CreateVolume", "InvalidArgument", "no block");
  EXPECT_THAT(Prepare(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  AllOf(HasSubstr("d.example.com"), HasSubstr("no block"),
                                        HasSubstr("64Mi, ReadWriteOnce, mode Block"))));
}

TEST_F(RestoredVolumeTest, ABlockTargetGetsTheVolumeItself) {
  const std::string volume = PreparedVolume();
  ASSERT_THAT(Give(volume), IsOk());
  EXPECT_TRUE(Give(volume)->is_done);
  ExpectRestored("handle-of-" + volume, "Block");
  EXPECT_EQ(GetString(Target(), {"spec", "volumeName"}), volume);
}

TEST_F(RestoredVolumeTest, AFilesystemTargetGetsAnObjectOfItsMode) {
  MakeTarget("Filesystem");
  cluster_.reclaim_policy = "Retain";
  const std::string volume = PreparedVolume();
  ASSERT_THAT(Give(volume), IsOk());
  EXPECT_TRUE(Give(volume)->is_done);
  ExpectRestored("handle-of-" + volume, "Filesystem");
  const Json made = api_.All(PersistentVolumeType())[0];
  EXPECT_EQ(k8s::Name(made), kTaskName);
  EXPECT_EQ(GetString(made, {"spec", "csi", "fsType"}), "xfs");
  EXPECT_EQ(made["spec"]["mountOptions"], Json::array({"noatime"}));
  EXPECT_EQ(made["spec"]["csi"]["volumeAttributes"], (Json{{"pool", "one"}}));
}

TEST_F(RestoredVolumeTest, TheFilesystemOfTheBackupWins) {
  MakeTarget("Filesystem");
  const std::string volume = PreparedVolume();
  RestoreRequest request = Request();
  request.file_system = "btrfs";
  for (int look = 0; look < 3; ++look) {
    ASSERT_THAT(RebindVolume(ctx_, api_, request, volume), IsOk());
  }
  EXPECT_EQ(GetString(api_.All(PersistentVolumeType())[0], {"spec", "csi", "fsType"}), "btrfs");
}

TEST_F(RestoredVolumeTest, TheNewObjectIsNotBoundWhileTheOldOneIsAttached) {
  MakeTarget("Filesystem");
  const std::string volume = PreparedVolume();
  api_.SetField(VolumeKey(volume), {"metadata", "finalizers"},
                Json::array({"external-attacher/d"}));
  const auto over = Give(volume);
  ASSERT_THAT(over, IsOk());
  EXPECT_FALSE(over->is_done);
  EXPECT_THAT(over->waiting_for, HasSubstr("detached"));
  EXPECT_EQ(GetString(Target(), {"spec", "volumeName"}), "");
  EXPECT_NE(GetString(*api_.Find(VolumeKey(kTaskName)), {"spec", "claimRef", "uid"}), target_uid_);
  api_.Remove(VolumeKey(volume));
  EXPECT_TRUE(Give(volume)->is_done);
}

TEST_F(RestoredVolumeTest, TheClaimIsDeletedOnlyAfterTheVolumeIsRetained) {
  const std::string volume = PreparedVolume();
  api_.Forbid("patch", "persistentvolumes");
  EXPECT_THAT(RebindVolume(ctx_, api_, Request(), volume),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(Claim().has_value());
  EXPECT_EQ(api_.CallCount("delete", "*"), 0);
}

TEST_F(RestoredVolumeTest, ADeletedTargetLeavesNoVolume) {
  const std::string volume = PreparedVolume();
  ASSERT_THAT(RebindVolume(ctx_, api_, Request(), volume), IsOk());
  api_.Remove(ClaimKey("shop", "data"));
  EXPECT_THAT(Give(volume), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deleted")));
  ASSERT_THAT(RemoveRestoredVolume(ctx_, api_, Request(), volume), IsOk());
  support::DeleteFreeVolumes(api_);
  EXPECT_THAT(api_.All(PersistentVolumeType()), IsEmpty());
}

TEST_F(RestoredVolumeTest, TheTargetsVolumeIsNotRemoved) {
  const std::string volume = PreparedVolume();
  ASSERT_TRUE(Give(volume)->is_done);
  ASSERT_THAT(RemoveRestoredVolume(ctx_, api_, Request(), volume), IsOk());
  support::DeleteFreeVolumes(api_);
  ExpectRestored("handle-of-" + volume, "Block");
}

TEST_F(RestoredVolumeTest, ACancelledVolumeIsDeletedEvenIfItsClassRetainsVolumes) {
  cluster_.reclaim_policy = "Retain";
  const std::string volume = PreparedVolume();
  ASSERT_THAT(RemoveRestoredVolume(ctx_, api_, Request(), volume), IsOk());
  support::DeleteFreeVolumes(api_);
  EXPECT_THAT(api_.All(PersistentVolumeType()), IsEmpty());
  EXPECT_FALSE(Claim().has_value());
  EXPECT_EQ(GetString(Target(), {"status", "phase"}), "Pending");
}

// Each call of a rebinding fails, or its answer is lost; another client carries on or clears up.
struct Interruption {
  const char* mode;
  Fault fault;
};

class InterruptedRebindingTest : public RestoredVolumeTest,
                                 public testing::WithParamInterface<Interruption> {
 protected:
  // `expect` sees the volume after a rebinding that each of its calls has failed in.
  void FailEachCall(const std::function<void(const std::string& volume)>& expect) {
    bool was_hit = true;
    int call = 0;
    while (was_hit) {
      SCOPED_TRACE(++call);
      MakeTarget(GetParam().mode);
      const std::string volume = PreparedVolume();
      api_.FailCall(call, absl::UnavailableError("cut off"), GetParam().fault);
      (void)Give(volume);
      was_hit = api_.sweep_hit();
      api_.ClearFaults();
      expect(volume);
      for (const Json& left : api_.All(PersistentVolumeType())) {
        api_.Remove(VolumeKey(k8s::Name(left)));
      }
      api_.Remove(ClaimKey("shop", "data"));
    }
    EXPECT_GT(call, 10);
  }
};

TEST_P(InterruptedRebindingTest, IsFinishedByAnother) {
  FailEachCall([this](const std::string& volume) {
    const auto over = Give(volume);
    ASSERT_THAT(over, IsOk());
    EXPECT_TRUE(over->is_done) << over->waiting_for;
    ExpectRestored("handle-of-" + volume, GetParam().mode);
  });
}

TEST_P(InterruptedRebindingTest, IsCleanedUpByAnotherOnceTheTargetIsGone) {
  FailEachCall([this](const std::string& volume) {
    const bool was_bound = GetString(Target(), {"status", "phase"}) == "Bound";
    if (!was_bound) {
      api_.Remove(ClaimKey("shop", "data"));
    }
    int dropped_by_driver = 0;
    for (int i = 0; i < 2; ++i) {
      ASSERT_THAT(RemoveRestoredVolume(ctx_, api_, Request(), volume), IsOk());
      dropped_by_driver += support::DeleteFreeVolumes(api_);
    }
    EXPECT_THAT(api_.All(PersistentVolumeType()), SizeIs(was_bound ? 1 : 0));
    EXPECT_LE(dropped_by_driver, 1);
    EXPECT_FALSE(Claim().has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, InterruptedRebindingTest,
                         testing::Values(Interruption{"Block", Fault::kRefused},
                                         Interruption{"Block", Fault::kAnswerLost},
                                         Interruption{"Filesystem", Fault::kRefused},
                                         Interruption{"Filesystem", Fault::kAnswerLost}),
                         [](const auto& one) {
                           return absl::StrCat(one.param.mode, one.param.fault == Fault::kRefused
                                                                   ? "Refused"
                                                                   : "AnswerLost");
                         });

}  // namespace
}  // namespace csidelta::csi::restored_volume_test
