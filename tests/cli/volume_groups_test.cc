#include "cli/repository/volume_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace csidelta::cli::volume_groups_test {
namespace {

using repository::Id;
using State = VolumeGroup::State;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kCut[] = "2026-11-23T05:00:00.25Z";

struct Written {
  std::string claim;
  std::string group = "shop/db";
  std::string snapshot = "velero-db-1";
  std::string cut = kCut;
  std::string members = "3";
  std::string cluster = "c1";
  int64_t second = 0;  // of the repository snapshot
};

GroupMember Member(const Written& written) {
  repository::StoredSnapshot stored;
  stored.id = Id::Of(
      absl::StrCat(written.cluster, written.claim, written.snapshot, written.cut, written.second));
  stored.snapshot.time = absl::FromUnixSeconds(1'763'870'000 + written.second);
  stored.snapshot.hostname = written.cluster;
  stored.snapshot.tags = {"du-1", absl::StrCat("volume-group=", written.group)};
  const std::pair<const char*, std::string> rest[] = {
      {"snapshot", written.snapshot}, {"cut", written.cut}, {"members", written.members}};
  for (const auto& [name, value] : rest) {
    if (!value.empty()) {
      stored.snapshot.tags.push_back(absl::StrCat("volume-group-", name, "=", value));
    }
  }
  if (!written.claim.empty()) {
    stored.snapshot.paths = {written.claim};
  }
  const auto member = MemberOf(stored, "/repositories/1");
  EXPECT_TRUE(member.has_value());
  return *member;
}

std::vector<VolumeGroup> Sorted(const std::vector<Written>& all) {
  std::vector<GroupMember> members;
  for (const Written& written : all) {
    members.push_back(Member(written));
  }
  return SortIntoGroups(std::move(members));
}

VolumeGroup Only(const std::vector<Written>& all) {
  std::vector<VolumeGroup> groups = Sorted(all);
  EXPECT_THAT(groups, SizeIs(1));
  return groups.front();
}

std::vector<std::string> Claims(const VolumeGroup& group) {
  std::vector<std::string> claims;
  for (const GroupMember& member : group.members) {
    claims.push_back(member.claim);
  }
  return claims;
}

std::vector<std::string> Names(const std::vector<VolumeGroup>& groups) {
  std::vector<std::string> names;
  for (const VolumeGroup& group : groups) {
    names.push_back(absl::StrCat(group.cluster, " ", group.name, " ", group.snapshot));
  }
  return names;
}

TEST(VolumeGroupsTest, AGroupIsCompleteWhenAllMembersAreThere) {
  const VolumeGroup group = Only({{"/shop/wal"}, {"/shop/data"}, {"/shop/log"}});
  EXPECT_EQ(group.state, State::kComplete);
  EXPECT_EQ(group.name, "shop/db");
  EXPECT_EQ(group.snapshot, "velero-db-1");
  EXPECT_EQ(group.members_expected, 3);
  EXPECT_THAT(Claims(group), ElementsAre("/shop/data", "/shop/log", "/shop/wal"));
  EXPECT_THAT(DescribeGroup(group),
              HasSubstr("group shop/db, taken 2026-11-23 05:00:00.25 UTC as velero-db-1: complete, "
                        "3 of 3 members\n"));
}

TEST(VolumeGroupsTest, AMissingMemberMakesItIncomplete) {
  const VolumeGroup group = Only({{"/shop/wal"}, {"/shop/data"}});
  EXPECT_EQ(group.state, State::kIncomplete);
  EXPECT_THAT(DescribeGroup(group), HasSubstr("incomplete, 2 of 3 members, 1 missing\n"));
}

TEST(VolumeGroupsTest, AMemberThatWasStoredTwiceCountsOnce) {
  const VolumeGroup group =
      Only({{"/shop/wal"}, {"/shop/data"}, {.claim = "/shop/data", .second = 9}});
  EXPECT_EQ(group.state, State::kIncomplete);
  ASSERT_THAT(Claims(group), ElementsAre("/shop/data", "/shop/wal"));
  EXPECT_EQ(group.members[0].time, absl::FromUnixSeconds(1'763'870'009)) << "the newest counts";
}

TEST(VolumeGroupsTest, SnapshotsTakenAtDifferentTimesAreNoGroup) {
  const auto groups =
      Sorted({{"/shop/a"},
              {.claim = "/shop/a", .snapshot = "velero-db-2", .cut = "2026-11-23T06:00:00Z"},
              {.claim = "/shop/a", .cluster = "c2"},
              {.claim = "/shop/a", .group = "shop/web"}});
  EXPECT_THAT(groups, SizeIs(4));
  EXPECT_EQ(Names(groups).back(), "c1 shop/db velero-db-2") << "the newest is the last";
}

TEST(VolumeGroupsTest, AreSortedByTheCutWheneverTheyWereStored) {
  EXPECT_THAT(
      Names(Sorted({{.claim = "/a", .snapshot = "3", .cut = "2026-11-23T07:00:00+01:00"},
                    {.claim = "/a", .snapshot = "2", .cut = "2026-11-23T05:00:00Z", .second = 99},
                    {.claim = "/a", .snapshot = "1", .cut = ""}})),
      ElementsAre("c1 shop/db 1", "c1 shop/db 2", "c1 shop/db 3"));
}

TEST(VolumeGroupsTest, WithoutTheNameOfTheSnapshotNothingIsComplete) {
  const auto by_cut = Sorted({{.claim = "/shop/a", .snapshot = "", .members = "2"},
                              {.claim = "/shop/b", .snapshot = "", .members = "2"}});
  ASSERT_THAT(by_cut, SizeIs(1));
  EXPECT_EQ(by_cut[0].state, State::kUnknown);
  EXPECT_THAT(Sorted({{.claim = "/shop/a", .snapshot = "", .cut = ""},
                      {.claim = "/shop/a", .snapshot = "", .cut = "", .second = 1}}),
              SizeIs(2));
}

TEST(VolumeGroupsTest, NumbersThatAreNoneLeaveItUnknown) {
  for (const char* members : {"", "0", "-3", "three", "3.5", "0x3", "99999999999999999999",
                              "9223372036854775808", "\x1b[31m", "3;", "\xef\xbc\x93"}) {
    const VolumeGroup group = Only({{.claim = "/shop/a", .members = members}});
    EXPECT_EQ(group.state, State::kUnknown) << members;
    EXPECT_EQ(group.members_expected, 0) << members;
    EXPECT_THAT(DescribeGroup(group), HasSubstr("unknown, 1 members of an unknown number"));
    EXPECT_THAT(GroupJsonText(group), HasSubstr("\"members_expected\":null"));
  }
  EXPECT_EQ(Only({{.claim = "/shop/a", .members = "2147483647"}}).state, State::kIncomplete);
}

TEST(VolumeGroupsTest, MoreMembersThanThereWereAreNotComplete) {
  EXPECT_EQ(Only({{.claim = "/a", .members = "2"},
                  {.claim = "/b", .members = "2"},
                  {.claim = "/c", .members = "2"}})
                .state,
            State::kUnknown);
  // The greater count is used: incomplete, rather than complete by mistake.
  EXPECT_EQ(Only({{.claim = "/a", .members = "2"}, {.claim = "/b", .members = "3"}}).state,
            State::kIncomplete);
}

TEST(VolumeGroupsTest, ATimeThatIsNoneIsNotKnown) {
  for (const char* cut : {"", "yesterday", "2026-13-45T99:00:00Z", "\x1b]0;title\x07", "0"}) {
    const VolumeGroup group = Only({{.claim = "/shop/a", .cut = cut}});
    EXPECT_FALSE(group.snapshot_taken_at.has_value()) << cut;
    EXPECT_EQ(group.OrderedBy(), absl::FromUnixSeconds(1'763'870'000));
    EXPECT_THAT(DescribeGroup(group), HasSubstr("taken at an unknown time"));
    EXPECT_THAT(GroupJsonText(group), HasSubstr("\"cut_at\":null"));
  }
}

TEST(VolumeGroupsTest, NothingThatATerminalObeysIsShown) {
  const std::string nasty = "\x1b[2J\r\nshop\x07/\u202e\xff";
  const VolumeGroup group = Only({{.claim = nasty, .group = nasty, .snapshot = nasty}});
  EXPECT_THAT(DescribeGroup(group),
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r")), Not(HasSubstr("\x07")),
                    Not(HasSubstr("\u202e")), Not(HasSubstr("\xff"))));
  EXPECT_TRUE(ParseJson(GroupJsonText(group)).ok());
}

TEST(VolumeGroupsTest, AnEmptyNameIsNoGroup) {
  repository::StoredSnapshot stored;
  stored.snapshot.tags = {"volume-group=", "volume-group-snapshot=x", "volume-group-members=3"};
  EXPECT_EQ(MemberOf(stored, ""), std::nullopt);
}

TEST(VolumeGroupsTest, WithoutPathsEachIsAMember) {
  EXPECT_THAT(Only({{.claim = ""}, {.claim = "", .second = 1}}).members, SizeIs(2));
}

TEST(VolumeGroupsTest, NamespacesAreThoseOfTheMembers) {
  EXPECT_THAT(Only({{"/shop/a"}, {"/shop/b"}}).Namespaces(), ElementsAre("shop"));
  EXPECT_THAT(Only({{.claim = ""}}).Namespaces(), ElementsAre("shop"));
}

TEST(VolumeGroupsTest, AGroupHasThreeNames) {
  const incremental::VolumeGroupTags tags = {
      .group = "shop/db", .snapshot = "velero-db-1", .snapshot_taken_at = ""};
  for (const char* name : {"shop/db", "db", "velero-db-1"}) {
    EXPECT_TRUE(IsCalled(tags, name)) << name;
  }
  for (const char* name : {"", "shop", "b", "/db", "op/db", "velero", "shop/db/"}) {
    EXPECT_FALSE(IsCalled(tags, name)) << name;
  }
}

TEST(VolumeGroupsTest, TheNewestOfEachGroupAreKept) {
  auto groups = Sorted({{.claim = "/a", .snapshot = "1", .cut = "2026-11-23T01:00:00Z"},
                        {.claim = "/a", .snapshot = "2", .cut = "2026-11-23T02:00:00Z"},
                        {.claim = "/a", .snapshot = "3", .cut = "2026-11-23T03:00:00Z"},
                        {.claim = "/a", .group = "shop/web", .snapshot = "1"}});
  KeepNewest(groups, 2);
  EXPECT_THAT(Names(groups), ElementsAre("c1 shop/db 2", "c1 shop/db 3", "c1 shop/web 1"));
}

TEST(VolumeGroupsTest, JsonSaysAllThatARestoreNeeds) {
  const auto parsed = ParseJson(GroupJsonText(Only({{"/shop/data"}, {"/shop/wal"}})));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(GetString(*parsed, {"group"}), "shop/db");
  EXPECT_EQ((*parsed)["namespaces"], Json::array({"shop"}));
  EXPECT_EQ(GetString(*parsed, {"volume_group_snapshot"}), "velero-db-1");
  EXPECT_EQ(GetString(*parsed, {"cut_at"}), kCut);
  EXPECT_EQ(GetString(*parsed, {"state"}), "incomplete");
  EXPECT_EQ(GetInt(*parsed, {"members_present"}), 2);
  EXPECT_EQ(GetInt(*parsed, {"members_expected"}), 3);
  ASSERT_EQ((*parsed)["snapshots"].size(), 2U);
  const Json& first = (*parsed)["snapshots"][0];
  EXPECT_EQ(GetString(first, {"claim"}), "/shop/data");
  EXPECT_THAT(GetString(first, {"id"}), SizeIs(64));
  EXPECT_EQ(GetString(first, {"repository"}), "/repositories/1");
  EXPECT_THAT(GetString(first, {"time"}), Not(IsEmpty()));
}

}  // namespace
}  // namespace csidelta::cli::volume_groups_test
