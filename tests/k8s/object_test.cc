#include "k8s/object.h"

#include <gtest/gtest.h>

namespace csidelta::k8s::object_test {
namespace {

TEST(ObjectTest, ReadsMetadata) {
  const Json object = {{"metadata",
                        {{"name", "orders"},
                         {"namespace", "shop"},
                         {"uid", "u-1"},
                         {"resourceVersion", "7"},
                         {"labels", {{"app", "db"}}},
                         {"annotations", {{"a/b", "c"}}},
                         {"creationTimestamp", "2023-11-14T22:13:20Z"}}}};
  EXPECT_EQ(Name(object), "orders");
  EXPECT_EQ(Namespace(object), "shop");
  EXPECT_EQ(Uid(object), "u-1");
  EXPECT_EQ(ResourceVersion(object), "7");
  EXPECT_EQ(Label(object, "app"), "db");
  EXPECT_EQ(Annotation(object, "a/b"), "c");
  EXPECT_EQ(CreatedAt(object), absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(DeletedAt(object), std::nullopt);
  EXPECT_FALSE(BeingDeleted(object));
}

TEST(ObjectTest, ADeletionCountsThoughItsTimeDoesNotRead) {
  const Json object = {{"metadata", {{"deletionTimestamp", "soon"}}}};
  EXPECT_TRUE(BeingDeleted(object));
  EXPECT_EQ(DeletedAt(object), std::nullopt);
}

TEST(ObjectTest, TakesWrongTypesForMissing) {
  for (const Json& object : {Json(), Json(7), Json::array(), Json{{"metadata", "text"}},
                             Json{{"metadata", {{"name", 7}, {"uid", Json()}, {"labels", "x"}}}}}) {
    EXPECT_EQ(Name(object), "");
    EXPECT_EQ(Uid(object), "");
    EXPECT_EQ(Label(object, "app"), "");
    EXPECT_EQ(CreatedAt(object), std::nullopt);
    EXPECT_FALSE(BeingDeleted(object));
  }
}

TEST(ObjectTest, NamesAreThoseThatKubernetesTakes) {
  for (const std::string& good :
       {std::string("a"), std::string("data-db-0"), std::string("1.2"), std::string("a.b-c.d"),
        std::string(64, 'f'), std::string(253, 'x')}) {
    EXPECT_TRUE(IsObjectName(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("A"), std::string("a_b"), std::string("-a"), std::string("a-"),
        std::string("a..b"), std::string(".a"), std::string("a."), std::string("a/b"),
        std::string("a\n"), std::string("\xc3\xa4"), std::string("a-.b"), std::string(254, 'x'),
        std::string("a\0b", 3)}) {
    EXPECT_FALSE(IsObjectName(bad)) << bad;
  }
}

}  // namespace
}  // namespace csidelta::k8s::object_test
