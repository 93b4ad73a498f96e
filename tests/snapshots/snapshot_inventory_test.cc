// What is read of VolumeSnapshots, with which requests, and what is not known without a right.
#include "snapshots/snapshot_inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "base/json.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/finding_codes.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_inventory_test {
namespace {

using support::ActionBed;
using support::CodesOf;
using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

void SeedReady(support::FakeApiClient& api, const std::string& name,
               const support::Strings& labels = {}) {
  Json snapshot = support::MakeSnapshotObject("shop", name, "content-of-" + name, labels);
  SetJson(snapshot, {"metadata", "creationTimestamp"}, "2023-11-14T20:13:20Z");
  SetJson(snapshot, {"status", "readyToUse"}, true);
  api.Seed(VolumeSnapshotType(), snapshot);
  api.Seed(VolumeSnapshotContentType(),
           support::MakeContentObject("content-of-" + name, "shop", name, "h-" + name));
}

class SnapshotInventoryTest : public testing::Test {
 protected:
  void Seed(const std::string& name, const support::Strings& labels = {}) {
    SeedReady(bed_.api, name, labels);
  }

  InventoryRequest Request() const {
    return {.namespace_name = "shop",
            .label_selector = "",
            .mover_namespace = "csi-delta",
            .now = bed_.clock.Now()};
  }
  Inventory Read(const InventoryRequest& request) {
    const absl::StatusOr<Inventory> inventory = ReadInventory(bed_.ctx, bed_.api, request);
    EXPECT_THAT(inventory, IsOk());
    return inventory.value_or(Inventory());
  }
  static std::vector<std::string> Names(const Inventory& inventory) {
    std::vector<std::string> names;
    for (const SnapshotEntry& entry : inventory.entries) {
      names.push_back(entry.name);
    }
    return names;
  }
  static const SnapshotEntry& Of(const Inventory& inventory, const std::string& name) {
    for (const SnapshotEntry& entry : inventory.entries) {
      if (entry.name == name) {
        return entry;
      }
    }
    ADD_FAILURE() << "there is no " << name;
    return inventory.entries.front();
  }

  ActionBed bed_;
};

TEST_F(SnapshotInventoryTest, OnlyAPvcOfItsNamespaceThatIsBeingFilledNeedsIt) {
  Seed("monday");
  const auto seed_pvc = [this](const std::string& name, const Json& more) {
    Json pvc = {{"metadata", {{"name", name}, {"namespace", "shop"}}},
                {"spec", {{"dataSourceRef", {{"kind", "VolumeSnapshot"}, {"name", "monday"}}}}},
                {"status", {{"phase", "Pending"}}}};
    pvc.merge_patch(more);
    bed_.api.Seed(PersistentVolumeClaimType(), pvc);
  };
  seed_pvc("waits", Json::object());
  seed_pvc("filled", {{"status", {{"phase", "Bound"}}}});
  seed_pvc("lost-its-volume", {{"status", {{"phase", "Lost"}}}});
  seed_pvc("goes", {{"metadata", {{"deletionTimestamp", "2023-11-14T22:13:00Z"}}}});
  seed_pvc("of-another", {{"spec", {{"dataSourceRef", {{"namespace", "team"}}}}}});
  const Inventory inventory = Read(Request());
  const SnapshotEntry& monday = Of(inventory, "monday");
  EXPECT_THAT(monday.used_by, UnorderedElementsAre("waits", "filled", "lost-its-volume", "goes"));
  ASSERT_FALSE(monday.kept_for_person.empty());
  EXPECT_EQ(monday.kept_for_person.front().code, "PendingSource");
  EXPECT_EQ(monday.kept_for_person.front().message,
            "PVC waits is being filled from it: wait until it is bound");
}

TEST_F(SnapshotInventoryTest, TellsWhatKeepsOneFromAPersonAndFromPrune) {
  Seed("only");
  bed_.api.SetField(VolumeSnapshotKey("shop", "only"), {"metadata", "creationTimestamp"},
                    "2023-11-14T22:13:00Z");
  const Inventory inventory = Read(Request());
  const SnapshotEntry& only = Of(inventory, "only");
  EXPECT_THAT(CodesOf(only.kept_for), ElementsAre("LastReady", "Young"));
  EXPECT_THAT(CodesOf(only.kept_for_person), ElementsAre("LastReady"));
  EXPECT_TRUE(only.is_named_by_content);
  EXPECT_EQ(only.content_names, "shop/only");
  EXPECT_EQ(only.content_uid, "content-of-only-uid");
  EXPECT_FALSE(only.resource_version.empty());
  EXPECT_FALSE(only.has_velero_labels);
}

TEST_F(SnapshotInventoryTest, MakersAreKnownByTheirLabels) {
  Seed("mine", {{objects::kMadeByLabel, "csi-delta"}});
  Seed("nightly", {{objects::kBackupNameLabel, "nightly"}});
  const Inventory inventory = Read(Request());
  EXPECT_TRUE(Of(inventory, "mine").is_made_by_verbs);
  EXPECT_FALSE(Of(inventory, "nightly").is_made_by_verbs);
  EXPECT_TRUE(Of(inventory, "nightly").has_velero_labels);
  EXPECT_EQ(Of(inventory, "nightly").backup, "nightly");
}

TEST_F(SnapshotInventoryTest, OfThoseThatAreNamedContentsAreReadByName) {
  Seed("a");
  Seed("b");
  InventoryRequest request = Request();
  request.names = {"a"};
  const Inventory inventory = Read(request);
  EXPECT_EQ(bed_.api.CallCount("list", "volumesnapshotcontents"), 0);
  EXPECT_EQ(bed_.api.CallCount("get", "volumesnapshotcontents"), 2);  // b decides about the last.
  EXPECT_EQ(Of(inventory, "a").handle, "h-a");
  EXPECT_THAT(Of(inventory, "a").kept_for_person, IsEmpty());
  // A sibling whose content is gone is not Ready.
  bed_.api.Remove(VolumeSnapshotContentKey("content-of-b"));
  EXPECT_THAT(CodesOf(Of(Read(request), "a").kept_for_person), ElementsAre("LastReady"));
}

TEST_F(SnapshotInventoryTest, OfVeryManyContentsAreListed) {
  for (int i = 0; i < 40; ++i) {
    Seed("s" + std::to_string(i));
  }
  InventoryRequest request = Request();
  request.names = {"s1", "s2"};
  EXPECT_EQ(Of(Read(request), "s1").handle, "h-s1");
  EXPECT_EQ(bed_.api.CallCount("list", "volumesnapshotcontents"), 1);
  EXPECT_EQ(bed_.api.CallCount("get", "volumesnapshotcontents"), 0);
  // Where they may not be listed, those that matter are read all the same.
  bed_.api.Forbid("list", "volumesnapshotcontents");
  EXPECT_EQ(Of(Read(request), "s2").handle, "h-s2");
}

TEST_F(SnapshotInventoryTest, OneThatIsNamedIsReadWithoutTheRightToList) {
  Seed("a");
  Seed("b");
  bed_.api.Forbid("list", "volumesnapshots");
  InventoryRequest request = Request();
  request.names = {"a", "missing"};
  const Inventory inventory = Read(request);
  EXPECT_THAT(Names(inventory), ElementsAre("a"));
  EXPECT_THAT(inventory.not_checked, ElementsAre(HasSubstr("last Ready one of a PVC not checked")));
  EXPECT_FALSE(inventory.is_last_ready_known);
  EXPECT_THAT(inventory.entries[0].kept_for_person, IsEmpty());
  EXPECT_THAT(ReadInventory(bed_.ctx, bed_.api, Request()),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(SnapshotInventoryTest, OnlyNamesReadsNoOther) {
  Seed("a");
  Seed("b");
  InventoryRequest request = Request();
  request.names = {"a"};
  request.only_names = true;
  const Inventory inventory = Read(request);
  EXPECT_THAT(Names(inventory), ElementsAre("a"));
  EXPECT_THAT(inventory.not_checked, IsEmpty());
  EXPECT_EQ(bed_.api.CallCount("list", "volumesnapshots"), 0);
}

TEST_F(SnapshotInventoryTest, WhatIsRequiredIsAnErrorWhereItMayNotBeRead) {
  Seed("a");
  InventoryRequest request = Request();
  request.requires_all = true;
  // PVCs that are bound before they are filled may have been restored in place.
  bed_.api.SetField(VolumeSnapshotContentKey("content-of-a"), {"spec", "driver"}, "d.example.com");
  for (const char* plural : {"volumesnapshots", "volumesnapshotcontents", "persistentvolumeclaims",
                             "persistentvolumes"}) {
    bed_.api.Forbid("list", plural);
    EXPECT_THAT(ReadInventory(bed_.ctx, bed_.api, request),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(plural)));
    bed_.api.ClearFaults();
  }
  EXPECT_TRUE(Read(request).is_last_ready_known);
}

TEST_F(SnapshotInventoryTest, LabelsSelectAndTheOthersStillDecideAboutTheLast) {
  Seed("labelled", {{"app", "db"}});
  Seed("other");
  InventoryRequest request = Request();
  request.label_selector = "app=db";
  request.reads_others = true;
  const Inventory inventory = Read(request);
  EXPECT_EQ(inventory.entries.size(), 2u);
  EXPECT_TRUE(Of(inventory, "labelled").is_selected);
  EXPECT_FALSE(Of(inventory, "other").is_selected);
  EXPECT_THAT(Of(inventory, "labelled").kept_for, IsEmpty());
  EXPECT_THAT(inventory.not_checked, IsEmpty());
}

TEST_F(SnapshotInventoryTest, AListThatGrewTooOldIsReadAgain) {
  Seed("a");
  bed_.api.FailNext("list", "volumesnapshots", absl::OutOfRangeError("too old"), 2);
  EXPECT_THAT(Names(Read(Request())), ElementsAre("a"));
  bed_.api.FailNext("list", "volumesnapshots", absl::OutOfRangeError("too old"), 3);
  EXPECT_THAT(ReadInventory(bed_.ctx, bed_.api, Request()),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(SnapshotInventoryTest, ReadsAlikeWhateverItsVersionAndNotWhenItSaysSomethingElse) {
  Seed("a");
  const SnapshotEntry entry = Of(Read(Request()), "a");
  SnapshotEntry other = entry;
  other.resource_version = "another";
  other.content_resource_version = "another";
  EXPECT_TRUE(ReadsAlike(entry, other));
  other.note = "before the upgrade";
  EXPECT_FALSE(ReadsAlike(entry, other));
  other = entry;
  other.status.conditions.front().message = "another";
  EXPECT_FALSE(ReadsAlike(entry, other));
  other = entry;
  other.kept_for.push_back(csi::LastReadyProtection());
  EXPECT_FALSE(ReadsAlike(entry, other));
}

// Of several that are to go, the newest Ready one of each PVC that would be left without one.
TEST_F(SnapshotInventoryTest, LastReadyOfSparesOneOfEachPvc) {
  std::vector<SnapshotEntry> entries(6);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].namespace_name = "shop";
    entries[i].pvc = i < 3 ? "data" : "logs";
    entries[i].status.state = csi::SnapshotState::kReady;
    entries[i].asked_at = bed_.clock.Now() - absl::Hours(i);
  }
  EXPECT_THAT(LastReadyOf(entries, {true, true, true, false, true, true}), ElementsAre(0u));
  EXPECT_THAT(LastReadyOf(entries, {true, true, false, true, true, true}), ElementsAre(3u));
  EXPECT_THAT(LastReadyOf(entries, {true, true, true, true, true, true}), ElementsAre(0u, 3u));
  EXPECT_THAT(LastReadyOf(entries, {false, false, false, false, false, false}), IsEmpty());
  entries[0].status.state = csi::SnapshotState::kError;
  entries[1].status.taken_at = bed_.clock.Now() - absl::Hours(9);
  EXPECT_THAT(LastReadyOf(entries, {true, true, true, false, false, false}), ElementsAre(2u));
  entries[3].pvc = "";
  entries[4].pvc = "";
  entries[5].pvc = "";
  EXPECT_THAT(LastReadyOf(entries, {true, true, true, true, true, true}), ElementsAre(2u));
}

// An API server whose memory of contents is behind its store, and comes as soon as it is asked.
class ForgetfulApi : public support::FakeApiClient {
 public:
  using FakeApiClient::FakeApiClient;

  absl::StatusOr<std::string> ListWanted(
      const CallContext& ctx, const k8s::ResourceType& type, absl::string_view namespace_name,
      absl::FunctionRef<bool(absl::string_view name)> is_wanted,
      absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink) override {
    ++asked;
    if (!is_asked.HasBeenNotified()) {
      is_asked.Notify();
    }
    EXPECT_EQ(type, VolumeSnapshotContentType());
    std::vector<Json> remembered;
    for (Json& content : All(type)) {
      if (is_wanted(k8s::Name(content)) && !forgotten.contains(k8s::Name(content))) {
        if (unbound.contains(k8s::Name(content))) {
          SetJson(content, {"spec", "volumeSnapshotRef", "uid"}, "another");
        }
        remembered.push_back(std::move(content));
      }
    }
    static_cast<void>(namespace_name);
    is_stopped = ctx.stop.stop_requested();
    sink(remembered, true);
    return std::string("1");
  }

  absl::StatusOr<std::string> ListPages(
      const CallContext& ctx, const k8s::ResourceType& type, absl::string_view namespace_name,
      const k8s::ListOptions& options,
      absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink) override {
    if (type == VolumeSnapshotType() && waits_for_memory) {
      EXPECT_TRUE(is_asked.WaitForNotificationWithTimeout(absl::Seconds(60)));
    }
    return FakeApiClient::ListPages(ctx, type, namespace_name, options, sink);
  }

  bool waits_for_memory = false;
  absl::Notification is_asked;
  bool is_stopped = false;
  int asked = 0;
  std::set<std::string> forgotten;
  std::set<std::string> unbound;
};

class ForgetfulInventoryTest : public testing::Test {
 protected:
  ForgetfulInventoryTest() { ctx_.clock = &clock_; }

  void Seed(const std::string& name) { SeedReady(api_, name); }
  std::map<std::string, SnapshotEntry> Read(InventoryRequest request) {
    request.namespace_name = "shop";
    request.now = clock_.Now();
    api_.ClearCalls();
    const absl::StatusOr<Inventory> inventory = ReadInventory(ctx_, api_, request);
    EXPECT_THAT(inventory, IsOk());
    std::map<std::string, SnapshotEntry> entries;
    for (const SnapshotEntry& entry : inventory.value_or(Inventory()).entries) {
      entries[entry.name] = entry;
    }
    return entries;
  }
  int gets() const { return api_.CallCount("get", "volumesnapshotcontents"); }
  int lists() const { return api_.CallCount("list", "volumesnapshotcontents"); }

  support::FakeClock clock_;
  ForgetfulApi api_{clock_};
  CallContext ctx_;
};

TEST_F(ForgetfulInventoryTest, WhatIsMissingOrNotYetBoundIsLookedAtAgain) {
  for (const char* const name : {"known", "forgotten", "unbound", "gone"}) {
    Seed(name);
  }
  ASSERT_TRUE(api_.Remove(VolumeSnapshotContentKey("content-of-gone")));
  api_.forgotten = {"content-of-forgotten"};
  api_.unbound = {"content-of-unbound"};
  auto entries = Read({});
  for (const char* const name : {"known", "forgotten", "unbound"}) {
    EXPECT_EQ(entries[name].content_kind, csi::ContentReading::Kind::kPresent) << name;
    EXPECT_TRUE(entries[name].is_named_by_content) << name;
    EXPECT_EQ(entries[name].status.state, csi::SnapshotState::kReady) << name;
  }
  EXPECT_EQ(entries["gone"].status.state, csi::SnapshotState::kLost);
  EXPECT_EQ(api_.asked, 1);
  EXPECT_EQ(gets(), 3);
  EXPECT_EQ(lists(), 0);
}

TEST_F(ForgetfulInventoryTest, OfManyOrWithoutTheRightToGetThemTheStoreIsRead) {
  for (int i = 0; i < 33; ++i) {
    Seed(absl::StrCat("s-", i));
    api_.forgotten.insert(absl::StrCat("content-of-s-", i));
  }
  EXPECT_EQ(Read({})["s-7"].content_kind, csi::ContentReading::Kind::kPresent);
  EXPECT_EQ(gets(), 0);
  EXPECT_EQ(lists(), 1);
  api_.forgotten = {"content-of-s-7"};
  api_.Forbid("get", "volumesnapshotcontents");
  EXPECT_EQ(Read({})["s-7"].content_kind, csi::ContentReading::Kind::kPresent);
  EXPECT_EQ(lists(), 1);
}

TEST_F(ForgetfulInventoryTest, ContentsAreAskedForWhileVolumeSnapshotsAreRead) {
  Seed("one");
  api_.waits_for_memory = true;
  EXPECT_EQ(Read({})["one"].handle, "h-one");
  EXPECT_FALSE(api_.is_stopped);
}

TEST_F(ForgetfulInventoryTest, WithoutVolumeSnapshotsTheirContentsAreNotWaitedFor) {
  Seed("one");
  api_.waits_for_memory = true;
  api_.Forbid("list", "volumesnapshots");
  InventoryRequest request;
  request.namespace_name = "shop";
  EXPECT_THAT(ReadInventory(ctx_, api_, request), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(api_.is_stopped);
}

TEST_F(ForgetfulInventoryTest, WhatDecidesOverDeletionsIsNeverRemembered) {
  Seed("one");
  InventoryRequest request;
  request.requires_all = true;
  Read(request);
  request = {};
  request.names = {"one"};
  Read(request);
  EXPECT_EQ(api_.asked, 0);
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_inventory_test
