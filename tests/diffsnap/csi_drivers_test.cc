// Both ways to ask a CSI driver for pages, with the CSI driver of the tests behind its socket.

#include "diffsnap/csi_drivers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/extent.h"
#include "base/unique_fd.h"
#include "diffsnap/page_service.h"
#include "tests/csi_driver/driver_fixture.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::csi_drivers_test {
namespace {

using csi_driver::DriverFixture;
using incremental::ChangedBlock;
using incremental::DifferentialError;
using incremental::DifferentialErrorCode;
using incremental::DifferentialPage;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kShort = absl::Milliseconds(100);
constexpr int64_t kVolumeBytes = int64_t{5} << 20;
constexpr int64_t kBlock = 4096;
constexpr int kPagesMax = 2000;

struct Way {
  const char* name;
  DriverService service;
  bool opaque_cursors = false;
  bool fixed = true;
};

constexpr Way kPages = {"Pages", DriverService::kDifferentialSnapshot};
constexpr Way kOpaquePages = {"OpaquePages", DriverService::kDifferentialSnapshot, true};
constexpr Way kStreams = {"Streams", DriverService::kSnapshotMetadata};
constexpr Way kVariableStreams = {"VariableStreams", DriverService::kSnapshotMetadata, false,
                                  false};

// A volume with three volume snapshots, a driver, and pages of it.
class CsiDriversFixture : public DriverFixture {
 protected:
  CsiDriversFixture() : DriverFixture("/dev/shm") {}  // There is no flush to wait for.

  void Begin(const Way& way) {
    service_ = way.service;
    options_.differential_snapshot = true;
    options_.opaque_cursors = way.opaque_cursors;
    options_.blocks.fixed = way.fixed;
    DriverFixture::SetUp();
    volume_ = NewVolume("v");
    WriteTo(volume_, 300 * kBlock, "soon zero");
    for (int i = 0; i < 3; ++i) {
      handles_.push_back(store_->CreateSnapshot(absl::StrCat("s", i), volume_)->id);
      WriteTo(volume_, 300 * kBlock, std::string(9, '\0'));
      for (int64_t at = 0; at < 40; ++at) {  // Near and far, across blocks' borders and not.
        WriteTo(volume_, (at * at * 10'007 + i * 333'333) % (kVolumeBytes - 100),
                std::string(at % 7 == 3 ? 60 : 3, static_cast<char>('a' + i)));
      }
    }
    Connect();
  }

  std::string NewVolume(const std::string& name) {
    csi_driver::VolumeSpec spec;
    spec.name = name;
    spec.size.required_bytes = kVolumeBytes;
    return store_->CreateVolume(spec)->id;
  }

  void Connect() {
    driver_options_.service = service_;
    absl::StatusOr<CsiDriver> made = MakeDifferentialDriver({}, Address(), driver_options_);
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(made->name, "fixture.csi-delta.io");
    EXPECT_EQ(made->service, service_);
    driver_ = std::move(made->driver);
    pages_ =
        std::make_unique<PageService>(pairs_, *driver_, CursorCodec(Secret(std::string(32, 'k'))));
    Compare(handles_[0], handles_[2]);
    pairs_.SetSynced();
  }

  void Restart() {
    StopServing();
    Serve();
    Connect();
  }

  void Compare(const std::string& base, const std::string& target) {
    pair_ = {.scope = {.namespace_name = "ns",
                       .uid = "uid",
                       .base_handle = base,
                       .target_handle = target},
             .volume_handle = volume_,
             .volume_size_bytes = kVolumeBytes,
             .parameters = {},
             .start_offset = ""};
    pairs_.Put("ns", "a", pair_);
  }

  PageResult Ask(const std::string& start, int64_t entries_max, const CallContext& ctx = {}) {
    return pages_->GetPage(
        ctx,
        {.namespace_name = "ns", .name = "a", .start_offset = start, .entries_max = entries_max});
  }

  DifferentialPage Page(const std::string& start, int64_t entries_max) {
    PageResult result = Ask(start, entries_max);
    if (const auto* const error = std::get_if<DifferentialError>(&result)) {
      ADD_FAILURE() << ErrorName(error->code) << ": " << error->message;
      return {};
    }
    return std::get<DifferentialPage>(std::move(result));
  }

  std::vector<ChangedBlock> ReadAll(int64_t entries_max, std::string start = "") {
    std::vector<ChangedBlock> all;
    for (int i = 0; i < kPagesMax; ++i) {
      DifferentialPage page = Page(start, entries_max);
      EXPECT_LE(std::ssize(page.blocks), entries_max);
      all.insert(all.end(), page.blocks.begin(), page.blocks.end());
      start = page.next_offset;
      if (start.empty()) {
        return all;
      }
    }
    ADD_FAILURE() << "pages without end";
    return all;
  }

  void ExpectError(const PageResult& result, DifferentialErrorCode code,
                   const std::string& words = "") {
    const auto* const error = std::get_if<DifferentialError>(&result);
    ASSERT_NE(error, nullptr) << "a page where there should be " << ErrorName(code);
    EXPECT_EQ(ErrorName(error->code), ErrorName(code)) << error->message;
    EXPECT_THAT(error->message, HasSubstr(words));
  }

  std::string BytesOf(const std::string& handle) {
    if (handle.empty()) {
      return std::string(kVolumeBytes, '\0');
    }
    std::string bytes(kVolumeBytes, '\0');
    std::ifstream file(store_->SnapshotPath(handle), std::ios::binary);
    EXPECT_TRUE(file.read(bytes.data(), kVolumeBytes));
    return bytes;
  }

  // The grains in which two images differ, as extents that touch joined.
  std::vector<Extent> Comparison(const std::string& base, const std::string& target) {
    const std::string before = BytesOf(base);
    const std::string after = BytesOf(target);
    const int64_t grain = options_.blocks.bytes;
    std::vector<Extent> grains;
    for (int64_t at = 0; at < kVolumeBytes; at += grain) {
      const auto from = static_cast<std::size_t>(at);
      if (before.compare(from, static_cast<std::size_t>(grain), after, from,
                         static_cast<std::size_t>(grain)) != 0) {
        grains.push_back({at, std::min(grain, kVolumeBytes - at)});
      }
    }
    return MergeExtents(grains);
  }

  static std::vector<Extent> ExtentsOf(const std::vector<ChangedBlock>& blocks) {
    std::vector<Extent> extents;
    for (const ChangedBlock& block : blocks) {
      extents.push_back(block.extent);
    }
    return MergeExtents(extents);
  }

  int64_t Started(const std::string& method) { return faults_.Counts()[method].started; }

  DriverRequest Request(int64_t entries_max = 100) {
    return {.base_handle = pair_.scope.base_handle,
            .target_handle = pair_.scope.target_handle,
            .volume_handle = volume_,
            .volume_size_bytes = kVolumeBytes,
            .parameters = {},
            .secrets = {},
            .from_bytes = 0,
            .driver_token = "",
            .entries_max = entries_max};
  }

  DriverService service_ = DriverService::kBest;
  support::FakeClock age_clock_;
  CsiDriverOptions driver_options_;
  std::string volume_;
  std::vector<std::string> handles_;
  ResolvedPair pair_;
  PairTable pairs_;
  std::unique_ptr<DifferentialDriver> driver_;
  std::unique_ptr<PageService> pages_;
};

// What both services do.
class CsiDriversTest : public CsiDriversFixture, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override { Begin(GetParam()); }

  std::string method() const {
    return service_ == DriverService::kDifferentialSnapshot ? "GetDifferentialSnapshot"
                                                            : "GetMetadataDelta";
  }
  // A rule for them.
  void LetCalls(const std::string& rule) {
    AddRule(absl::StrCat(R"({"method":")", method(), R"(",)", rule, "}"));
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, CsiDriversTest,
                         testing::Values(kPages, kOpaquePages, kStreams, kVariableStreams),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(CsiDriversTest, PagesOfAnySizeMakeTheComparisonOfTheImages) {
  const std::pair<std::string, std::string> pairs[] = {{handles_[1], handles_[2]},
                                                       {handles_[0], handles_[2]},
                                                       {handles_[2], handles_[0]},
                                                       {handles_[1], handles_[1]},
                                                       {"", handles_[2]}};
  for (const int64_t grain : {int64_t{512}, kBlock, int64_t{64} << 10, int64_t{4} << 20}) {
    options_.blocks.bytes = grain;
    Restart();
    for (const auto& [base, target] : pairs) {
      Compare(base, target);
      for (const int64_t entries_max : {3, 1000}) {
        EXPECT_EQ(ExtentsOf(ReadAll(entries_max)), Comparison(base, target))
            << "grain " << grain << ", " << entries_max << " in a page";
      }
    }
  }
}

TEST_P(CsiDriversTest, OneBlockInAPageIsEnough) {
  EXPECT_EQ(ExtentsOf(ReadAll(1)), Comparison(handles_[0], handles_[2]));
}

TEST_P(CsiDriversTest, APagePresentedAgainOrAfterARestartIsTheSame) {
  const DifferentialPage first = Page("", 5);
  const DifferentialPage second = Page(first.next_offset, 5);
  EXPECT_EQ(Page(first.next_offset, 5), second);
  const DifferentialPage third = Page(second.next_offset, 5);
  Connect();
  EXPECT_EQ(Page(second.next_offset, 5), third);
  std::vector<ChangedBlock> all = first.blocks;
  const std::vector<ChangedBlock> rest = ReadAll(7, first.next_offset);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(ExtentsOf(all), Comparison(handles_[0], handles_[2]));
}

TEST_P(CsiDriversTest, AnEmptyDifferenceHasTheVolumesSize) {
  Compare(handles_[1], handles_[1]);
  const DifferentialPage page = Page("", 10);
  EXPECT_TRUE(page.blocks.empty());
  EXPECT_EQ(page.next_offset, "");
  EXPECT_EQ(page.volume_size_bytes, kVolumeBytes);
}

TEST_P(CsiDriversTest, ADeletedBaseIsAnsweredByWhoKeepsItsChangeData) {
  const std::vector<Extent> expected = Comparison(handles_[0], handles_[2]);
  ASSERT_THAT(store_->DeleteSnapshot(handles_[0], /*keep_change_data=*/true), IsOk());
  EXPECT_EQ(ExtentsOf(ReadAll(10)), expected);
  Compare(handles_[1], handles_[2]);
  ASSERT_THAT(store_->DeleteSnapshot(handles_[1]), IsOk());
  ExpectError(Ask("", 10), DifferentialErrorCode::kBaseSnapshotGone, "the driver: ");
  pair_.lists_all_for_unknown_base = true;
  pairs_.Put("ns", "a", pair_);
  EXPECT_EQ(ExtentsOf(ReadAll(10)), (std::vector<Extent>{{0, kVolumeBytes}}));
  Compare(handles_[1], "snap-none");
  pair_.lists_all_for_unknown_base = true;
  pairs_.Put("ns", "a", pair_);
  ExpectError(Ask("", 10), DifferentialErrorCode::kTargetSnapshotGone);
}

TEST_P(CsiDriversTest, AHandleOfAnotherVolumeIsRefused) {
  const std::string other = store_->CreateSnapshot("other", NewVolume("w"))->id;
  Compare(other, handles_[2]);
  ExpectError(Ask("", 10), DifferentialErrorCode::kInvalidArgument, "the driver: ");
  Compare("snap-none", handles_[2]);
  ExpectError(Ask("", 10), DifferentialErrorCode::kBaseSnapshotGone);
  Compare("", "snap-none");
  ExpectError(Ask("", 10), DifferentialErrorCode::kTargetSnapshotGone);
}

TEST_P(CsiDriversTest, AStuckDriverIsLeftWithinTwoSeconds) {
  LetCalls(R"("hold":true)");
  std::stop_source stop;
  CallContext ctx;
  ctx.stop = stop.get_token();
  ctx.clock = &age_clock_;  // It stands still.
  PageResult result;
  absl::Duration begun;
  // The driver holds the call until it is cancelled, there is no deadline, and the clock stands
  // still: so only the stop can end the call, and without a sleep.
  driver_options_.page_time_max = absl::Hours(1);
  Connect();
  const int64_t asked_before = Started(method());
  {
    const support::AwaitEnd end("a call that was stopped");
    const std::jthread caller([&] { result = Ask("", 10, ctx); });
    ASSERT_TRUE(faults_.WaitFor(method(), {.held = 1}, kLong));
    begun = Clock::Real().Uptime();
    stop.request_stop();
  }
  EXPECT_EQ(Started(method()), asked_before + 1) << "a stopped call is not retried";
  if (support::AssertsSeconds("a call that is stopped ends within 2 s")) {
    EXPECT_LT(Clock::Real().Uptime() - begun, absl::Seconds(2));
  }
  ExpectError(result, DifferentialErrorCode::kUnavailable);
  EXPECT_TRUE(faults_.WaitFor(method(), {.failed = 1}, kLong));  // The driver was told.
}

TEST_P(CsiDriversTest, APageThatTakesTooLongIsLeft) {
  LetCalls(R"("hold":true)");
  driver_options_.page_time_max = kShort;
  Connect();
  ExpectError(Ask("", 10), DifferentialErrorCode::kDeadlineExceeded);
  driver_options_.page_time_max = kLong;
  Connect();
  ExpectError(Ask("", 10, CallContext().WithTimeout(kShort)),
              DifferentialErrorCode::kDeadlineExceeded);
}

TEST_P(CsiDriversTest, ADriverThatWasRestartedIsFoundAgain) {
  const DifferentialPage page = Page("", 5);
  StopServing();
  Serve();
  // What was open has broken; who asks again soon is answered.
  for (int i = 0; std::holds_alternative<DifferentialError>(Ask("", 5)) && i < kPagesMax; ++i) {
    Clock::Real().SleepFor(absl::Milliseconds(10), {});
  }
  std::vector<ChangedBlock> all = page.blocks;
  const std::vector<ChangedBlock> rest = ReadAll(100, page.next_offset);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(ExtentsOf(all), Comparison(handles_[0], handles_[2]));
}

TEST_P(CsiDriversTest, MoreCallsAtOnceThanAllowedAreRefused) {
  driver_options_.calls_max = 1;
  Connect();
  LetCalls(R"("hold":true)");
  {
    const std::jthread caller([&] { Page("", 10); });
    ASSERT_TRUE(faults_.WaitFor(method(), {.held = 1}, kLong));
    ExpectError(Ask("", 10), DifferentialErrorCode::kThrottled, "1 pages already");
    faults_.Clear();
  }
  Page("", 10);
}

TEST_P(CsiDriversTest, AMessageThatIsTooLongIsAskedForAgainInSmallerOnes) {
  driver_options_.message_bytes_max = int64_t{1} << 20;
  Connect();
  LetCalls(R"("lie":"huge_message","after_messages":0,"times":1)");
  EXPECT_EQ(ExtentsOf(ReadAll(1000)), Comparison(handles_[0], handles_[2]));
  LetCalls(R"("lie":"huge_message","after_messages":0)");
  ExpectError(Ask("", 1000), DifferentialErrorCode::kDriverContractViolation, "too long");
}

TEST_P(CsiDriversTest, WrongListsAreNotPassedOn) {
  for (const char* lie : {"overlap", "unordered", "zero_length", "negative_length",
                          "negative_offset", "overflow", "beyond_capacity"}) {
    LetCalls(absl::StrCat(R"("lie":")", lie, "\""));
    PageResult result = Ask("", 1000);
    EXPECT_TRUE(std::holds_alternative<DifferentialError>(result)) << lie;
    if (std::holds_alternative<DifferentialError>(result)) {
      ExpectError(result, DifferentialErrorCode::kDriverContractViolation, "not to be trusted");
    }
    faults_.Clear();
  }
}

TEST_P(CsiDriversTest, TheSecretsReachTheDriver) {
  LetCalls(
      R"("unless_secret":{"user":"s3cret"},"code":"PERMISSION_DENIED","message":"not s3cret")");
  ExpectError(Ask("", 10), DifferentialErrorCode::kPermissionDenied, "not s3cret");
  DriverRequest request = Request();
  request.secrets = {{"user", Secret("s3cret")}};
  const CallContext ctx = CallContext().WithTimeout(kLong);
  EXPECT_THAT(driver_->GetPage(ctx, request), IsOk());
  // What a driver says about a secret does not go further.
  faults_.Clear();
  LetCalls(R"("code":"UNKNOWN","message":"bad s3cret")");
  EXPECT_THAT(driver_->GetPage(ctx, request),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("bad ***")));
}

// What only pages have.
class PageDriverTest : public CsiDriversFixture {
 protected:
  void SetUp() override { Begin(kOpaquePages); }
};

TEST_F(PageDriverTest, ContextParametersAndZerosGoThroughUntouched) {
  pair_.parameters = {{"context", "volume-7@"}};
  pairs_.Put("ns", "a", pair_);
  const std::vector<ChangedBlock> all = ReadAll(10);
  ASSERT_FALSE(all.empty());
  for (const ChangedBlock& block : all) {
    EXPECT_EQ(block.context, absl::StrCat("volume-7@", block.extent.offset_bytes));
  }
  const auto zero = std::find_if(all.begin(), all.end(),
                                 [](const ChangedBlock& block) { return block.zero_out; });
  ASSERT_NE(zero, all.end());
  EXPECT_EQ(zero->extent, (Extent{300 * kBlock, kBlock}));
}

TEST_F(PageDriverTest, AnObjectBeginsAtTheDriversToken) {
  const DifferentialPage first = Page("", 10);
  pair_.scope.uid = "made later";
  pair_.start_offset = ParseStartOffset(first.next_offset)->driver_token;
  pairs_.Put("ns", "a", pair_);
  std::vector<Extent> all = ExtentsOf(first.blocks);
  for (const Extent& extent : ExtentsOf(ReadAll(10))) {
    all.push_back(extent);
  }
  EXPECT_EQ(MergeExtents(all), Comparison(handles_[0], handles_[2]));
  pair_.start_offset = "no-cursor-of-this-driver";
  pairs_.Put("ns", "a", pair_);
  ExpectError(Ask("", 10), DifferentialErrorCode::kInvalidOffset, "the driver: ");
}

TEST_F(PageDriverTest, ExpiredResultsAreGone) {
  AddRule(R"({"method":"GetDifferentialSnapshot","lie":"expired"})");
  ExpectError(Ask("", 10), DifferentialErrorCode::kResultExpired);
}

TEST_F(PageDriverTest, EmptyPagesMayFollowOneAnotherButNotThemselves) {
  AddRule(R"({"method":"GetDifferentialSnapshot","lie":"empty_message","times":1})");
  const DifferentialPage empty = Page("", 10);
  EXPECT_TRUE(empty.blocks.empty());
  EXPECT_NE(empty.next_offset, "");
  EXPECT_EQ(ExtentsOf(ReadAll(10, empty.next_offset)), Comparison(handles_[0], handles_[2]));
  AddRule(R"({"method":"GetDifferentialSnapshot","lie":"empty_message"})");
  ExpectError(Ask(empty.next_offset, 10), DifferentialErrorCode::kDriverContractViolation,
              "followed by itself");
}

TEST_F(PageDriverTest, AnotherVolumeThanSaidIsRefused) {
  pair_.volume_handle = "vol-other";
  pairs_.Put("ns", "a", pair_);
  ExpectError(Ask("", 10), DifferentialErrorCode::kInvalidArgument, "not of volume vol-other");
}

// What only streams have.
class MetadataBridgeTest : public CsiDriversFixture {
 protected:
  void SetUp() override { Begin(kStreams); }
};

TEST_F(MetadataBridgeTest, AStreamIsKeptForThePageThatGoesOn) {
  const std::vector<ChangedBlock> all = ReadAll(1);
  EXPECT_GT(all.size(), 40U);
  EXPECT_EQ(Started("GetMetadataDelta"), 2);  // The list, and the question whether that was all.
}

TEST_F(MetadataBridgeTest, APagePresentedAgainIsANewStream) {
  const DifferentialPage first = Page("", 5);
  Page(first.next_offset, 5);
  const int64_t before = Started("GetMetadataDelta");
  Page(first.next_offset, 5);
  EXPECT_GT(Started("GetMetadataDelta"), before);
}

TEST_F(MetadataBridgeTest, TheStreamOfAnotherPairIsNotTaken) {
  const DifferentialPage first = Page("", 5);
  const int64_t end_bytes = first.blocks.back().extent.end_bytes();
  Compare(handles_[1], handles_[2]);
  std::vector<Extent> expected;
  for (Extent extent : Comparison(handles_[1], handles_[2])) {
    const int64_t begin = std::max(extent.offset_bytes, end_bytes);
    if (extent.end_bytes() > begin) {
      expected.push_back({begin, extent.end_bytes() - begin});
    }
  }
  EXPECT_EQ(ExtentsOf(ReadAll(1000, absl::StrCat(end_bytes))), expected);
}

TEST_F(MetadataBridgeTest, OfManyStreamsTheOldestGivesWay) {
  driver_options_.streams_kept_max = 2;
  Connect();
  std::vector<DriverRequest> going_on;
  for (const auto& [base, target] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
    Compare(handles_[static_cast<std::size_t>(base)], handles_[static_cast<std::size_t>(target)]);
    DriverRequest request = Request(2);
    absl::StatusOr<DriverPage> page = driver_->GetPage({}, request);
    ASSERT_THAT(page, IsOk());
    ASSERT_TRUE(page->more);
    request.from_bytes = page->blocks.back().extent.end_bytes();
    going_on.push_back(request);
  }
  const auto opens_one = [&](const DriverRequest& request) {
    const int64_t before = Started("GetMetadataDelta");
    EXPECT_THAT(driver_->GetPage({}, request), IsOk());
    return Started("GetMetadataDelta") > before;
  };
  EXPECT_FALSE(opens_one(going_on[2]));
  EXPECT_FALSE(opens_one(going_on[1]));
  EXPECT_TRUE(opens_one(going_on[0]));
}

TEST_F(MetadataBridgeTest, AnAbandonedStreamIsEndedAfterAMinute) {
  driver_options_.clock = &age_clock_;
  Connect();
  AddRule(R"({"method":"GetMetadataDelta","match":")" + handles_[2] +
          R"(","hold":true,"after_messages":1})");
  DriverRequest request = Request(10);
  // The driver holds the stream before its second message: none is asked for yet.
  const absl::StatusOr<DriverPage> page = driver_->GetPage({}, request);
  ASSERT_THAT(page, IsOk());
  ASSERT_TRUE(page->more);
  age_clock_.AwaitSleepers(1);
  EXPECT_EQ(faults_.Counts()["GetMetadataDelta"].finished, 0);
  age_clock_.Advance(absl::Seconds(59));
  EXPECT_EQ(faults_.Counts()["GetMetadataDelta"].finished, 0);
  age_clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(faults_.WaitFor("GetMetadataDelta", {.failed = 1}, kLong));
}

TEST_F(MetadataBridgeTest, AStreamThatEndsEarlyIsGoneOnWith) {
  options_.blocks.bytes = 512;
  Restart();
  const int64_t before = Started("GetMetadataDelta");
  // 2,048 blocks of 512 bytes: no message holds the list whole.
  Compare("", handles_[2]);
  WriteTo(volume_, 0, std::string(int64_t{1} << 20, 'x'));
  handles_.push_back(store_->CreateSnapshot("s3", volume_)->id);
  Compare(handles_[0], handles_[3]);
  AddRule(R"({"method":"GetMetadataDelta","lie":"end","after_messages":1,"times":1})");
  EXPECT_EQ(ExtentsOf(ReadAll(300)), Comparison(handles_[0], handles_[3]));
  EXPECT_EQ(Started("GetMetadataDelta") - before, 3);
}

TEST_F(MetadataBridgeTest, AStreamThatBreaksOffIsAPageThatGoesOn) {
  WriteTo(volume_, 0, std::string(int64_t{2} << 20, 'x'));
  for (int64_t at = 0; at < 600; ++at) {
    WriteTo(volume_, at * 2 * kBlock, "y");
  }
  handles_.push_back(store_->CreateSnapshot("s3", volume_)->id);
  Compare(handles_[2], handles_[3]);
  AddRule(R"({"method":"GetMetadataDelta","code":"UNAVAILABLE","after_messages":1,"times":1})");
  EXPECT_EQ(ExtentsOf(ReadAll(256)), Comparison(handles_[2], handles_[3]));
  AddRule(R"({"method":"GetMetadataDelta","code":"ABORTED","message":"busy"})");
  ExpectError(Ask("", 10), DifferentialErrorCode::kUnavailable, "busy");
}

TEST_F(MetadataBridgeTest, StreamsThatContradictThemselvesAreNotBelieved) {
  options_.blocks.bytes = 512;
  for (int64_t at = 0; at < 600; ++at) {
    WriteTo(volume_, at * 1024, "y");
  }
  handles_.push_back(store_->CreateSnapshot("s3", volume_)->id);
  Restart();
  Compare(handles_[2], handles_[3]);
  for (const char* lie : {"capacity_changes", "type_changes"}) {
    AddRule(
        absl::StrCat(R"({"method":"GetMetadataDelta","after_messages":1,"lie":")", lie, R"("})"));
    ExpectError(Ask("", 256), DifferentialErrorCode::kDriverContractViolation,
                "the list changes from a volume of");
    faults_.Clear();
  }
}

TEST_F(MetadataBridgeTest, BlocksThatTouchAreOne) {
  WriteTo(volume_, 0, std::string(int64_t{1} << 20, 'x'));
  handles_.push_back(store_->CreateSnapshot("s3", volume_)->id);
  Compare(handles_[2], handles_[3]);
  EXPECT_EQ(ReadAll(10).front().extent, (Extent{0, int64_t{1} << 20}));
}

TEST_F(MetadataBridgeTest, ParametersAndForeignPlacesAreRefused) {
  DriverRequest request = Request();
  request.parameters = {{"quality", "good"}};
  EXPECT_THAT(driver_->GetPage({}, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"quality\"")));
  request = Request();
  request.driver_token = "page/7";
  EXPECT_THAT(driver_->GetPage({}, request), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(MetadataBridgeTest, AListWithoutAMessageIsAskedForAgainAndThenNoAnswer) {
  Compare(handles_[0], handles_[2]);
  AddRule(R"({"method":"GetMetadataDelta","lie":"end","times":1})");
  const DifferentialPage page = Page("", 10);
  EXPECT_FALSE(page.blocks.empty());
  AddRule(R"({"method":"GetMetadataDelta","lie":"end"})");
  EXPECT_TRUE(IsContractViolation(driver_->GetPage({}, Request()).status()));
}

// Finding out what a driver is.
class MakeDriverTest : public CsiDriversFixture {
 protected:
  absl::StatusOr<CsiDriver> Make(DriverService service = DriverService::kBest) {
    driver_options_.service = service;
    return MakeDifferentialDriver({}, Address(), driver_options_);
  }

  // Waits for one connection to the driver's socket, and closes it without an answer.
  void RefuseOneConnection() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = Address().substr(sizeof("unix://") - 1);
    ASSERT_LT(path.size(), sizeof(address.sun_path));
    path.copy(address.sun_path, path.size());
    ::unlink(path.c_str());
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    pollfd called{.fd = listener.get(), .events = POLLIN, .revents = 0};
    support::Await("a connection to the driver's socket",
                   [&] { return ::poll(&called, 1, 0) == 1; });
    const UniqueFd caller(::accept(listener.get(), nullptr, nullptr));
    EXPECT_GE(caller.get(), 0);
    ::unlink(path.c_str());
  }
};

TEST_F(MakeDriverTest, TheBetterServiceThatIsAnnouncedIsTaken) {
  EXPECT_EQ(Make()->service, DriverService::kSnapshotMetadata);
  EXPECT_THAT(Make(DriverService::kDifferentialSnapshot),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("fixture.csi-delta.io does not announce "
                                 "DIFFERENTIAL_SNAPSHOT_SERVICE (0x44534E50) in")));
  options_.differential_snapshot = true;
  EXPECT_EQ(Make()->service, DriverService::kDifferentialSnapshot);
  EXPECT_EQ(Make(DriverService::kSnapshotMetadata)->service, DriverService::kSnapshotMetadata);
  options_.differential_snapshot = false;
  options_.snapshot_metadata = false;
  EXPECT_THAT(Make(), StatusIs(absl::StatusCode::kUnimplemented,
                               HasSubstr("DIFFERENTIAL_SNAPSHOT_SERVICE (0x44534E50) or "
                                         "SNAPSHOT_METADATA_SERVICE (4) in")));
}

TEST_F(MakeDriverTest, ASocketWithoutAServerIsReported) {
  StopServing();
  driver_options_.start_time_max = kShort;
  EXPECT_THAT(Make(), StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("is the folder of its socket mounted here?")));
  for (const char* address : {"", "csi.sock", "tcp://1.2.3.4:5", "unix://relative"}) {
    EXPECT_THAT(MakeDifferentialDriver({}, address, driver_options_),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no CSI address")))
        << address;
  }
}

TEST_F(MakeDriverTest, ASocketThatComesLateIsWaitedFor) {
  StopServing();
  absl::StatusOr<CsiDriver> made = absl::UnknownError("not asked yet");
  {
    const support::AwaitEnd end("a driver whose socket came late");
    std::jthread caller([&] { made = Make(); });
    RefuseOneConnection();
    Serve();
  }
  EXPECT_THAT(made, IsOk());
}

TEST_F(MakeDriverTest, ADriverThatIsNotReadyIsWaitedFor) {
  AddRule(R"({"method":"Probe","code":"UNAVAILABLE","message":"starting","times":2})");
  EXPECT_THAT(Make(), IsOk());
  AddRule(R"({"method":"Probe","code":"UNAVAILABLE","message":"starting"})");
  // On a busy machine connecting alone may take longer than a short time; then again, with a longer
  // one.
  absl::Status given_up;
  driver_options_.start_time_max = absl::Milliseconds(250);
  do {
    driver_options_.start_time_max *= 2;
    given_up = Make().status();
    ASSERT_THAT(given_up, StatusIs(absl::StatusCode::kUnavailable));
  } while (!absl::StrContains(given_up.message(), "not ready: starting") &&
           driver_options_.start_time_max < kLong);
  EXPECT_THAT(given_up, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not ready: starting")));
  faults_.Clear();
  AddRule(R"({"method":"Probe","code":"FAILED_PRECONDITION","message":"no license"})");
  driver_options_.start_time_max = kLong;
  EXPECT_THAT(Make(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no license")));
}

TEST_F(MakeDriverTest, WhoIsStoppedWhileWaitingEnds) {
  StopServing();
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx;
  ctx.stop = stop.get_token();
  EXPECT_THAT(MakeDifferentialDriver(ctx, Address(), driver_options_),
              StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace csidelta::diffsnap::csi_drivers_test
