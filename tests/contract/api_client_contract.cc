#include "tests/contract/api_client_contract.h"

#include <gmock/gmock.h>

#include <stop_token>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "k8s/object.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace csidelta::contract {

using k8s::ObjectKey;
using k8s::ObjectList;
using k8s::PatchKind;
using k8s::ResourceType;
using k8s::WatchEvent;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

const ResourceType kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const ResourceType kClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const ResourceType kPods{"", "v1", "pods", "Pod", true};
const ResourceType kStorageClasses{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};
const ResourceType kServiceAccounts{"", "v1", "serviceaccounts", "ServiceAccount", true};
const ResourceType kEvents{"", "v1", "events", "Event", true};
const ResourceType kSelfReviews{"authentication.k8s.io", "v1", "selfsubjectreviews",
                                "SelfSubjectReview", false};
const ResourceType kAccessReviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                  "SelfSubjectAccessReview", false};
const ResourceType kUnknownKind{"nowhere.example.com", "v1", "nothings", "Nothing", true};

namespace {

std::string VersionOf(const Json& object) { return k8s::ResourceVersion(object); }

std::vector<std::string> NamesOf(const ObjectList& list) {
  std::vector<std::string> names;
  for (const Json& item : list.items) {
    names.push_back(k8s::Name(item));
  }
  return names;
}

// What a list's pages hold so far.
void Gather(const std::vector<Json>& page, bool is_first, std::vector<std::string>& names) {
  if (is_first) {
    names.clear();
  }
  for (const Json& object : page) {
    EXPECT_EQ(GetString(object, {"kind"}), "ConfigMap");
    names.push_back(k8s::Name(object));
  }
}

}  // namespace

ObjectKey ApiClientContract::Key(const ResourceType& type, const std::string& name) const {
  return {type, type.namespaced ? namespace_ : "", name};
}

Json ApiClientContract::ConfigMap(const std::string& name) const {
  return Json{{"apiVersion", "v1"},
              {"kind", "ConfigMap"},
              {"metadata", {{"name", name}, {"labels", {{"app", name}, {"suite", "contract"}}}}},
              {"data", {{"key", "value"}}}};
}

Json ApiClientContract::Claim(const std::string& name) const {
  return Json{{"apiVersion", "v1"},
              {"kind", "PersistentVolumeClaim"},
              {"metadata", {{"name", name}}},
              {"spec",
               {{"accessModes", {"ReadWriteOnce"}},
                {"storageClassName", "no-such-class"},
                {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}};
}

Json ApiClientContract::MustCreate(const ResourceType& type, const Json& object) {
  absl::StatusOr<Json> created =
      client_.Create(ctx_, type, type.namespaced ? namespace_ : "", object);
  EXPECT_THAT(created, IsOk());
  return created.value_or(Json::object());
}

TEST_P(ApiClientContract, CreatedObjectsCanBeRead) {
  const Json created = MustCreate(kConfigMaps, ConfigMap("one"));
  EXPECT_FALSE(k8s::Uid(created).empty());
  EXPECT_FALSE(VersionOf(created).empty());
  EXPECT_FALSE(GetString(created, {"metadata", "creationTimestamp"}).empty());
  const absl::StatusOr<Json> read = client_.Get(ctx_, Key(kConfigMaps, "one"));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, created);
  EXPECT_EQ(GetString(*read, {"apiVersion"}), "v1");
  EXPECT_EQ(GetString(*read, {"kind"}), "ConfigMap");
}

TEST_P(ApiClientContract, AMissingObjectIsNotFoundAndNamed) {
  const auto not_found = [](const char* text) {
    return StatusIs(absl::StatusCode::kNotFound,
                    AllOf(HasSubstr("configmaps"), HasSubstr("none"), HasSubstr(text)));
  };
  const ObjectKey none = Key(kConfigMaps, "none");
  EXPECT_THAT(client_.Get(ctx_, none), not_found("get"));
  EXPECT_THAT(client_.Delete(ctx_, none, {}), not_found("delete"));
  EXPECT_THAT(client_.Patch(ctx_, none, PatchKind::kMerge, Json{{"data", {{"a", "b"}}}}, ""),
              not_found("patch"));
}

TEST_P(ApiClientContract, CreatingTwiceSaysAlreadyExists) {
  MustCreate(kConfigMaps, ConfigMap("one"));
  EXPECT_THAT(client_.Create(ctx_, kConfigMaps, namespace_, ConfigMap("one")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("one")));
}

TEST_P(ApiClientContract, ADryRunAnswersAndStoresNothing) {
  const absl::StatusOr<Json> answer =
      client_.DryRunCreate(ctx_, kConfigMaps, namespace_, ConfigMap("one"));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(k8s::Name(*answer), "one");
  EXPECT_EQ(k8s::Namespace(*answer), namespace_);
  EXPECT_EQ(GetString(*answer, {"kind"}), "ConfigMap");
  EXPECT_THAT(client_.Get(ctx_, Key(kConfigMaps, "one")), StatusIs(absl::StatusCode::kNotFound));
  MustCreate(kConfigMaps, ConfigMap("one"));
  EXPECT_THAT(client_.DryRunCreate(ctx_, kConfigMaps, namespace_, ConfigMap("one")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("one")));
  EXPECT_THAT(client_.DryRunCreate(ctx_, kConfigMaps, namespace_, ConfigMap("UPPER")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UPPER")));
}

TEST_P(ApiClientContract, GeneratesNames) {
  Json object = ConfigMap("x");
  EraseJson(object, {"metadata", "name"});
  SetJson(object, {"metadata", "generateName"}, "made-");
  const Json first = MustCreate(kConfigMaps, object);
  const Json second = MustCreate(kConfigMaps, object);
  EXPECT_THAT(k8s::Name(first), testing::StartsWith("made-"));
  EXPECT_NE(k8s::Name(first), k8s::Name(second));
}

TEST_P(ApiClientContract, RefusesMalformedObjects) {
  Json upper = ConfigMap("Not-A-Name");
  EXPECT_THAT(client_.Create(ctx_, kConfigMaps, namespace_, upper),
              StatusIs(absl::StatusCode::kInvalidArgument));
  Json label = ConfigMap("label");
  SetJson(label, {"metadata", "labels", "app"}, std::string(64, 'x'));
  EXPECT_THAT(client_.Create(ctx_, kConfigMaps, namespace_, label),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(ApiClientContract, AnEventIsInTheNamespaceOfItsObject) {
  Json event = {{"apiVersion", "v1"},
                {"kind", "Event"},
                {"metadata", {{"name", "one"}}},
                {"involvedObject", {{"kind", "ConfigMap"}, {"name", "one"}}}};
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("namespace"));
  EXPECT_THAT(client_.Create(ctx_, kEvents, namespace_, event), refused);
  SetJson(event, {"involvedObject", "namespace"}, "elsewhere");
  EXPECT_THAT(client_.Create(ctx_, kEvents, namespace_, event), refused);
  SetJson(event, {"involvedObject", "namespace"}, namespace_);
  EXPECT_THAT(client_.Create(ctx_, kEvents, namespace_, event), IsOk());
}

TEST_P(ApiClientContract, UpdateNeedsTheNewestVersion) {
  const Json first = MustCreate(kConfigMaps, ConfigMap("one"));
  Json changed = first;
  SetJson(changed, {"data", "key"}, "second");
  const absl::StatusOr<Json> updated = client_.Update(ctx_, Key(kConfigMaps, "one"), changed);
  ASSERT_THAT(updated, IsOk());
  EXPECT_EQ(GetString(*updated, {"data", "key"}), "second");
  EXPECT_NE(VersionOf(*updated), VersionOf(first));
  SetJson(changed, {"data", "key"}, "third");
  EXPECT_THAT(client_.Update(ctx_, Key(kConfigMaps, "one"), changed),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_P(ApiClientContract, MergePatchesSetAndRemove) {
  MustCreate(kConfigMaps, ConfigMap("one"));
  const Json patch = {{"data", {{"key", nullptr}, {"new", "x"}}}};
  const absl::StatusOr<Json> patched =
      client_.Patch(ctx_, Key(kConfigMaps, "one"), PatchKind::kMerge, patch, "");
  ASSERT_THAT(patched, IsOk());
  EXPECT_EQ((*patched)["data"], (Json{{"new", "x"}}));
}

TEST_P(ApiClientContract, PatchesWithAnOldVersionAreAborted) {
  const Json first = MustCreate(kConfigMaps, ConfigMap("one"));
  const ObjectKey key = Key(kConfigMaps, "one");
  const Json patch = {{"metadata", {{"resourceVersion", VersionOf(first)}}},
                      {"data", {{"key", "second"}}}};
  EXPECT_THAT(client_.Patch(ctx_, key, PatchKind::kMerge, patch, ""), IsOk());
  Json again = patch;
  SetJson(again, {"data", "key"}, "third");
  EXPECT_THAT(client_.Patch(ctx_, key, PatchKind::kMerge, again, ""),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_P(ApiClientContract, JsonPatchesTestBeforeTheyChange) {
  MustCreate(kConfigMaps, ConfigMap("one"));
  const ObjectKey key = Key(kConfigMaps, "one");
  const auto patch = [](const char* expected) {
    return Json::array({{{"op", "test"}, {"path", "/data/key"}, {"value", expected}},
                        {{"op", "replace"}, {"path", "/data/key"}, {"value", "new"}}});
  };
  EXPECT_THAT(client_.Patch(ctx_, key, PatchKind::kJson, patch("other"), ""),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const absl::StatusOr<Json> patched =
      client_.Patch(ctx_, key, PatchKind::kJson, patch("value"), "");
  ASSERT_THAT(patched, IsOk());
  EXPECT_EQ(GetString(*patched, {"data", "key"}), "new");
}

TEST_P(ApiClientContract, StatusIsWrittenApart) {
  MustCreate(kClaims, Claim("claim"));
  const ObjectKey key = Key(kClaims, "claim");
  const Json patch = {{"metadata", {{"labels", {{"seen", "yes"}}}}},
                      {"status", {{"phase", "Lost"}}}};
  const absl::StatusOr<Json> main = client_.Patch(ctx_, key, PatchKind::kMerge, patch, "");
  ASSERT_THAT(main, IsOk());
  EXPECT_EQ(k8s::Label(*main, "seen"), "yes");
  EXPECT_EQ(GetString(*main, {"status", "phase"}), "Pending");
  const Json status_patch = {{"status", {{"phase", "Lost"}}}};
  const absl::StatusOr<Json> status =
      client_.Patch(ctx_, key, PatchKind::kMerge, status_patch, "status");
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(GetString(*status, {"status", "phase"}), "Lost");
}

TEST_P(ApiClientContract, DeleteHonoursPreconditions) {
  const Json created = MustCreate(kConfigMaps, ConfigMap("one"));
  const ObjectKey key = Key(kConfigMaps, "one");
  EXPECT_THAT(client_.Delete(ctx_, key, {.uid = "another", .resource_version = ""}),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(client_.Delete(ctx_, key, {.uid = "", .resource_version = "1"}),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(
      client_.Delete(ctx_, key, {.uid = k8s::Uid(created), .resource_version = VersionOf(created)}),
      IsOk());
  EXPECT_THAT(client_.Get(ctx_, key), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(ApiClientContract, FinalizersHoldADeletedObject) {
  Json object = ConfigMap("held");
  SetJson(object, {"metadata", "finalizers"}, {"example.com/hold"});
  MustCreate(kConfigMaps, object);
  const ObjectKey key = Key(kConfigMaps, "held");
  EXPECT_THAT(client_.Delete(ctx_, key, {}), IsOk());
  const absl::StatusOr<Json> held = client_.Get(ctx_, key);
  ASSERT_THAT(held, IsOk());
  EXPECT_FALSE(GetString(*held, {"metadata", "deletionTimestamp"}).empty());
  const Json release = {{"metadata", {{"finalizers", nullptr}}}};
  EXPECT_THAT(client_.Patch(ctx_, key, PatchKind::kMerge, release, ""), IsOk());
  EXPECT_THAT(client_.Get(ctx_, key), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(ApiClientContract, ListsByLabelAndName) {
  for (const char* name : {"a", "b", "c"}) {
    MustCreate(kConfigMaps, ConfigMap(name));
  }
  const auto names = [&](const std::string& labels, const std::string& fields) {
    const absl::StatusOr<ObjectList> list =
        client_.List(ctx_, kConfigMaps, namespace_, {labels, fields});
    EXPECT_THAT(list, IsOk());
    return list.ok() ? NamesOf(*list) : std::vector<std::string>();
  };
  using testing::ElementsAre;
  EXPECT_THAT(names("suite=contract", ""), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names("suite=contract,app!=b", ""), ElementsAre("a", "c"));
  EXPECT_THAT(names("app in (a, b)", ""), ElementsAre("a", "b"));
  EXPECT_THAT(names("suite,app notin (a)", ""), ElementsAre("b", "c"));
  EXPECT_THAT(names("!suite,app=a", ""), ElementsAre());
  EXPECT_THAT(names("", "metadata.name=b"), ElementsAre("b"));
  EXPECT_THAT(client_.List(ctx_, kConfigMaps, namespace_, {"a=b=c", ""}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(ApiClientContract, ListsAsItWasAtARevision) {
  MustCreate(kConfigMaps, ConfigMap("before"));
  MustCreate(kConfigMaps, ConfigMap("deleted"));
  const Json at = MustCreate(kConfigMaps, ConfigMap("now"));
  MustCreate(kConfigMaps, ConfigMap("later"));
  EXPECT_THAT(client_.Delete(ctx_, Key(kConfigMaps, "deleted"), {}), IsOk());
  const absl::StatusOr<ObjectList> list =
      client_.List(ctx_, kConfigMaps, namespace_,
                   {.label_selector = "suite=contract",
                    .field_selector = "",
                    .may_be_old = false,
                    .exactly_at = GetString(at, {"metadata", "resourceVersion"})});
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(NamesOf(*list), testing::UnorderedElementsAre("before", "deleted", "now"));
}

TEST_P(ApiClientContract, PagesHoldEachObjectOnce) {
  for (const char* name : {"a", "b", "c"}) {
    MustCreate(kConfigMaps, ConfigMap(name));
  }
  for (const bool in_one_answer : {false, true}) {
    std::vector<std::string> names;
    const absl::StatusOr<std::string> version = client_.ListPages(
        ctx_, kConfigMaps, namespace_,
        {.label_selector = "suite=contract", .field_selector = "", .in_one_answer = in_one_answer},
        [&](const std::vector<Json>& page, bool is_first) { Gather(page, is_first, names); });
    ASSERT_THAT(version, IsOk());
    EXPECT_FALSE(version->empty());
    EXPECT_THAT(names, testing::ElementsAre("a", "b", "c"));
  }
}

TEST_P(ApiClientContract, AListOfChosenNamesSoonHasNewObjects) {
  for (const char* name : {"a", "b", "c"}) {
    MustCreate(kConfigMaps, ConfigMap(name));
  }
  std::vector<std::string> names;
  support::Await("the API server remembering what was made last", [&] {
    const absl::StatusOr<std::string> version = client_.ListWanted(
        ctx_, kConfigMaps, namespace_,
        [](absl::string_view name) { return name == "a" || name == "c" || name == "none"; },
        [&](const std::vector<Json>& page, bool is_first) { Gather(page, is_first, names); });
    EXPECT_THAT(version, IsOk());
    return !version.ok() ||
           (absl::c_linear_search(names, "a") && absl::c_linear_search(names, "c"));
  });
  EXPECT_EQ(absl::c_count(names, "a"), 1);
  EXPECT_FALSE(absl::c_linear_search(names, "none"));
}

TEST_P(ApiClientContract, ListedObjectsAreWhole) {
  MustCreate(kConfigMaps, ConfigMap("one"));
  for (const std::string& where : {namespace_, std::string()}) {
    const absl::StatusOr<ObjectList> list =
        client_.List(ctx_, kConfigMaps, where, {"suite=contract", ""});
    ASSERT_THAT(list, IsOk());
    EXPECT_FALSE(list->resource_version.empty());
    ASSERT_GE(list->items.size(), 1u);
    EXPECT_EQ(GetString(list->items[0], {"apiVersion"}), "v1");
    EXPECT_EQ(GetString(list->items[0], {"kind"}), "ConfigMap");
    EXPECT_FALSE(VersionOf(list->items[0]).empty());
  }
}

TEST_P(ApiClientContract, HandlesKindsWithoutNamespaces) {
  const std::string name = "contract-" + namespace_;
  const Json object = {{"apiVersion", "storage.k8s.io/v1"},
                       {"kind", "StorageClass"},
                       {"metadata", {{"name", name}}},
                       {"provisioner", "unused.example.com"}};
  MustCreate(kStorageClasses, object);
  EXPECT_THAT(client_.Get(ctx_, Key(kStorageClasses, name)), IsOk());
  EXPECT_THAT(client_.Delete(ctx_, Key(kStorageClasses, name), {}), IsOk());
}

TEST_P(ApiClientContract, UnknownKindsAreNotFound) {
  EXPECT_THAT(client_.List(ctx_, kUnknownKind, namespace_, {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothings")));
  EXPECT_THAT(client_.Get(ctx_, Key(kUnknownKind, "x")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(ApiClientContract, WatchTellsWhatHappensAfterTheList) {
  MustCreate(kConfigMaps, ConfigMap("before"));
  const absl::StatusOr<ObjectList> list = client_.List(ctx_, kConfigMaps, namespace_, {});
  ASSERT_THAT(list, IsOk());
  const ObjectKey key = Key(kConfigMaps, "one");
  std::jthread writer([&] {
    EXPECT_THAT(client_.Create(ctx_, kConfigMaps, namespace_, ConfigMap("one")), IsOk());
    EXPECT_THAT(client_.Patch(ctx_, key, PatchKind::kMerge, Json{{"data", {{"key", "2"}}}}, ""),
                IsOk());
    EXPECT_THAT(client_.Delete(ctx_, key, {}), IsOk());
  });
  std::vector<WatchEvent> events;
  const absl::Status status =
      client_.Watch(ctx_, kConfigMaps, namespace_, {"suite=contract", "", list->resource_version},
                    [&](const WatchEvent& event) {
                      if (event.kind != WatchEvent::Kind::kBookmark) {
                        events.push_back(event);
                      }
                      return events.size() < 3;
                    });
  EXPECT_THAT(status, IsOk());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, WatchEvent::Kind::kAdded);
  EXPECT_EQ(events[1].kind, WatchEvent::Kind::kModified);
  EXPECT_EQ(events[2].kind, WatchEvent::Kind::kDeleted);
  EXPECT_EQ(GetString(events[1].object, {"data", "key"}), "2");
  EXPECT_EQ(GetString(events[0].object, {"kind"}), "ConfigMap");
}

TEST_P(ApiClientContract, WatchFiltersByName) {
  const absl::StatusOr<ObjectList> list = client_.List(ctx_, kConfigMaps, namespace_, {});
  ASSERT_THAT(list, IsOk());
  MustCreate(kConfigMaps, ConfigMap("other"));
  MustCreate(kConfigMaps, ConfigMap("one"));
  std::string seen;
  EXPECT_THAT(client_.Watch(ctx_, kConfigMaps, namespace_,
                            {"", "metadata.name=one", list->resource_version},
                            [&](const WatchEvent& event) {
                              seen = k8s::Name(event.object);
                              return seen.empty();
                            }),
              IsOk());
  EXPECT_EQ(seen, "one");
}

TEST_P(ApiClientContract, WatchEndsAtItsDeadline) {
  const absl::StatusOr<ObjectList> list = client_.List(ctx_, kConfigMaps, namespace_, {});
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(client_.Watch(ctx_.WithTimeout(absl::Milliseconds(300)), kConfigMaps, namespace_,
                            {"", "metadata.name=none", list->resource_version},
                            [](const WatchEvent&) { return true; }),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_P(ApiClientContract, WatchEndsSoonAfterAStop) {
  const absl::StatusOr<ObjectList> list = client_.List(ctx_, kConfigMaps, namespace_, {});
  ASSERT_THAT(list, IsOk());
  MustCreate(kConfigMaps, ConfigMap("one"));
  std::stop_source stop;
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  absl::Time stopped_at;
  {
    const support::AwaitEnd end("a watch that was stopped");
    EXPECT_THAT(client_.Watch(ctx, kConfigMaps, namespace_, {"", "", list->resource_version},
                              [&](const WatchEvent&) {
                                stopped_at = Clock::Real().Now();
                                stop.request_stop();
                                return true;
                              }),
                StatusIs(absl::StatusCode::kCancelled));
  }
  if (support::AssertsSeconds("a watch that is stopped ends within 10 s")) {
    EXPECT_LT(Clock::Real().Now() - stopped_at, absl::Seconds(10));
  }
}

TEST_P(ApiClientContract, DoesNothingWhenStoppedAlready) {
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx = ctx_;
  ctx.stop = stop.get_token();
  EXPECT_THAT(client_.Create(ctx, kConfigMaps, namespace_, ConfigMap("one")),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(client_.Get(ctx_, Key(kConfigMaps, "one")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(ApiClientContract, ASubresourceAnswersAndStoresNothing) {
  const Json account = MustCreate(
      kServiceAccounts,
      {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", {{"name", "asker"}}}});
  const Json request = {{"apiVersion", "authentication.k8s.io/v1"},
                        {"kind", "TokenRequest"},
                        {"spec", {{"audiences", {"contract"}}, {"expirationSeconds", 600}}}};
  const absl::StatusOr<Json> token =
      client_.CreateSubresource(ctx_, Key(kServiceAccounts, "asker"), "token", request);
  ASSERT_THAT(token, IsOk());
  EXPECT_FALSE(GetString(*token, {"status", "token"}).empty());
  EXPECT_FALSE(GetString(*token, {"status", "expirationTimestamp"}).empty());
  const absl::StatusOr<Json> after = client_.Get(ctx_, Key(kServiceAccounts, "asker"));
  ASSERT_THAT(after, IsOk());
  EXPECT_EQ(VersionOf(*after), VersionOf(account));
  EXPECT_THAT(client_.CreateSubresource(ctx_, Key(kServiceAccounts, "none"), "token", request),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("serviceaccounts"), HasSubstr("none"))));
}

TEST_P(ApiClientContract, AReviewOfOneselfSaysWhoThatIs) {
  const absl::StatusOr<Json> review =
      client_.Create(ctx_, kSelfReviews, "",
                     {{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "SelfSubjectReview"}});
  ASSERT_THAT(review, IsOk());
  EXPECT_FALSE(GetString(*review, {"status", "userInfo", "username"}).empty());
}

// The user that this suite runs as may do all that it does.
TEST_P(ApiClientContract, AReviewOfAccessSaysWhetherItIsAllowed) {
  const Json review = {{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SelfSubjectAccessReview"},
                       {"spec",
                        {{"resourceAttributes",
                          {{"verb", "create"},
                           {"group", ""},
                           {"version", "v1"},
                           {"resource", "configmaps"},
                           {"namespace", namespace_},
                           {"name", ""}}}}}};
  const absl::StatusOr<Json> answer = client_.Create(ctx_, kAccessReviews, "", review);
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(GetBool(*answer, {"status", "allowed"}));
  EXPECT_EQ(GetString(*answer, {"spec", "resourceAttributes", "verb"}), "create");
  Json nothing = review;
  nothing["spec"] = Json::object();
  EXPECT_THAT(client_.Create(ctx_, kAccessReviews, "", nothing),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resourceAttributes")));
}

}  // namespace csidelta::contract
