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

TEST(PersistentVolumeTest, IsOfTheTypeOfItsSource) {
  const auto volume = PersistentVolume::Of(
      {{"spec", {{"nfs", {{"server", "s"}, {"path", "/p"}}}, {"csi", "a text"}}}});
  EXPECT_TRUE(volume->HasSource("nfs"));
  EXPECT_FALSE(volume->is_csi());
  EXPECT_EQ(volume->nfs_server(), "s");
  EXPECT_EQ(volume->nfs_path(), "/p");
}

TEST(PodTest, KeepsWhatCountsOfPvcs) {
  const auto pod = Pod::Of(
      {{"metadata", {{"name", "p"}, {"managedFields", Json::array()}}},
       {"spec",
        {{"containers", Json::array()},
         {"volumes",
          {{{"name", "a"}, {"persistentVolumeClaim", {{"claimName", "data"}}}},
           {{"name", "scratch"}, {"ephemeral", {{"volumeClaimTemplate", Json::object()}}}}}}}},
       {"status", {{"phase", "Running"}, {"podIP", "10.0.0.1"}}}});
  EXPECT_THAT(pod->pvc_volumes(), ElementsAre(PodVolume{.name = "a", .pvc = "data"}));
  EXPECT_TRUE(pod->NamesPvc("data"));
  EXPECT_FALSE(pod->NamesPvc("p-scratch"));
  EXPECT_FALSE(pod->NamesPvc(""));
  EXPECT_EQ(pod->Essence().json(),
            (Json{{"metadata", {{"name", "p"}}},
                  {"spec", {{"volumes", *FindJson(pod->json(), {"spec", "volumes"})}}},
                  {"status", {{"phase", "Running"}}}}));
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

TEST(PodTest, TellsWhatTheKubeletSaysOfItsContainers) {
  const auto pod = Pod::Of(
      {{"status",
        {{"containerStatuses",
          Json::array(
              {{{"state", {{"running", Json::object()}}}},
               {{"state", {{"waiting", {{"reason", "ImagePullBackOff"}}}}}},
               {{"state",
                 {{"terminated", {{"reason", "Error"}, {"exitCode", 134}, {"containerID", "c"}}}}}},
               "none"})}}}});
  const std::vector<ContainerStatus> containers = pod->containers();
  ASSERT_EQ(containers.size(), 4U);
  for (const ContainerStatus& runs : {containers[0], containers[3]}) {
    EXPECT_FALSE(runs.waiting.has_value());
    EXPECT_FALSE(runs.terminated.has_value());
  }
  EXPECT_EQ(containers[1].waiting->reason, "ImagePullBackOff");
  EXPECT_EQ(containers[2].terminated->reason, "Error");
  EXPECT_EQ(containers[2].terminated->exit_code, 134);
  EXPECT_EQ(containers[2].terminated->container_id, "c");
  EXPECT_TRUE(Pod().containers().empty());
  EXPECT_TRUE(Pod::Of({{"status", {{"containerStatuses", "none"}}}})->containers().empty());
}

TEST(PodTest, TellsItsConditions) {
  const auto pod = Pod::Of({{"status",
                             {{"conditions", Json::array({{{"type", "PodScheduled"},
                                                           {"status", "False"},
                                                           {"reason", "Unschedulable"},
                                                           {"message", "0/3 nodes"}}})}}}});
  ASSERT_EQ(pod->conditions().size(), 1U);
  const Condition condition = pod->conditions()[0];
  EXPECT_EQ(condition.type, "PodScheduled");
  EXPECT_EQ(condition.status, "False");
  EXPECT_EQ(condition.reason, "Unschedulable");
  EXPECT_EQ(condition.message, "0/3 nodes");
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

}  // namespace
}  // namespace csidelta::objects::workload_test
