#include "objects/persistent_volume.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/storage_class.h"
#include "tests/support/typed.h"

namespace csidelta::objects::persistent_volume_test {
namespace {

using support::As;

constexpr char kIdentity[] = "storage.kubernetes.io/csiProvisionerIdentity";

PersistentVolume Volume() {
  return As<PersistentVolume>(
      {{"kind", "PersistentVolume"},
       {"metadata",
        {{"name", "pv-1"},
         {"uid", "pv-uid"},
         {"labels", {{"zone", "a"}}},
         {"finalizers", {"kubernetes.io/pv-protection"}},
         {"annotations", {{kProvisionedByAnnotation, "d.example.com"}}}}},
       {"spec",
        {{"capacity", {{"storage", "1Gi"}}},
         {"accessModes", {"ReadWriteOnce"}},
         {"volumeMode", "Block"},
         {"storageClassName", "fast"},
         {"persistentVolumeReclaimPolicy", "Delete"},
         {"claimRef", {{"namespace", "shop"}, {"name", "data"}, {"uid", "data-uid"}}},
         {"csi",
          {{"driver", "d.example.com"},
           {"volumeHandle", "v-1"},
           {"volumeAttributes", {{"pool", "one"}, {kIdentity, "17-d"}}}}}}},
       {"status", {{"phase", "Bound"}}}});
}

TEST(PersistentVolumeTest, ACopyIsTheSameVolumeUnderAnotherName) {
  PersistentVolume copy = Volume().CopyAs("pv-2");
  Json want = {{"apiVersion", "v1"},
               {"kind", "PersistentVolume"},
               {"metadata",
                {{"name", "pv-2"},
                 {"labels", {{"zone", "a"}}},
                 {"annotations", {{kProvisionedByAnnotation, "d.example.com"}}}}},
               {"spec", Volume().json().at("spec")}};
  EraseJson(want, {"spec", "csi", "volumeAttributes", kIdentity});
  EXPECT_EQ(copy.json(), want);
  copy.SetMode(VolumeMode::kFilesystem);
  copy.SetFileSystem("xfs");
  copy.SetMountOptions({"noatime"});
  EXPECT_EQ(GetString(copy.json(), {"spec", "volumeMode"}), "Filesystem");
  EXPECT_EQ(GetString(copy.json(), {"spec", "csi", "fsType"}), "xfs");
  EXPECT_EQ(copy.json().at("spec").at("mountOptions"), Json::array({"noatime"}));
}

TEST(PersistentVolumeTest, AnAliasIsUnclaimedAtFirst) {
  PersistentVolume alias = Volume().AliasAs("x");
  EXPECT_EQ(alias.json(), (Json{{"apiVersion", "v1"},
                                {"kind", "PersistentVolume"},
                                {"metadata", {{"name", "x"}}},
                                {"spec",
                                 {{"capacity", {{"storage", "1Gi"}}},
                                  {"accessModes", {"ReadWriteOnce"}},
                                  {"csi",
                                   {{"driver", "d.example.com"},
                                    {"volumeHandle", "v-1"},
                                    {"volumeAttributes", {{"pool", "one"}}}}}}}}));
  EXPECT_EQ(alias.capacity(), "1Gi");
  EXPECT_EQ(alias.access_modes(), std::vector<std::string>{"ReadWriteOnce"});
  alias.ReserveFor("mover", "x");
  EXPECT_EQ(alias.json().at("spec").at("claimRef"), (Json{{"apiVersion", "v1"},
                                                          {"kind", "PersistentVolumeClaim"},
                                                          {"namespace", "mover"},
                                                          {"name", "x"}}));
}

TEST(PersistentVolumeTest, AVolumeThatIsNotOfCsiGetsNoFileSystem) {
  PersistentVolume volume = PersistentVolume::Make("", "nfs");
  volume.SetFileSystem("xfs");
  EXPECT_EQ(volume, PersistentVolume::Make("", "nfs"));
}

TEST(PersistentVolumeTest, APatchSaysWhosePvcItIsOrThatItIsForAnyOfTheName) {
  for (const char* const uid : {"data-uid", ""}) {
    EXPECT_EQ(Patch().SetPvc("shop", "data", uid).json(),
              (Json{{"spec",
                     {{"claimRef",
                       {{"apiVersion", "v1"},
                        {"kind", "PersistentVolumeClaim"},
                        {"namespace", "shop"},
                        {"name", "data"},
                        {"uid", *uid == '\0' ? Json() : Json(uid)},
                        {"resourceVersion", nullptr}}}}}}));
  }
  EXPECT_EQ(Patch().SetPvcUid("u").json(), (Json{{"spec", {{"claimRef", {{"uid", "u"}}}}}}));
  EXPECT_EQ(Patch().ForgetPvcUid().json(),
            (Json{{"spec", {{"claimRef", {{"uid", nullptr}, {"resourceVersion", nullptr}}}}}}));
}

TEST(StorageClassTest, SaysWhatItsVolumesAreFormattedWith) {
  EXPECT_EQ(StorageClass().file_system(), "");
  EXPECT_EQ(As<StorageClass>({{"parameters", {{"fstype", "ext4"}}}}).file_system(), "ext4");
  const StorageClass storage_class =
      As<StorageClass>({{"parameters", {{"fstype", "ext4"}, {"csi.storage.k8s.io/fstype", "xfs"}}},
                        {"mountOptions", {"noatime", "discard"}}});
  EXPECT_EQ(storage_class.file_system(), "xfs");
  EXPECT_EQ(storage_class.mount_options(), (std::vector<std::string>{"noatime", "discard"}));
}

}  // namespace
}  // namespace csidelta::objects::persistent_volume_test
