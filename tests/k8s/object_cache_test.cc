#include "k8s/object_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "k8s/cached_client.h"
#include "k8s/informer.h"
#include "k8s/object.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::object_cache_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::Optional;
using Presence = ObjectCache::Presence;

const ResourceType kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};

ObjectKey Key(const std::string& name) { return {kConfigMaps, "ns", name}; }

Json Thing(const std::string& name, int version, const std::string& state = "") {
  return Json{{"metadata",
               {{"namespace", "ns"},
                {"name", name},
                {"labels", {{"app", "mover"}}},
                {"resourceVersion", absl::StrCat(version)}}},
              {"data", {{"state", state}}}};
}

WatchEvent Changed(const Json& object) {
  return {.kind = WatchEvent::Kind::kModified, .object = object};
}
WatchEvent Deleted(const Json& object) {
  return {.kind = WatchEvent::Kind::kDeleted, .object = object};
}

class ObjectCacheTest : public testing::Test {
 protected:
  ObjectCacheTest() { cache_.Add(informer_); }

  std::string StateOf(const std::string& name) const {
    const ObjectCache::Answer answer = cache_.Find(Key(name));
    switch (answer.presence) {
      case Presence::kFound:
        return GetString(answer.object, {"data", "state"});
      case Presence::kAbsent:
        return "absent";
      case Presence::kUnknown:
        break;
    }
    return "unknown";
  }
  // As if this process had written it, and the answer came at once.
  void Write(const Json& object) {
    cache_.RecordWritten(cache_.Begin(), Key(k8s::Name(object)), object);
  }

  ObjectCache cache_;
  Informer informer_{{.type = kConfigMaps, .namespace_name = "ns", .label_selector = "app=mover"}};
};

TEST_F(ObjectCacheTest, FindsWhatTheInformerDelivers) {
  EXPECT_EQ(StateOf("a"), "unknown") << "nothing was listed yet";
  Json long_one = Thing("a", 5, "one");
  long_one["metadata"]["managedFields"] = Json::array({1});
  informer_.OnPage({long_one}, /*is_first=*/true);
  EXPECT_EQ(cache_.Find(Key("a")).object, Thing("a", 5, "one"));
  EXPECT_EQ(StateOf("b"), "unknown") << "the list is not whole";
  informer_.OnListed();
  EXPECT_EQ(StateOf("b"), "absent");
  informer_.OnEvent(Changed(Thing("a", 6, "two")));
  EXPECT_EQ(StateOf("a"), "two");
  informer_.OnEvent(Deleted(Thing("a", 7, "two")));
  EXPECT_EQ(StateOf("a"), "absent");
  EXPECT_EQ(cache_.Find({kConfigMaps, "elsewhere", "a"}).presence, Presence::kUnknown);
  EXPECT_EQ(cache_.Find({{"", "v1", "secrets", "Secret", true}, "ns", "a"}).presence,
            Presence::kUnknown);
}

TEST_F(ObjectCacheTest, AListEndsAnOwnObjectThatWasNeverDelivered) {
  informer_.OnAll({});
  Write(Thing("a", 5, "made"));
  cache_.RecordFailedCreate(Key("b"));
  informer_.OnAll({});
  EXPECT_EQ(StateOf("a"), "absent");
  EXPECT_EQ(StateOf("b"), "absent");
}

TEST_F(ObjectCacheTest, AnOwnWriteIsFoundBeforeTheInformerDeliversIt) {
  informer_.OnAll({Thing("a", 5, "one")});
  Write(Thing("a", 8, "mine"));
  EXPECT_EQ(StateOf("a"), "mine");
  EXPECT_TRUE(cache_.IsOwnWrite(Key("a")));
  informer_.OnEvent(Changed(Thing("a", 7, "of another, before")));
  EXPECT_EQ(StateOf("a"), "mine");
  informer_.OnAll({Thing("a", 7, "of another, before")});
  EXPECT_EQ(StateOf("a"), "mine") << "lists may be older, too";
  informer_.OnEvent(Changed(Thing("a", 8, "mine")));
  EXPECT_TRUE(cache_.IsOwnWrite(Key("a")));
  informer_.OnEvent(Changed(Thing("a", 9, "of another, since")));
  EXPECT_EQ(StateOf("a"), "of another, since");
  EXPECT_FALSE(cache_.IsOwnWrite(Key("a")));
  Write(Thing("new", 10, "made"));
  EXPECT_EQ(StateOf("new"), "made");
}

TEST_F(ObjectCacheTest, AWriteWithoutAnAnswerLeavesTheObjectUnknown) {
  informer_.OnAll({Thing("a", 5, "one")});
  const uint64_t read_before = cache_.Begin();
  cache_.MarkUncertain(Key("a"));
  EXPECT_EQ(StateOf("a"), "unknown");
  EXPECT_EQ(GetString(cache_.Last(Key("a")).value_or(Json()), {"data", "state"}), "one");
  informer_.OnEvent(Changed(Thing("a", 6, "two")));
  EXPECT_EQ(StateOf("a"), "unknown") << "it may be from before the write";
  cache_.RecordRead(read_before, Key("a"), Thing("a", 6, "two"));
  EXPECT_EQ(StateOf("a"), "unknown") << "so may this";
  cache_.RecordRead(cache_.Begin(), Key("a"), Thing("a", 7, "three"));
  EXPECT_EQ(StateOf("a"), "three");
}

TEST_F(ObjectCacheTest, WhatWasDeletedHereIsUnknownUntilItIsGone) {
  informer_.OnAll({Thing("a", 5, "one")});
  cache_.MarkUncertain(Key("a"));
  informer_.OnEvent(Changed(Thing("a", 6, "two")));
  informer_.OnAll({Thing("a", 6, "two")});
  EXPECT_EQ(StateOf("a"), "unknown");
  informer_.OnEvent(Deleted(Thing("a", 7)));
  EXPECT_EQ(StateOf("a"), "absent");
  EXPECT_EQ(cache_.Last(Key("a")), std::nullopt);
}

TEST_F(ObjectCacheTest, TheDeletionOfAnotherOfThatNameChangesNothing) {
  informer_.OnAll({});
  Write(Thing("a", 9, "second"));
  informer_.OnEvent(Deleted(Thing("a", 8, "first")));
  EXPECT_EQ(StateOf("a"), "second");
}

// Its deletion would never be told again.
TEST_F(ObjectCacheTest, AnAnswerThatComesAfterTheDeletionIsNotKept) {
  informer_.OnAll({});
  const uint64_t begun = cache_.Begin();
  informer_.OnEvent(Changed(Thing("a", 5, "made")));
  informer_.OnEvent(Deleted(Thing("a", 6, "made")));
  cache_.RecordWritten(begun, Key("a"), Thing("a", 5, "made"));
  EXPECT_EQ(StateOf("a"), "absent");
  cache_.RecordRead(begun, Key("a"), Thing("a", 5, "made"));
  EXPECT_EQ(StateOf("a"), "absent");
  const uint64_t before_list = cache_.Begin();
  informer_.OnAll({});
  cache_.RecordWritten(before_list, Key("b"), Thing("b", 50, "made"));
  EXPECT_EQ(StateOf("b"), "absent");
}

TEST_F(ObjectCacheTest, WhatACreateRanIntoIsNotAbsent) {
  informer_.OnAll({});
  cache_.RecordFailedCreate(Key("a"));
  EXPECT_EQ(StateOf("a"), "unknown");
  cache_.RecordRead(cache_.Begin(), Key("a"), Thing("a", 5, "there"));
  EXPECT_EQ(StateOf("a"), "there");
  cache_.RecordFailedCreate(Key("b"));
  cache_.RecordMissing(Key("b"));
  EXPECT_EQ(StateOf("b"), "absent");
}

TEST_F(ObjectCacheTest, WhatTheApiServerDoesNotFindIsUnknownUntilItsDeletionIsDelivered) {
  informer_.OnAll({Thing("a", 5, "one")});
  cache_.RecordMissing(Key("a"));
  informer_.OnEvent(Changed(Thing("a", 6, "two")));
  EXPECT_EQ(StateOf("a"), "unknown");
  informer_.OnEvent(Deleted(Thing("a", 7)));
  EXPECT_EQ(StateOf("a"), "absent");
}

TEST_F(ObjectCacheTest, OnlyWhatHasTheLabelsIsKept) {
  Json other = Thing("a", 5);
  other["metadata"]["labels"]["app"] = "shop";
  informer_.OnAll({other});
  EXPECT_EQ(StateOf("a"), "absent");
  Write(other);
  EXPECT_EQ(StateOf("a"), "absent");
  informer_.OnEvent(Changed(Thing("b", 6, "one")));
  Json changed = Thing("b", 7, "two");
  changed["metadata"]["labels"].erase("app");
  Write(changed);
  EXPECT_EQ(StateOf("b"), "unknown");
  informer_.OnEvent(Deleted(Thing("b", 7, "two")));
  EXPECT_EQ(StateOf("b"), "absent");
}

TEST_F(ObjectCacheTest, AVersionThatIsNoNumberIsNotCached) {
  Json odd = Thing("a", 5);
  odd["metadata"]["resourceVersion"] = "seven";
  informer_.OnAll({odd, Thing("b", 6, "one")});
  EXPECT_EQ(StateOf("a"), "unknown");
  EXPECT_EQ(StateOf("c"), "unknown") << "what is missing may be there";
  EXPECT_EQ(StateOf("b"), "one");
  EXPECT_EQ(cache_.List(kConfigMaps, "ns", "app=mover"), std::nullopt);
}

TEST_F(ObjectCacheTest, ListsWhatAnInformerDelivers) {
  EXPECT_EQ(cache_.List(kConfigMaps, "ns", "app=mover"), std::nullopt);
  informer_.OnAll({Thing("a", 5), Thing("b", 6), Thing("c", 7)});
  Write(Thing("d", 8));
  cache_.MarkUncertain(Key("b"));
  cache_.RecordFailedCreate(Key("e"));
  EXPECT_THAT(cache_.List(kConfigMaps, "ns", "app=mover"),
              Optional(ElementsAre(Thing("a", 5), Thing("b", 6), Thing("c", 7), Thing("d", 8))));
  EXPECT_EQ(cache_.List(kConfigMaps, "ns", ""), std::nullopt);
  EXPECT_EQ(cache_.List(kConfigMaps, "", "app=mover"), std::nullopt);
}

TEST_F(ObjectCacheTest, OfSeveralInformersTheNewestCounts) {
  Informer all({.type = kConfigMaps});
  cache_.Add(all);
  informer_.OnAll({Thing("a", 5, "one")});
  all.OnAll({Thing("a", 6, "two")});
  EXPECT_EQ(StateOf("a"), "two");
  informer_.OnEvent(Changed(Thing("a", 7, "three")));
  EXPECT_EQ(StateOf("a"), "three");
  cache_.MarkUncertain(Key("a"));
  EXPECT_EQ(StateOf("a"), "unknown");
}

// What ends an object must not be forgotten with it: an older version would be kept again.
TEST(ObjectCacheFilterTest, WhatIsNotWorthKeepingIsUnknown) {
  ObjectCache cache;
  Informer informer({.type = kConfigMaps, .namespace_name = "ns"});
  cache.Add(informer, [](const Json& object) {
    return GetString(object, {"data", "state"}) != "over";
  });
  informer.OnAll({Thing("a", 5, "runs"), Thing("b", 5, "over")});
  EXPECT_EQ(cache.Find(Key("a")).presence, Presence::kFound);
  EXPECT_EQ(cache.Find(Key("b")).presence, Presence::kUnknown);
  EXPECT_EQ(cache.Find(Key("c")).presence, Presence::kUnknown);
  cache.RecordWritten(cache.Begin(), Key("a"), Thing("a", 8, "over"));
  EXPECT_EQ(cache.Find(Key("a")).presence, Presence::kUnknown);
  EXPECT_EQ(cache.Last(Key("a")), std::nullopt);
  informer.OnEvent(Changed(Thing("a", 7, "runs")));
  EXPECT_EQ(cache.Find(Key("a")).presence, Presence::kUnknown);
  informer.OnEvent(Changed(Thing("a", 9, "runs")));
  EXPECT_EQ(cache.Find(Key("a")).presence, Presence::kFound) << "restarted";
  EXPECT_EQ(cache.List(kConfigMaps, "ns", ""), std::nullopt);
}

// --- With an API server

class CachedClientTest : public testing::Test {
 protected:
  CachedClientTest() { cache_.Add(informer_); }

  Json Map(const std::string& name, const std::string& state) {
    return Json{{"apiVersion", "v1"},
                {"kind", "ConfigMap"},
                {"metadata", {{"name", name}, {"namespace", "ns"}}},
                {"data", {{"state", state}}}};
  }
  // What the informer delivers next is all that there is.
  void Deliver() { informer_.OnAll(api_.All(kConfigMaps)); }
  std::string StateOf(const std::string& name) {
    const absl::StatusOr<Json> object = reader_.Get(ctx_, Key(name));
    return object.ok() ? GetString(*object, {"data", "state"}) : object.status().ToString();
  }
  int Gets() {
    const int gets = api_.CallCount("get", "configmaps");
    api_.ClearCalls();
    return gets;
  }

  support::FakeApiClient api_;
  CallContext ctx_;
  ObjectCache cache_;
  Informer informer_{{.type = kConfigMaps, .namespace_name = "ns"}};
  RecordingClient client_{api_, cache_};
  CachedReader reader_{client_, &cache_};
};

TEST_F(CachedClientTest, OwnWritesAreReadWithoutARequest) {
  Deliver();
  ASSERT_THAT(reader_.Create(ctx_, kConfigMaps, "ns", Map("a", "one")), IsOk());
  EXPECT_EQ(StateOf("a"), "one");
  ASSERT_THAT(client_.Patch(ctx_, Key("a"), PatchKind::kMerge, {{"data", {{"state", "two"}}}}, ""),
              IsOk());
  EXPECT_EQ(StateOf("a"), "two");
  Json object = *client_.Get(ctx_, Key("a"));
  object["data"]["state"] = "three";
  ASSERT_THAT(client_.Update(ctx_, Key("a"), object), IsOk());
  EXPECT_EQ(StateOf("a"), "three");
  EXPECT_EQ(Gets(), 1) << "that of the client itself";
}

TEST_F(CachedClientTest, WhatAnotherWroteIsReadOnceItIsDelivered) {
  api_.Seed(kConfigMaps, Map("a", "one"));
  Deliver();
  api_.Seed(kConfigMaps, Map("a", "two"));
  EXPECT_EQ(StateOf("a"), "one") << "a moment old";
  EXPECT_EQ(Gets(), 0);
  Deliver();
  EXPECT_EQ(StateOf("a"), "two");
}

TEST_F(CachedClientTest, ThatAnObjectIsNotThereIsForTheApiServerToSay) {
  Deliver();
  api_.Seed(kConfigMaps, Map("a", "one"));
  EXPECT_EQ(StateOf("a"), "one");
  EXPECT_EQ(Gets(), 1);
  EXPECT_THAT(reader_.Get(ctx_, Key("b")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CachedClientTest, AfterAConflictTheObjectIsReadAgain) {
  api_.Seed(kConfigMaps, Map("a", "one"));
  Deliver();
  Json object = *reader_.Get(ctx_, Key("a"));
  api_.Seed(kConfigMaps, Map("a", "two"));
  object["data"]["state"] = "mine";
  EXPECT_THAT(reader_.Update(ctx_, Key("a"), object), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(StateOf("a"), "two");
  EXPECT_EQ(StateOf("a"), "two");
  EXPECT_EQ(Gets(), 1);
}

TEST_F(CachedClientTest, AWriteWhoseAnswerIsLostIsReadAgain) {
  api_.Seed(kConfigMaps, Map("a", "one"));
  Deliver();
  api_.FailNext("patch", "configmaps", absl::UnavailableError("away"), 1,
                support::Fault::kAnswerLost);
  EXPECT_THAT(client_.Patch(ctx_, Key("a"), PatchKind::kMerge, {{"data", {{"state", "two"}}}}, ""),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(StateOf("a"), "two");
  api_.FailNext("delete", "configmaps", absl::UnavailableError("away"), 1,
                support::Fault::kAnswerLost);
  EXPECT_THAT(client_.Delete(ctx_, Key("a"), {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(reader_.Get(ctx_, Key("a")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CachedClientTest, WhatIsDeletedIsNotReadFromTheCache) {
  api_.Seed(kConfigMaps, Map("a", "one"));
  Deliver();
  ASSERT_THAT(client_.Delete(ctx_, Key("a"), {}), IsOk());
  EXPECT_THAT(reader_.Get(ctx_, Key("a")), StatusIs(absl::StatusCode::kNotFound));
}

// The object that an informer has not delivered yet is the one that the create ran into.
TEST_F(CachedClientTest, ACreateThatFindsOneIsFollowedByARead) {
  Deliver();
  api_.Seed(kConfigMaps, Map("a", "of another"));
  EXPECT_EQ(cache_.Find(Key("a")).presence, Presence::kAbsent);
  EXPECT_THAT(reader_.Create(ctx_, kConfigMaps, "ns", Map("a", "mine")),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(cache_.Find(Key("a")).presence, Presence::kUnknown);
}

TEST_F(CachedClientTest, ListsComeFromTheCacheWhereItHasTheWholeList) {
  api_.Seed(kConfigMaps, Map("a", "one"));
  const auto count = [&](const ListOptions& options) {
    return reader_.List(ctx_, kConfigMaps, "ns", options).value().items.size();
  };
  EXPECT_EQ(count({}), 1U);
  EXPECT_EQ(api_.CallCount("list", "configmaps"), 1);
  Deliver();
  api_.Seed(kConfigMaps, Map("b", "one"));
  EXPECT_EQ(count({}), 1U) << "a moment old";
  EXPECT_EQ(api_.CallCount("list", "configmaps"), 1);
  EXPECT_EQ(count({.label_selector = "app", .field_selector = ""}), 0U);
  EXPECT_EQ(count({.label_selector = "", .field_selector = "metadata.name=b"}), 1U);
  EXPECT_EQ(api_.CallCount("list", "configmaps"), 3);
}

TEST_F(CachedClientTest, WithoutACacheEverythingIsRead) {
  CachedReader plain(api_, nullptr);
  api_.Seed(kConfigMaps, Map("a", "one"));
  Deliver();
  EXPECT_THAT(plain.Get(ctx_, Key("a")), IsOk());
  EXPECT_THAT(plain.List(ctx_, kConfigMaps, "ns", {}), IsOk());
  EXPECT_EQ(api_.calls().size(), 2U);
}

}  // namespace
}  // namespace csidelta::k8s::object_cache_test
