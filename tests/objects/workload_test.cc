#include "objects/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects/persistent_volume.h"

namespace csidelta::objects::workload_test {
namespace {

using testing::ElementsAre;

TEST(PersistentVolumeTest, NamesTheDriverOfCsiOnly) {
  EXPECT_EQ(PersistentVolume::Of({{"spec", {{"csi", {{"driver", "d"}}}}}})->driver(), "d");
  EXPECT_EQ(PersistentVolume::Of({{"spec", {{"nfs", {{"server", "s"}}}}}})->driver(), "");
}

TEST(PodTest, NamesThePvcsOfItsVolumes) {
  const Json json = {
      {"metadata", {{"name", "db-0"}}},
      {"spec",
       {{"volumes",
         {{{"name", "a"}, {"persistentVolumeClaim", {{"claimName", "data"}}}},
          {{"name", "twice"}, {"persistentVolumeClaim", {{"claimName", "data"}}}},
          {{"name", "config"}, {"configMap", {{"name", "data"}}}},
          {{"name", "scratch"}, {"ephemeral", {{"volumeClaimTemplate", Json::object()}}}}}}}}};
  EXPECT_THAT(Pod::Of(json)->pvcs(), ElementsAre("data", "db-0-scratch"));
  EXPECT_TRUE(Pod::Of({{"spec", {{"volumes", "many"}}}})->pvcs().empty());
}

TEST(StatefulSetTest, KnowsThePvcsOfItsTemplatesByOrdinal) {
  const auto set = StatefulSet::Of(
      {{"metadata", {{"name", "db"}}},
       {"spec",
        {{"volumeClaimTemplates", Json::array({{{"metadata", {{"name", "data"}}}}})},
         {"template",
          {{"spec",
            {{"volumes",
              Json::array({{{"persistentVolumeClaim", {{"claimName", "shared"}}}}})}}}}}}}});
  EXPECT_TRUE(set->Uses("data-db-0"));
  EXPECT_TRUE(set->Uses("data-db-12"));
  EXPECT_TRUE(set->Uses("shared"));
  for (const char* other : {"data-db-", "data-db-01", "data-db-x", "data-db-1-2", "data-dbx-1",
                            "logs-db-0", "data", ""}) {
    EXPECT_FALSE(set->Uses(other)) << other;
  }
}

TEST(PodTest, IsActiveUntilItHasEnded) {
  for (const char* phase : {"Pending", "Running", "Unknown", ""}) {
    EXPECT_TRUE(Pod::Of({{"status", {{"phase", phase}}}})->is_active()) << phase;
  }
  for (const char* phase : {"Succeeded", "Failed"}) {
    EXPECT_FALSE(Pod::Of({{"status", {{"phase", phase}}}})->is_active()) << phase;
  }
}

TEST(PodTest, NamesWhatIsScaledToHaveItGone) {
  const auto workload = [](const char* kind, const char* name, bool is_controller) {
    const Json owner = {{"kind", kind}, {"name", name}, {"controller", is_controller}};
    return Pod::Of({{"metadata",
                     {{"name", "pod"},
                      {"labels", {{"pod-template-hash", "5d4f"}}},
                      {"ownerReferences", Json::array({owner})}}}})
        ->workload();
  };
  EXPECT_EQ(workload("StatefulSet", "db", true), "StatefulSet/db");
  EXPECT_EQ(workload("ReplicaSet", "web-5d4f", true), "Deployment/web");
  EXPECT_EQ(workload("ReplicaSet", "web", true), "ReplicaSet/web");
  EXPECT_EQ(workload("Job", "copy", false), "Pod/pod");
  EXPECT_EQ(Pod::Of({{"metadata", {{"name", "pod"}}}})->workload(), "Pod/pod");
}

TEST(StatefulSetTest, SaysWhichPvcsItMakesAndDeletes) {
  const auto set = StatefulSet::Of(
      {{"metadata", {{"name", "db"}}},
       {"spec",
        {{"replicas", 0},
         {"ordinals", {{"start", 2}}},
         {"persistentVolumeClaimRetentionPolicy", {{"whenScaled", "Delete"}}},
         {"volumeClaimTemplates", Json::array({{{"metadata", {{"name", "data"}}}}})}}}});
  EXPECT_EQ(set->replicas(), 0);
  EXPECT_EQ(set->first_ordinal(), 2);
  EXPECT_TRUE(set->deletes_when_scaled());
  EXPECT_EQ(set->OrdinalOf("data-db-12"), 12);
  EXPECT_EQ(set->OrdinalOf("data-db-01"), std::nullopt);
  EXPECT_EQ(set->OrdinalOf("data-db-99999999999999999999"), std::nullopt);
  const auto bare = StatefulSet::Of({{"metadata", {{"name", "db"}}}});
  EXPECT_EQ(bare->replicas(), 1);
  EXPECT_EQ(bare->first_ordinal(), 0);
  EXPECT_FALSE(bare->deletes_when_scaled());
}

TEST(PodTest, SaysWhatItsContainerLeftBehind) {
  Json pod = {{"kind", "Pod"}, {"status", {{"phase", "Failed"}}}};
  EXPECT_EQ(Pod::Of(pod)->phase(), "Failed");
  EXPECT_EQ(Pod::Of(pod)->termination_message(), "");
  pod["status"]["message"] = "evicted";
  EXPECT_EQ(Pod::Of(pod)->termination_message(), "evicted");
  pod["status"]["containerStatuses"] =
      Json::array({{{"lastState", {{"terminated", {{"message", "before"}}}}}}});
  EXPECT_EQ(Pod::Of(pod)->termination_message(), "before");
  pod["status"]["containerStatuses"][0]["state"] = {{"terminated", {{"message", "now"}}}};
  EXPECT_EQ(Pod::Of(pod)->termination_message(), "now");
}

TEST(PodTest, SaysWhyItDoesNotRunYet) {
  Json pod = {{"kind", "Pod"}};
  EXPECT_EQ(Pod::Of(pod)->phase(), "");
  EXPECT_EQ(Pod::Of(pod)->waiting_reason(), "");
  pod["status"]["conditions"] =
      Json::array({{{"type", "Ready"}, {"status", "True"}, {"message", "not this"}},
                   {{"type", "PodScheduled"},
                    {"status", "False"},
                    {"reason", "Unschedulable"},
                    {"message", "no node fits"}}});
  EXPECT_EQ(Pod::Of(pod)->waiting_reason(), "Unschedulable: no node fits");
  pod["status"]["containerStatuses"] =
      Json::array({{{"state", {{"waiting", {{"reason", "ContainerCreating"}}}}}}});
  EXPECT_EQ(Pod::Of(pod)->waiting_reason(), "Unschedulable: no node fits");
  pod["status"]["containerStatuses"][0]["state"]["waiting"] = {{"reason", "ErrImagePull"}};
  EXPECT_EQ(Pod::Of(pod)->waiting_reason(), "ErrImagePull");
}

}  // namespace
}  // namespace csidelta::objects::workload_test
