// VolumeSnapshots as they change: what is told, and what is of before.
#include "snapshots/snapshot_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/snapshot_state.h"
#include "snapshots/snapshot_inventory.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_watch_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const absl::Time kThen = absl::FromUnixSeconds(1'700'000'000);

// Its lists may be older than what was read before.
class LateApiClient : public support::FakeApiClient {
 public:
  void Remember() { old_ = FakeApiClient::List({}, VolumeSnapshotType(), "", {}).value(); }
  absl::StatusOr<k8s::ObjectList> List(const CallContext& ctx, const k8s::ResourceType& type,
                                       absl::string_view namespace_name,
                                       const k8s::ListOptions& options) override {
    if (is_late && type == VolumeSnapshotType()) {
      return *old_;
    }
    return FakeApiClient::List(ctx, type, namespace_name, options);
  }
  bool is_late = false;

 private:
  std::optional<k8s::ObjectList> old_;
};

class SnapshotWatchTest : public testing::Test {
 protected:
  void Seed(const std::string& name) {
    api_.Seed(VolumeSnapshotType(),
              support::MakeSnapshotObject("shop", name, absl::StrCat("content-of-", name)));
    api_.Seed(
        VolumeSnapshotContentType(),
        support::MakeContentObject(absl::StrCat("content-of-", name), "shop", name, "handle"));
  }
  void MakeReady(const std::string& name) {
    ASSERT_TRUE(api_.Mutate(VolumeSnapshotKey("shop", name), [](Json& snapshot) {
      SetJson(snapshot, {"status", "readyToUse"}, true);
      SetJson(snapshot, {"status", "restoreSize"}, "1Gi");
    }));
  }
  std::vector<SnapshotEntry> Inventoried() {
    return ReadInventory({}, api_,
                         {.namespace_name = "shop",
                          .label_selector = "",
                          .mover_namespace = "csi-delta",
                          .now = kThen})
        .value()
        .entries;
  }
  // "name State", "name gone" of each change; `then` says whether to go on.
  absl::Status Watch(std::vector<SnapshotEntry> known,
                     const std::function<bool(const std::string& told)>& then) {
    const SnapshotWatchRequest request{
        .namespace_name = "shop", .label_selector = "", .known = std::move(known)};
    return WatchSnapshots(
        {}, api_, request,
        [&](const SnapshotChange& change) {
          told_.push_back(
              absl::StrCat(change.entry.name, " ",
                           change.is_gone ? "gone" : ToString(change.entry.status.state)));
          return then(told_.back());
        },
        [&](const std::string& sentence) { notes_.push_back(sentence); });
  }

  LateApiClient api_;
  std::vector<std::string> told_;
  std::vector<std::string> notes_;
};

TEST_F(SnapshotWatchTest, TellsWhatDiffersUntilItHadEnough) {
  Seed("monday");
  Seed("tuesday");
  std::vector<SnapshotEntry> known = Inventoried();
  MakeReady("monday");
  EXPECT_THAT(Watch(std::move(known),
                    [&](const std::string& told) {
                      if (told == "monday Ready") {
                        MakeReady("tuesday");
                      } else if (told == "tuesday Ready") {
                        api_.Remove(VolumeSnapshotKey("shop", "monday"));
                      }
                      return told != "monday gone";
                    }),
              IsOk());
  EXPECT_THAT(told_, ElementsAre("monday Ready", "tuesday Ready", "monday gone"));
}

TEST_F(SnapshotWatchTest, AListOfBeforeBringsNothingBack) {
  Seed("monday");
  api_.Remember();
  MakeReady("monday");
  Seed("tuesday");
  std::vector<SnapshotEntry> known = Inventoried();
  Seed("last");
  api_.is_late = true;
  EXPECT_THAT(Watch(std::move(known), [](const std::string&) { return false; }), IsOk());
  EXPECT_THAT(told_, ElementsAre("last Creating"));
}

TEST_F(SnapshotWatchTest, ContentsThatMayNotBeReadAreNamedOnce) {
  Seed("monday");
  std::vector<SnapshotEntry> known = Inventoried();
  MakeReady("monday");
  Seed("tuesday");
  api_.Forbid("get", "volumesnapshotcontents");
  EXPECT_THAT(Watch(std::move(known), [&](const std::string&) { return told_.size() < 2; }),
              IsOk());
  EXPECT_THAT(told_, ElementsAre("monday Ready", "tuesday Creating"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("not checked")));
}

// What happens once both kinds are watched.
std::thread OnceWatched(support::FakeApiClient& api, const std::function<void()>& happens) {
  return std::thread([&api, happens] {
    api.AwaitWatches(2);
    happens();
  });
}

TEST_F(SnapshotWatchTest, FollowsAContentThatGoesAndComesAgain) {
  Seed("monday");
  MakeReady("monday");
  const std::optional<Json> content = api_.Find(VolumeSnapshotContentKey("content-of-monday"));
  std::thread world =
      OnceWatched(api_, [&] { api_.Remove(VolumeSnapshotContentKey("content-of-monday")); });
  EXPECT_THAT(Watch(Inventoried(),
                    [&](const std::string& told) {
                      if (told == "monday Lost") {
                        api_.Seed(VolumeSnapshotContentType(), *content);
                      }
                      return told != "monday Ready";
                    }),
              IsOk());
  world.join();
  EXPECT_THAT(told_, ElementsAre("monday Lost", "monday Ready"));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(SnapshotWatchTest, AContentThatChangedOrWentBeforeTheWatchIsReadAgain) {
  Seed("monday");
  MakeReady("monday");
  const std::vector<SnapshotEntry> known = Inventoried();
  const k8s::ObjectKey content = VolumeSnapshotContentKey("content-of-monday");
  api_.SetField(content, {"spec", "volumeSnapshotRef", "name"}, "another");
  EXPECT_THAT(Watch(known, [](const std::string&) { return false; }), IsOk());
  api_.Remove(content);
  EXPECT_THAT(Watch(known, [](const std::string&) { return false; }), IsOk());
  EXPECT_THAT(told_, ElementsAre("monday Error", "monday Lost"));
}

TEST_F(SnapshotWatchTest, ContentsOfOthersCostNoRequest) {
  Seed("monday");
  MakeReady("monday");
  std::vector<SnapshotEntry> known = Inventoried();
  for (int i = 0; i < 100; ++i) {
    const std::string name = absl::StrCat("other-", i);
    api_.Seed(VolumeSnapshotContentType(),
              support::MakeContentObject(name, "elsewhere", name, "handle"));
  }
  api_.ClearCalls();
  std::thread world = OnceWatched(api_, [&] {
    for (int i = 0; i < 100; ++i) {
      api_.Remove(VolumeSnapshotContentKey(absl::StrCat("other-", i)));
    }
    api_.Remove(VolumeSnapshotKey("shop", "monday"));
  });
  EXPECT_THAT(Watch(std::move(known), [](const std::string&) { return false; }), IsOk());
  world.join();
  EXPECT_THAT(told_, ElementsAre("monday gone"));
  EXPECT_EQ(api_.CallCount("get", "*"), 0);
}

TEST_F(SnapshotWatchTest, ContentsThatMayNotBeFollowedAreNamedOnce) {
  Seed("monday");
  std::vector<SnapshotEntry> known = Inventoried();
  MakeReady("monday");
  for (const char* const verb : {"watch", "get"}) {
    api_.Forbid(verb, "volumesnapshotcontents");
  }
  EXPECT_THAT(Watch(std::move(known), [](const std::string&) { return false; }), IsOk());
  EXPECT_THAT(told_, ElementsAre("monday Ready"));
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("binding not checked: "),
                                        HasSubstr("csi-delta-snapshot-reader"))));
}

TEST_F(SnapshotWatchTest, WithoutTheRightItEnds) {
  api_.Forbid("watch", "volumesnapshots");
  EXPECT_THAT(
      Watch({}, [](const std::string&) { return true; }),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("csi-delta-snapshot-viewer")));
}

SnapshotMark Mark(const std::string& version, std::optional<absl::Time> written_at,
                  bool is_ready = false) {
  return {.resource_version = version,
          .written_at = written_at,
          .is_being_deleted = false,
          .is_ready = is_ready,
          .is_taken = false,
          .has_error = false,
          .is_bound = true};
}

TEST(SnapshotWatch, WhatIsOfBefore) {
  const absl::Time later = kThen + absl::Seconds(1);
  const SnapshotMark shown = Mark("7", kThen);
  const SnapshotMark ready = Mark("7", kThen, true);
  EXPECT_TRUE(IsOlder(Mark("7", later, true), shown, {}));
  EXPECT_TRUE(IsOlder(Mark("9", kThen, true), Mark("7", later), {}));
  EXPECT_FALSE(IsOlder(Mark("5", later), ready, {"5"}));
  for (const std::optional<absl::Time> time : {std::optional(kThen), std::optional<absl::Time>()}) {
    EXPECT_TRUE(IsOlder(Mark("9", time), ready, {}));
    EXPECT_FALSE(IsOlder(Mark("9", time, true), shown, {"9"}));
    EXPECT_TRUE(IsOlder(Mark("9", time), shown, {"9"}));
    EXPECT_FALSE(IsOlder(Mark("9", time), shown, {"8"}));
  }
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_watch_test
