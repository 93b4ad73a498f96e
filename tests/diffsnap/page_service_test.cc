#include "diffsnap/page_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/diffsnap/fake_driver.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::page_service_test {
namespace {

using incremental::ChangedBlock;
using incremental::DifferentialError;
using incremental::DifferentialErrorCode;
using incremental::DifferentialPage;
using support::FakeClock;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::Eq;
using testing::HasSubstr;

TEST(PageQueryTest, TakesAPathAndTwoParameters) {
  EXPECT_THAT(ParsePageQuery("/ns/a.b-1"), IsOkAndHolds(Eq(PageQuery{"ns", "a.b-1", "", 4096})));
  EXPECT_THAT(ParsePageQuery("/ns/a?startOffset=o%3A1.2&maxEntries=7"),
              IsOkAndHolds(Eq(PageQuery{"ns", "a", "o:1.2", 7})));
  EXPECT_THAT(ParsePageQuery("/ns/a?nextOffset=5&startOffset=5&maxEntries="),
              IsOkAndHolds(Eq(PageQuery{"ns", "a", "5", 4096})));
  EXPECT_THAT(ParsePageQuery("/ns/a?nextOffset=5"),
              IsOkAndHolds(Eq(PageQuery{"ns", "a", "5", 4096})));
  EXPECT_THAT(ParsePageQuery("/ns/a?maxEntries=0"),
              IsOkAndHolds(Eq(PageQuery{"ns", "a", "", 4096})));
  for (const char* many : {"65536", "65537", "99999999999999999999"}) {
    EXPECT_THAT(ParsePageQuery(absl::StrCat("/ns/a?maxEntries=", many)),
                IsOkAndHolds(Eq(PageQuery{"ns", "a", "", 65536})));
  }
}

TEST(PageQueryTest, RefusesEverythingElse) {
  for (const char* path : {"", "/", "/ns", "/ns/", "//a", "/ns/a/", "/ns/a/b", "ns/a", "/../a",
                           "/ns/A", "/ns/%61", "http://h/ns/a", "*", "/ns/a#b"}) {
    EXPECT_THAT(ParsePageQuery(path), StatusIs(absl::StatusCode::kNotFound)) << path;
  }
  for (const char* query :
       {"x=1", "maxEntries=-1", "maxEntries=1.5", "maxEntries=a", "maxEntries=1&maxEntries=1",
        "startOffset=1&nextOffset=2", "startOffset=%", "startOffset=%4", "startOffset=%+1",
        "startOffset=%zz", "StartOffset=1", "=1"}) {
    EXPECT_THAT(ParsePageQuery(absl::StrCat("/ns/a?", query)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parameter")))
        << query;
  }
}

class PageServiceTest : public testing::Test {
 protected:
  PageServiceTest() {
    ctx_.clock = &clock_;
    for (int64_t i = 0; i < 10; ++i) {
      driver_.blocks.push_back({.extent = {i * 8192, 4096}});
    }
    driver_.blocks[3].zero_out = true;
    driver_.blocks[4].context = "where it lies";
    pairs_.Put("ns", "a", Pair("uid-a"));
    pairs_.Put("ns", "b", Pair("uid-b"));
    pairs_.SetSynced();
  }

  static ResolvedPair Pair(const std::string& uid) {
    return {.scope = {.namespace_name = "ns",
                      .uid = uid,
                      .base_handle = "base",
                      .target_handle = "target"},
            .volume_handle = "volume",
            .volume_size_bytes = int64_t{1} << 30,
            .parameters = {{"quality", "good"}},
            .start_offset = ""};
  }

  PageResult Ask(const std::string& start = "", int64_t entries_max = 4,
                 const std::string& name = "a") {
    return service_.GetPage(
        ctx_,
        {.namespace_name = "ns", .name = name, .start_offset = start, .entries_max = entries_max});
  }

  DifferentialPage Page(const std::string& start = "", int64_t entries_max = 4) {
    PageResult result = Ask(start, entries_max);
    if (const auto* const error = std::get_if<DifferentialError>(&result)) {
      ADD_FAILURE() << ErrorName(error->code) << ": " << error->message;
      return {};
    }
    return std::get<DifferentialPage>(std::move(result));
  }

  void ExpectError(const PageResult& result, DifferentialErrorCode code,
                   const std::string& words = "") {
    const auto* const error = std::get_if<DifferentialError>(&result);
    ASSERT_NE(error, nullptr) << "a page where there should be " << ErrorName(code);
    EXPECT_EQ(ErrorName(error->code), ErrorName(code)) << error->message;
    EXPECT_THAT(error->message, HasSubstr(words));
  }

  void ExpectViolation(std::function<void(DriverPage&)> lie, const std::string& words) {
    driver_.spoil = std::move(lie);
    ExpectError(Ask(), DifferentialErrorCode::kDriverContractViolation, words);
  }

  std::vector<ChangedBlock> ReadAll(int64_t entries_max) {
    std::vector<ChangedBlock> all;
    std::string start;
    do {
      DifferentialPage page = Page(start, entries_max);
      all.insert(all.end(), page.blocks.begin(), page.blocks.end());
      start = page.next_offset;
    } while (!start.empty() && all.size() < 100);
    return all;
  }

  FakeClock clock_;
  CallContext ctx_;
  PairTable pairs_;
  FakeDriver driver_;
  const CursorCodec codec_{Secret(std::string(32, 'k'))};
  PageService service_{pairs_, driver_, codec_};
};

TEST_F(PageServiceTest, PagesMakeTheWholeList) {
  for (const bool has_tokens : {false, true}) {
    driver_.has_tokens = has_tokens;
    for (const int64_t entries_max : {1, 3, 5, 10, 100}) {
      EXPECT_EQ(ReadAll(entries_max), driver_.blocks);
    }
  }
}

TEST_F(PageServiceTest, TheDriverIsAskedForThePairAndItsParameters) {
  Page();
  const DriverRequest request = driver_.requests().front();
  EXPECT_EQ(request.base_handle, "base");
  EXPECT_EQ(request.target_handle, "target");
  EXPECT_EQ(request.volume_handle, "volume");
  EXPECT_EQ(request.volume_size_bytes, int64_t{1} << 30);
  EXPECT_EQ(request.parameters.at("quality"), "good");
  EXPECT_EQ(request.entries_max, 4);
}

TEST_F(PageServiceTest, ACursorPresentedAgainGoesOnAtTheSamePlace) {
  driver_.has_tokens = true;
  const DifferentialPage first = Page();
  const DifferentialPage second = Page(first.next_offset);
  EXPECT_EQ(Page(first.next_offset), second);
  EXPECT_EQ(Page(second.next_offset), Page(second.next_offset));
  EXPECT_EQ(Page(first.next_offset), second);
}

TEST_F(PageServiceTest, AServerThatWasRestartedCarriesOn) {
  driver_.has_tokens = true;
  const DifferentialPage first = Page();
  const DifferentialPage second = Page(first.next_offset);
  PageService restarted(pairs_, driver_, CursorCodec(Secret(std::string(32, 'k'))));
  const PageResult again = restarted.GetPage(
      ctx_,
      {.namespace_name = "ns", .name = "a", .start_offset = first.next_offset, .entries_max = 4});
  EXPECT_EQ(std::get<DifferentialPage>(again), second);
}

TEST_F(PageServiceTest, ACursorOfAnotherObjectIsRefused) {
  const std::string cursor = Page().next_offset;
  ExpectError(Ask(cursor, 4, "b"), DifferentialErrorCode::kInvalidOffset, "begin without it");
  ExpectError(Ask("o:1.2.3.x"), DifferentialErrorCode::kInvalidOffset);
  EXPECT_EQ(driver_.requests().size(), 1U);
  // The object was made again under its name.
  pairs_.Put("ns", "a", Pair("another"));
  ExpectError(Ask(cursor), DifferentialErrorCode::kInvalidOffset);
}

TEST_F(PageServiceTest, APlainNumberOfBytesIsAPlace) {
  const DifferentialPage page = Page("10000", 1);
  EXPECT_EQ(page.blocks.front().extent, (Extent{10000, 2288}));  // Cut off at the front.
}

TEST_F(PageServiceTest, TheObjectMaySayWhereToBegin) {
  ResolvedPair pair = Pair("uid-a");
  pair.start_offset = "65536";
  pairs_.Put("ns", "a", pair);
  EXPECT_EQ(Page().blocks.front().extent.offset_bytes, 65536);
  EXPECT_EQ(Page("0").blocks.front().extent.offset_bytes, 0);
}

TEST_F(PageServiceTest, TheObjectMayBeginAtATokenOfItsOwn) {
  driver_.has_tokens = true;
  const DifferentialPage of_a = Page("", 6);
  ResolvedPair pair = Pair("uid-a");
  for (const std::string& start : {std::string("page/6"), of_a.next_offset}) {
    pair.scope.uid = "made later";
    pair.start_offset = start;
    pairs_.Put("ns", "a", pair);
    const DifferentialPage page = Page();
    EXPECT_EQ(driver_.requests().back().driver_token, "page/6");
    EXPECT_EQ(page.blocks.size(), 4U) << start;
    EXPECT_EQ(page.blocks.front(), driver_.blocks[6]);
  }
  pair.start_offset = "page/of another driver";
  pairs_.Put("ns", "a", pair);
  ExpectError(Ask(), DifferentialErrorCode::kInvalidOffset, "the driver: no such page");
  // What a reader names still has to be signed.
  ExpectError(Ask("page/6"), DifferentialErrorCode::kInvalidOffset, "begin without it");
}

TEST_F(PageServiceTest, ForAnUnknownBaseAllIsListedIfTheObjectAsksForIt) {
  driver_.has_tokens = true;
  const std::string cursor = Page("", 3).next_offset;
  for (const absl::Status& failure :
       {absl::NotFoundError("gone"), absl::FailedPreconditionError("archived")}) {
    driver_.failure_of_base = failure;
    ResolvedPair pair = Pair("uid-a");
    pairs_.Put("ns", "a", pair);
    EXPECT_TRUE(std::holds_alternative<DifferentialError>(Ask())) << "by default";
    pair.lists_all_for_unknown_base = true;
    pairs_.Put("ns", "a", pair);
    const ChangedBlock all = {.extent = {0, driver_.volume_size_bytes}};
    EXPECT_EQ(Page(), (DifferentialPage{.blocks = {all},
                                        .next_offset = "",
                                        .volume_size_bytes = driver_.volume_size_bytes}));
    // What was listed before the base was lost is right.
    const Extent rest = {20480, driver_.volume_size_bytes - 20480};
    EXPECT_EQ(Page(cursor).blocks, std::vector<ChangedBlock>{{.extent = rest}});
  }
  EXPECT_EQ(driver_.requests().back().base_handle, "");
  EXPECT_EQ(driver_.requests().back().driver_token, "") << "it is of the list of changes";
  EXPECT_EQ(driver_.requests().back().entries_max, 1);
}

TEST_F(PageServiceTest, AnUnknownBaseHidesNoOtherError) {
  ResolvedPair pair = Pair("uid-a");
  pair.lists_all_for_unknown_base = true;
  pairs_.Put("ns", "a", pair);
  driver_.failure = absl::NotFoundError("gone, too");
  ExpectError(Ask(), DifferentialErrorCode::kTargetSnapshotGone, "gone, too");
  driver_.failure = absl::UnavailableError("away");
  ExpectError(Ask(), DifferentialErrorCode::kUnavailable, "away");
  driver_.failure = absl::OkStatus();
  driver_.failure_of_base = absl::NotFoundError("gone");
  ExpectError(Ask("1073741825"), DifferentialErrorCode::kOffsetOutOfRange, "ends at 1073741824");
  // An empty list would say that nothing changed.
  driver_.spoil = [](DriverPage& page) { page.volume_size_bytes = 0; };
  ExpectError(Ask(), DifferentialErrorCode::kDriverContractViolation, "a volume of 0 bytes");
}

TEST_F(PageServiceTest, AnEmptyDifferenceIsAnEmptyPage) {
  driver_.blocks.clear();
  const DifferentialPage page = Page();
  EXPECT_TRUE(page.blocks.empty());
  EXPECT_EQ(page.next_offset, "");
  EXPECT_EQ(page.volume_size_bytes, int64_t{1} << 30);
}

TEST_F(PageServiceTest, UnknownIsNotFoundAndNothingIsKnownBeforeSync) {
  ExpectError(Ask("", 4, "c"), DifferentialErrorCode::kNotFound, "ns/c");
  pairs_.Remove("ns", "a");
  ExpectError(Ask(), DifferentialErrorCode::kNotFound);
  const PairTable unsynced;
  PageService service(unsynced, driver_, codec_);
  ExpectError(
      service.GetPage(ctx_,
                      {.namespace_name = "ns", .name = "a", .start_offset = "", .entries_max = 1}),
      DifferentialErrorCode::kNotSynced);
}

TEST_F(PageServiceTest, TheDriverIsShownTheSecretsOfTheClass) {
  support::FakeApiClient api{clock_};
  Json snapshot_class = support::MakeClassObject("fast", support::kDriver);
  SetJson(snapshot_class, {"parameters"},
          {{"csi.storage.k8s.io/snapshotter-secret-name", "ceph"},
           {"csi.storage.k8s.io/snapshotter-secret-namespace", "storage"}});
  api.Seed(VolumeSnapshotClassType(), snapshot_class);
  ClassSecrets secrets(api);
  PageService service(pairs_, driver_, CursorCodec(Secret(std::string(32, 'k'))), &secrets);
  ResolvedPair pair = Pair("uid-c");
  pair.secrets_owner.class_name = "fast";
  pairs_.Put("ns", "c", pair);
  const PageQuery query{.namespace_name = "ns", .name = "c", .start_offset = "", .entries_max = 4};
  ExpectError(service.GetPage(ctx_, query), DifferentialErrorCode::kUnavailable, "storage/ceph");
  EXPECT_TRUE(driver_.requests().empty());
  Json secret = support::MakeObject("v1", "Secret", "storage", "ceph");
  SetJson(secret, {"data", "userKey"}, "czNjcmV0");
  api.Seed(SecretType(), secret);
  EXPECT_TRUE(std::holds_alternative<DifferentialPage>(service.GetPage(ctx_, query)));
  EXPECT_EQ(driver_.requests().back().secrets, (DriverSecrets{{"userKey", Secret("s3cret")}}));
}

TEST_F(PageServiceTest, ARequestOutlivesItsObject) {
  driver_.on_page = [&](const CallContext&) { pairs_.Remove("ns", "a"); };
  EXPECT_EQ(Page().blocks.size(), 4U);
  ExpectError(Ask(), DifferentialErrorCode::kNotFound);
}

TEST_F(PageServiceTest, AfterItsTimeoutAResultIsGone) {
  driver_.expires_at = clock_.Now() + absl::Hours(1);
  const DifferentialPage page = Page();
  EXPECT_EQ(page.expires_at, driver_.expires_at);
  clock_.Advance(absl::Hours(1));
  const std::size_t asked = driver_.requests().size();
  ExpectError(Ask(page.next_offset), DifferentialErrorCode::kResultExpired, "make a new");
  EXPECT_EQ(driver_.requests().size(), asked);
  ExpectError(Ask(), DifferentialErrorCode::kResultExpired);
}

TEST_F(PageServiceTest, AWrongDriverIsFoundOut) {
  ExpectViolation([](DriverPage& page) { std::swap(page.blocks[0], page.blocks[1]); },
                  "does not come behind");
  ExpectViolation([](DriverPage& page) { page.blocks[0].extent.length_bytes = 8193; },
                  "[8192, 12288)");
  ExpectViolation([](DriverPage& page) { page.blocks[1].extent.length_bytes = 0; },
                  "does not come behind");
  ExpectViolation([](DriverPage& page) { page.blocks[3].extent.offset_bytes = int64_t{1} << 30; },
                  "beyond the volume");
  ExpectViolation([](DriverPage& page) { page.volume_size_bytes = -1; }, "a volume of -1");
  ExpectViolation([](DriverPage& page) { page.blocks.resize(5); }, "asked for 4 at most");
  ExpectViolation([](DriverPage& page) { page.blocks[0].context.resize(4097); }, "context");
  ExpectViolation([](DriverPage& page) { page.driver_token.resize(2801); }, "token longer");
  ExpectViolation([](DriverPage& page) { page.blocks.clear(); }, "followed by itself");
  driver_.failure = ContractViolation("a number beyond 2^63-1");
  ExpectError(Ask(), DifferentialErrorCode::kDriverContractViolation, "beyond 2^63-1");
}

TEST_F(PageServiceTest, LiesBetweenPagesAreFoundOutToo) {
  driver_.has_tokens = true;
  const std::string cursor = Page().next_offset;
  driver_.spoil = [](DriverPage& page) { page.volume_size_bytes += 512; };
  ExpectError(Ask(cursor), DifferentialErrorCode::kDriverContractViolation,
              "1073741824 in the page before");
  driver_.spoil = [](DriverPage& page) { page.blocks[0].extent = {0, 4096}; };
  ExpectError(Ask(cursor), DifferentialErrorCode::kDriverContractViolation,
              "[0, 4096) does not come behind byte 28672");
}

TEST_F(PageServiceTest, WhatTheDriverSaysIsPassedOn) {
  using Code = DifferentialErrorCode;
  const std::pair<absl::Status, Code> cases[] = {
      {absl::InvalidArgumentError("words"), Code::kInvalidArgument},
      {absl::NotFoundError("words"), Code::kBaseSnapshotGone},
      {absl::PermissionDeniedError("words"), Code::kPermissionDenied},
      {absl::UnauthenticatedError("words"), Code::kInternal},
      {absl::FailedPreconditionError("words"), Code::kFullBackupRequired},
      {absl::OutOfRangeError("words"), Code::kOffsetOutOfRange},
      {absl::ResourceExhaustedError("words"), Code::kThrottled},
      {absl::UnimplementedError("words"), Code::kUnsupported},
      {absl::UnavailableError("words"), Code::kUnavailable},
      {absl::AbortedError("words"), Code::kUnavailable},
      {absl::CancelledError("words"), Code::kUnavailable},
      {absl::DeadlineExceededError("words"), Code::kDeadlineExceeded},
      {absl::InternalError("words"), Code::kInternal},
      {absl::DataLossError("words"), Code::kInternal},
      {absl::UnknownError("words"), Code::kInternal}};
  for (const auto& [status, code] : cases) {
    driver_.failure = status;
    ExpectError(Ask(), code, "the driver: words");
  }
  driver_.failure = absl::InvalidArgumentError("no such place");
  ExpectError(Ask("4096"), Code::kInvalidOffset);
  ResolvedPair allocated = Pair("uid-a");
  allocated.scope.base_handle = "";
  pairs_.Put("ns", "a", allocated);
  driver_.failure = absl::NotFoundError("words");
  ExpectError(Ask(), Code::kTargetSnapshotGone);
}

}  // namespace
}  // namespace csidelta::diffsnap::page_service_test
