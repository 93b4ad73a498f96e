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

}  // namespace
}  // namespace csidelta::objects::workload_test
