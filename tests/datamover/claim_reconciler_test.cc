#include "datamover/controller/leftover_reconcilers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/expose/claim_release.h"
#include "csi/expose/exposed_snapshot.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::claim_reconciler_test {
namespace {

using support::Fault;
using support::IsOk;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kName[] = "du-7";

// A PVC of the mover of a class that retains volumes. Its provisioner is as slow as the test says.
class ClaimBed : public MoverBed {
 public:
  explicit ClaimBed(const std::string& reclaim_policy = "Retain") {
    const k8s::ObjectKey storage_class{StorageClassType(), "", "shop-class"};
    api.SetField(storage_class, {"reclaimPolicy"}, reclaim_policy);
    cluster.reclaim_policy = reclaim_policy;
  }

  // As an upload does.
  void Expose() {
    csi::ExposeRequest request = ExposeRequestOfTest();
    for (int look = 0; look < 3; ++look) {
      EXPECT_THAT(csi::ExposeSnapshot(ctx, api, request), IsOk());
    }
  }
  csi::ExposeRequest ExposeRequestOfTest() const {
    return {.name = kName,
            .source_namespace = "shop",
            .source_snapshot = "velero-nightly",
            .source_claim = "data",
            .mover_namespace = kMover,
            .storage_class = "",
            .labels = LabelsFor(kName, "velero"),
            .annotations = {},
            .owner = std::nullopt,
            .read_only_many = false};
  }
  void Remove() {
    EXPECT_THAT(csi::RemoveExposure(ctx, api, ExposeRequestOfTest(), csi::SnapshotAction::kDelete),
                IsOk());
  }
  // As a garbage collector or a person does, who knows of no volume.
  void DeleteClaim() { EXPECT_THAT(api.Delete(ctx, ClaimKey(kMover, kName), {}), IsOk()); }

  void NoteProvisioning() {
    api.Mutate(ClaimKey(kMover, kName), [](Json& claim) {
      claim["metadata"]["annotations"][objects::kStorageProvisionerAnnotation] = "d.example.com";
    });
  }
  // The provisioner finishes; `binds`: the PVC is told of it.
  void MakeVolume(bool binds) {
    const Json claim = *Claim();
    const std::string name = absl::StrCat("pvc-", k8s::Uid(claim));
    api.Seed(PersistentVolumeType(),
             {{"metadata",
               {{"name", name},
                {"annotations", {{objects::kProvisionedByAnnotation, "d.example.com"}}}}},
              {"spec",
               {{"claimRef", {{"namespace", kMover}, {"name", kName}, {"uid", k8s::Uid(claim)}}},
                {"csi", {{"driver", "d.example.com"}, {"volumeHandle", "late"}}},
                {"persistentVolumeReclaimPolicy", "Retain"}}},
              {"status", {{"phase", "Bound"}}}});
    if (binds) {
      api.SetField(ClaimKey(kMover, kName), {"spec", "volumeName"}, name);
    }
  }

  std::optional<Json> Claim() const { return api.Find(ClaimKey(kMover, kName)); }
  std::vector<Json> Volumes() const { return api.All(PersistentVolumeType()); }

  // When it is to be looked at again; InfinitePast after an error.
  absl::Time Look() {
    ClaimReconciler reconciler(env);
    const std::optional<Json> claim = Claim();
    if (!claim.has_value() || !reconciler.Concerns(*claim)) {
      return absl::InfiniteFuture();
    }
    return reconciler.Reconcile(ctx, *claim).value_or(absl::InfinitePast());
  }
};

class ClaimReconcilerTest : public testing::Test {
 protected:
  ClaimReconcilerTest() { bed_.AddUpload("nightly"); }

  // A PVC that is deleted while its volume is being made.
  void DeleteUnbound() {
    bed_.cluster.provisioner_runs = false;
    bed_.Expose();
    bed_.NoteProvisioning();
    bed_.DeleteClaim();
    ASSERT_TRUE(bed_.Claim().has_value());
  }

  ClaimBed bed_;
};

TEST_F(ClaimReconcilerTest, AVolumeThatIsMadeAfterTheDeletionGoes) {
  for (const bool binds : {true, false}) {
    ClaimBed bed;
    bed.AddUpload("nightly");
    bed.cluster.provisioner_runs = false;
    bed.Expose();
    bed.NoteProvisioning();
    bed.Remove();
    EXPECT_LT(bed.Look(), bed.clock.Now() + absl::Minutes(1)) << "the provisioner is at work";
    ASSERT_TRUE(bed.Claim().has_value());
    bed.MakeVolume(binds);
    if (!binds) {  // The PersistentVolume binds the PVC a moment later, or never.
      EXPECT_EQ(GetString(*bed.Claim(), {"spec", "volumeName"}), "");
    }
    EXPECT_EQ(bed.Look(), absl::InfiniteFuture());
    EXPECT_FALSE(bed.Claim().has_value());
    for (const Json& volume : bed.Volumes()) {
      EXPECT_EQ(GetString(volume, {"spec", "persistentVolumeReclaimPolicy"}), "Delete");
    }
  }
}

TEST_F(ClaimReconcilerTest, TheVolumeGoesWithThePvc) {
  bed_.Expose();
  ASSERT_THAT(bed_.Volumes(), SizeIs(1));
  bed_.DeleteClaim();
  ASSERT_TRUE(bed_.Claim().has_value()) << "our finalizer holds it";
  EXPECT_EQ(bed_.Look(), absl::InfiniteFuture());
  EXPECT_FALSE(bed_.Claim().has_value());
  EXPECT_THAT(bed_.Volumes(), IsEmpty());
}

// A restore of a backup of the whole cluster would make one of a volume that is gone.
TEST_F(ClaimReconcilerTest, BackupsOmitItsVolume) {
  bed_.Expose();
  ASSERT_THAT(bed_.Volumes(), SizeIs(1));
  EXPECT_EQ(bed_.Look(), absl::InfiniteFuture());
  EXPECT_EQ(k8s::Label(bed_.Volumes()[0], objects::kExcludeFromBackupLabel), "true");
}

TEST_F(ClaimReconcilerTest, OneOfAClassThatDeletesIsNotHeld) {
  ClaimBed bed("Delete");
  bed.AddUpload("nightly");
  bed.Expose();
  EXPECT_THAT(support::As<objects::PersistentVolumeClaim>(*bed.Claim()).finalizers(), IsEmpty());
}

TEST_F(ClaimReconcilerTest, OneThatWasMadeWithoutTheFinalizerGetsIt) {
  bed_.Expose();
  bed_.api.Mutate(ClaimKey(MoverBed::kMover, kName), [](Json& claim) {
    EraseJson(claim, {"metadata", "finalizers"});
  });
  bed_.Expose();
  EXPECT_THAT(support::As<objects::PersistentVolumeClaim>(*bed_.Claim()).finalizers(),
              ElementsAre(objects::kVolumeFinalizer));
}

TEST_F(ClaimReconcilerTest, WhatNoProvisionerWasAskedForGoesAtOnce) {
  bed_.cluster.provisioner_runs = false;
  bed_.Expose();
  bed_.DeleteClaim();
  EXPECT_EQ(bed_.Look(), absl::InfiniteFuture());
  EXPECT_FALSE(bed_.Claim().has_value());
  EXPECT_THAT(bed_.EventReasons(), IsEmpty());
}

TEST_F(ClaimReconcilerTest, WhatTheDriverRefusedGoesAtOnceAndWhatItMayFinishDoesNot) {
  for (const auto& [code, is_gone] :
       std::map<std::string, bool>{{"Internal", true}, {"DeadlineExceeded", false}}) {
    SCOPED_TRACE(code);
    ClaimBed bed;
    bed.AddUpload("nightly");
    bed.cluster.provisioner_runs = false;
    bed.Expose();
    bed.NoteProvisioning();
    bed.api.Seed({"", "v1", "events", "Event", true},
                 {{"metadata", {{"name", "refused"}, {"namespace", MoverBed::kMover}}},
                  {"involvedObject", {{"uid", k8s::Uid(*bed.Claim())}}},
                  {"reason", "ProvisioningFailed"},
                  {"message", absl::StrCat("rpc error: code = ", code, " desc = no")}});
    bed.DeleteClaim();
    bed.Look();
    EXPECT_EQ(!bed.Claim().has_value(), is_gone);
  }
}

TEST_F(ClaimReconcilerTest, ALateVolumeIsWaitedForADayWithFewLooksAndThenToldOf) {
  DeleteUnbound();
  const absl::Time deleted_at = bed_.clock.Now();
  int looks = 0;
  while (bed_.Claim().has_value() && looks < 100) {
    const absl::Time next = bed_.Look();
    ++looks;
    if (next != absl::InfiniteFuture()) {
      ASSERT_GT(next, bed_.clock.Now());
      bed_.clock.Advance(next - bed_.clock.Now());
    }
  }
  EXPECT_FALSE(bed_.Claim().has_value());
  EXPECT_LE(looks, 40);
  EXPECT_GE(bed_.clock.Now() - deleted_at, csi::kLateVolumeTimeMax - absl::Minutes(1));
  EXPECT_THAT(bed_.EventReasons(), Contains("Warning VolumeMayBeLeft"));
}

TEST_F(ClaimReconcilerTest, AVolumeThatIsSharedIsNotTouched) {
  const std::map<std::string, void (*)(Json&)> kinds = {
      {"being passed on",
       [](Json& volume) {
         volume["metadata"]["annotations"][objects::kVolumeOfAnnotation] = "dd-1";
       }},
      {"of another PVC", [](Json& volume) { volume["spec"]["claimRef"]["uid"] = "other"; }},
      {"an alias",
       [](Json& volume) {
         volume["metadata"]["annotations"][objects::kAliasOfAnnotation] = "pv-of-data";
       }},
      {"not of CSI", [](Json& volume) {
         volume["spec"].erase("csi");
         volume["spec"]["hostPath"] = {{"path", "/"}};
       }}};
  for (const auto& [kind, change] : kinds) {
    SCOPED_TRACE(kind);
    ClaimBed bed;
    bed.AddUpload("nightly");
    bed.cluster.provisioner_runs = false;
    bed.Expose();
    bed.NoteProvisioning();
    bed.MakeVolume(true);
    const std::string name = k8s::Name(bed.Volumes().at(0));
    bed.api.Mutate(VolumeKey(name), change);
    bed.Look();
    bed.DeleteClaim();
    EXPECT_EQ(bed.Look(), absl::InfiniteFuture());
    EXPECT_FALSE(bed.Claim().has_value());
    ASSERT_THAT(bed.Volumes(), SizeIs(1));
    EXPECT_EQ(GetString(bed.Volumes()[0], {"spec", "persistentVolumeReclaimPolicy"}), "Retain");
    EXPECT_EQ(k8s::Label(bed.Volumes()[0], objects::kExcludeFromBackupLabel), "");
  }
}

// A controller dies at each of its calls, from the making of the PVC to its end; with what another
// finds then, nothing is left.
TEST(ClaimReconcilerSweep, AKilledControllerLeavesNoVolume) {
  for (const Fault fault : {Fault::kRefused, Fault::kAnswerLost}) {
    for (int call = 1;; ++call) {
      SCOPED_TRACE(call);
      ClaimBed bed;
      bed.AddUpload("nightly");
      bed.api.FailCall(call, absl::UnavailableError("killed"), fault);
      const csi::ExposeRequest request = bed.ExposeRequestOfTest();
      absl::Status status;
      for (int look = 0; look < 3 && status.ok(); ++look) {
        status = csi::ExposeSnapshot(bed.ctx, bed.api, request).status();
      }
      if (status.ok()) {
        status = csi::RemoveExposure(bed.ctx, bed.api, request, csi::SnapshotAction::kDelete);
      }
      if (status.ok()) {
        bed.Look();
      }
      const bool was_hit = bed.api.sweep_hit();
      bed.api.ClearFaults();
      // The VolumeTask that owns the PVC goes; the garbage collector takes the PVC.
      if (bed.Claim().has_value()) {
        bed.DeleteClaim();
      }
      for (int look = 0; look < 3; ++look) {
        bed.Look();
      }
      EXPECT_FALSE(bed.Claim().has_value());
      EXPECT_THAT(bed.Volumes(), IsEmpty());
      if (!was_hit) {
        EXPECT_GT(call, 15);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace csidelta::datamover::claim_reconciler_test
