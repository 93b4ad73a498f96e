#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/text.h"
#include "engine/backup.h"
#include "engine/restore.h"
#include "storage/forwarding_object_store.h"
#include "tests/support/await.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/lent_store.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::progress_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMib = int64_t{1} << 20;
constexpr int64_t kGib = int64_t{1} << 30;

struct LineCase {
  const char* name;
  ProgressInfo info;
  const char* want;
};
class ProgressLineTest : public testing::TestWithParam<LineCase> {};

TEST_P(ProgressLineTest, SaysTheStageInWords) {
  EXPECT_EQ(ProgressLine(GetParam().info), GetParam().want);
}

const LineCase kLines[] = {
    {"Opening", {.stage = "opening s3:https://h/b"}, "opening s3:https://h/b (0 s so far)"},
    {"AtMost",
     {.stage = "transfer",
      .now = {.done_bytes = kGib, .total_bytes = 8 * kGib, .is_at_most = true},
      .elapsed = absl::Milliseconds(2900)},
     "sending  12.5%  1.0 GiB of at most 8.0 GiB (2 s so far)"},
    {"RateAndTimeLeft",
     {.stage = "transfer",
      .now = {.done_bytes = kGib, .total_bytes = 8 * kGib},
      .elapsed = absl::Seconds(67),
      .pace = {.rate = 512.0 * kMib, .left = absl::Milliseconds(13'100)}},
     "sending  12.5%  1.0 GiB of 8.0 GiB, 512.0 MiB/s, 14 s left (1:07 so far)"},
    {"Sample",
     {.stage = "audit",
      .now = {.done_bytes = 22 * kMib,
              .total_bytes = 60 * kMib,
              .sampled_bytes = 40 * kMib,
              .to_sample_bytes = 55 * kMib}},
     "verifying a sample  40.0 MiB of 55.0 MiB, 38.0 MiB left to send (0 s so far)"},
    {"Uploads",
     {.stage = "uploads",
      .now = {.done_bytes = 22 * kMib, .total_bytes = 60 * kMib},
      .pace = {.rate = 7.6 * kMib}},
     "finishing uploads  38.0 MiB left, 7.6 MiB/s (0 s so far)"},
    {"Items",
     {.stage = "packs", .now = {.done_bytes = 3}, .bytes = false},
     "packs  3 (0 s so far)"},
    {"TheTotalFell",
     {.stage = "transfer",
      .now = {.done_bytes = 0, .total_bytes = kGib, .is_at_most = true},
      .total_max = 4 * kGib},
     "sending  75.0%  0 B of at most 1.0 GiB (0 s so far)"},
    {"MoreThanAll",
     {.stage = "trees", .now = {.done_bytes = 30, .total_bytes = 20}, .bytes = false},
     "trees  100.0%  30 of 20 (0 s so far)"}};
INSTANTIATE_TEST_SUITE_P(Table, ProgressLineTest, testing::ValuesIn(kLines),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ProgressTest, JsonHasTheNumbersOfTheLine) {
  const Json json =
      ProgressJson({.stage = "transfer",
                    .now = {.done_bytes = kGib, .total_bytes = 8 * kGib, .is_at_most = true},
                    .pace = {.rate = 512.0 * kMib, .left = absl::Milliseconds(13'100)}});
  EXPECT_EQ(GetString(json, {"message_type"}), "status");
  EXPECT_EQ(GetInt(json, {"bytes_done"}), kGib);
  EXPECT_EQ(GetInt(json, {"total_bytes"}), 8 * kGib);
  EXPECT_EQ(GetBool(json, {"is_at_most"}), true);
  EXPECT_EQ(GetInt(json, {"bytes_per_second"}), 512 * kMib);
  EXPECT_EQ(GetInt(json, {"seconds_remaining"}), 14);
  const Json items = ProgressJson({.stage = "packs", .now = {.done_bytes = 3}, .bytes = false});
  EXPECT_EQ(GetInt(items, {"items_done"}), 3);
  EXPECT_EQ(FindJson(items, {"seconds_remaining"}), nullptr);
  EXPECT_EQ(FindJson(items, {"is_at_most"}), nullptr);
}

TEST(WaitTest, ALineSaysStateTimeAndWhatWasReported) {
  const WaitInfo info{.subject = "PVC shop/copy",
                      .state = "Pending",
                      .waits_for = "Provisioning: soon",
                      .elapsed = absl::Milliseconds(12'900)};
  EXPECT_EQ(WaitLine(info), "PVC shop/copy  Pending  12 s  Provisioning: soon");
  const Json json = WaitJson(info);
  EXPECT_EQ(GetString(json, {"message_type"}), "status");
  EXPECT_EQ(GetString(json, {"subject"}), "PVC shop/copy");
  EXPECT_EQ(GetString(json, {"state"}), "Pending");
  EXPECT_EQ(GetInt(json, {"seconds_elapsed"}), 12);
  EXPECT_EQ(GetString(json, {"waits_for"}), "Provisioning: soon");
  EXPECT_EQ(WaitLine({.subject = "PVC a/b", .state = "Pending", .waits_for = "", .elapsed = {}}),
            "PVC a/b  Pending  0 s");
}

// A wrapped line would not be erased completely.
TEST(LineTest, ALineFitsTheTerminalAndIsCutBetweenCharacters) {
  constexpr std::size_t kEraseBytes = 4;
  for (const int columns : {1, 40, 79, 80, 200}) {
    for (int length = 0; length < 40; ++length) {
      std::string line(static_cast<std::size_t>(length), 'x');
      for (int i = 0; i < 40; ++i) {
        line += "\u00e4";
      }
      std::string shown;
      Console console([](absl::string_view) { return true; },
                      [&shown](absl::string_view bytes) {
                        return !shown.append(bytes.data(), bytes.size()).empty();
                      },
                      {.error_is_terminal = true, .error_columns = columns});
      console.ShowLine(line);
      shown.erase(0, kEraseBytes);
      const auto max = static_cast<std::size_t>(std::clamp(columns - 1, 3, 79));
      EXPECT_LE(shown.size(), max);
      EXPECT_GE(shown.size(), max - 1);
      EXPECT_TRUE(shown.ends_with("...")) << shown;
      EXPECT_EQ(Printable(shown), shown) << "no half of a character";
    }
  }
}

class ProgressMeterTest : public testing::Test {
 protected:
  Console Make(const ConsoleOptions& options) {
    const auto into = [](std::string& text) {
      return [&text](absl::string_view bytes) {
        text.append(bytes.data(), bytes.size());
        return true;
      };
    };
    return Console(into(out_), into(error_), options);
  }

  support::FakeClock clock_;
  std::string out_;
  std::string error_;
};

TEST_F(ProgressMeterTest, JsonHasOneLineASecond) {
  Console console = Make({.json = true, .error_is_terminal = true});
  ProgressMeter meter(console, clock_);
  for (int i = 0; i < 25; ++i) {
    meter.ReportBytes("transfer", i, 100);
    clock_.Advance(absl::Milliseconds(100));
  }
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 3);
  EXPECT_THAT(error_, IsEmpty());
}

// All of it was known: nothing is sent, and what may have to be sent becomes less.
TEST_F(ProgressMeterTest, ABackupThatSendsNothingGoesOn) {
  Console console = Make({.json = true});
  ProgressMeter meter(console, clock_);
  std::vector<double> percents;
  for (const int64_t total : {100, 60, 20, 0}) {
    out_.clear();
    meter.ReportTransfer({.stage = "transfer", .total_bytes = total, .is_at_most = total > 0});
    percents.push_back(ParseJsonObject(out_).value()["percent_done"].get<double>());
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_THAT(percents, testing::Pointwise(testing::DoubleEq(), {0.0, 0.4, 0.8, 1.0}));
}

TEST_F(ProgressMeterTest, WhatIsDoneFallsOnlyInAnotherStage) {
  Console console = Make({.json = true});
  ProgressMeter meter(console, clock_);
  const auto shown = [&](const char* stage, int64_t done, bool bytes) {
    out_.clear();
    meter.ReportCount(stage, done, 0, bytes);
    clock_.Advance(absl::Seconds(1));
    return GetInt(ParseJsonObject(out_).value(), {bytes ? "bytes_done" : "items_done"});
  };
  EXPECT_EQ(shown("trees", 30, false), 30);
  EXPECT_EQ(shown("trees", 29, false), 30) << "threads report in any order";
  EXPECT_EQ(shown("checking", 0, false), 0);
  EXPECT_EQ(shown("trees", 1, false), 1);
  EXPECT_EQ(shown("copying", 1 << 20, true), 1 << 20);
  EXPECT_THAT(out_, HasSubstr("\"bytes_per_second\":0")) << "trees are no bytes";
}

TEST_F(ProgressMeterTest, AWaitCountsFromItsFirstReport) {
  Console console = Make({.json = true});
  ProgressMeter meter(console, clock_);
  meter.ReportWait("PVC shop/a", "Pending", "");
  clock_.Advance(absl::Seconds(3));
  meter.ReportWait("PVC shop/a", "Pending", "Provisioning: \x1b[31msoon");
  clock_.Advance(absl::Seconds(3));
  meter.ReportWait("PVC shop/b", "Pending", "");
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 3);
  EXPECT_THAT(out_, HasSubstr("\"seconds_elapsed\":3"));
  EXPECT_EQ(out_.find("\"seconds_elapsed\":6"), std::string::npos) << "b has only begun";
  EXPECT_EQ(out_.find('\x1b'), std::string::npos);
}

TEST_F(ProgressMeterTest, EachStageHasARateOfItsOwn) {
  Console console = Make({.json = true});
  ProgressMeter meter(console, clock_);
  const auto report = [&](const char* stage, int64_t each) {
    for (int64_t i = 0; i <= 30; ++i) {
      meter.ReportBytes(stage, i * each, 1000);
      clock_.Advance(absl::Seconds(1));
    }
  };
  report("audit", 10);
  report("copy", 2);
  EXPECT_THAT(out_, HasSubstr("\"bytes_per_second\":10,"));
  const std::size_t last = out_.rfind("bytes_per_second");
  EXPECT_THAT(out_.substr(last), testing::StartsWith("bytes_per_second\":2,"));
}

TEST_F(ProgressMeterTest, ATerminalHasOneLineThatGoesAway) {
  Console console = Make({.error_is_terminal = true});
  {
    ProgressMeter meter(console, clock_);
    meter.ReportBytes("transfer", 1, 100);
    clock_.Advance(absl::Seconds(1));
    meter.ReportBytes("transfer", 2, 100);
  }
  EXPECT_THAT(error_, HasSubstr("sending  2.0%"));
  EXPECT_EQ(error_.find('\n'), std::string::npos);
  EXPECT_TRUE(error_.ends_with("\r\x1b[K"));
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(ProgressMeterTest, ProgressIsSilentUnlessRequested) {
  for (const ConsoleOptions& options :
       {ConsoleOptions{}, ConsoleOptions{.json = true, .quiet = true},
        ConsoleOptions{.quiet = true, .error_is_terminal = true}}) {
    Console console = Make(options);
    ProgressMeter meter(console, clock_);
    meter.ReportBytes("transfer", 1, 2);
    meter.ReportWait("PVC shop/a", "Pending", "");
    EXPECT_THAT(out_, IsEmpty());
    EXPECT_THAT(error_, IsEmpty());
  }
}

TEST_F(ProgressMeterTest, ATimerShowsWhatStandsStill) {
  Console console = Make({.json = true});
  ProgressMeter meter(console, clock_);
  meter.ReportBytes("transfer", 5, 100);
  for (int i = 0; i < 30; ++i) {
    clock_.Advance(absl::Milliseconds(100));
    meter.Tick();
  }
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 4);
  EXPECT_THAT(out_, HasSubstr("\"seconds_elapsed\":3"));
}

TEST_F(ProgressMeterTest, TheTimerSaysSoonWhatIsOpened) {
  Console console = Make({.json = true});
  {
    ProgressMeter meter(console, clock_, "opening s3:x/y");
    clock_.Advance(absl::Milliseconds(100));
    meter.Tick();
    EXPECT_THAT(out_, IsEmpty()) << "a verb that ends at once shows its result alone";
    clock_.Advance(absl::Milliseconds(200));
    meter.Tick();
    EXPECT_THAT(out_, HasSubstr("\"stage\":\"opening s3:x/y\""));
  }
  std::atomic<int> lines = 0;
  const auto count = [&](absl::string_view) { return ++lines > 0; };
  Console by_timer(count, count, {.json = true});
  const ProgressMeter meter(by_timer, clock_, "opening s3:x/y");
  clock_.Advance(absl::Milliseconds(300));
  support::Await("the timer", [&] { return lines > 0; });
}

TEST_F(ProgressMeterTest, NothingFollowsAResult) {
  for (const bool json : {false, true}) {
    Console console = Make({.json = json, .error_is_terminal = true});
    ProgressMeter meter(console, clock_);
    meter.ReportBytes("transfer", 5, 100);
    console.PrintResult({{"message_type", "result"}}, "done\n");
    const std::string before = out_ + error_;
    clock_.Advance(absl::Seconds(5));
    meter.Tick();
    EXPECT_EQ(out_ + error_, before);
  }
}

TEST_F(ProgressMeterTest, AQuestionIsNotWrittenOver) {
  Console console = Make({.error_is_terminal = true});
  ProgressMeter meter(console, clock_);
  meter.ReportBytes("transfer", 5, 100);
  {
    const std::shared_ptr<void> hold = console.HoldLines();
    const std::string before = error_;
    clock_.Advance(absl::Seconds(5));
    meter.Tick();
    EXPECT_EQ(error_, before);
  }
  clock_.Advance(absl::Seconds(1));
  meter.Tick();
  EXPECT_THAT(error_, HasSubstr("(6 s so far)"));
}

// Sleeps that are short are over at once; the others end when the line moves the clock.
class LineClock : public support::FakeClock {
 public:
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    return wake_at - Now() < absl::Milliseconds(500) ? !stop.stop_requested()
                                                     : FakeClock::SleepUntil(wake_at, stop);
  }
};

// A store behind a line that takes so many bytes a second, one call after the other. The clock
// moves only while bytes are on that line.
class SlowStore : public storage::ForwardingObjectStore {
 public:
  SlowStore(storage::ObjectStore& inner, LineClock& clock)
      : ForwardingObjectStore(inner), clock_(clock) {}

  std::atomic<int64_t> bytes_per_second = 2 * kMib;
  std::atomic<int64_t> stored_bytes = 0;  // of packs
  std::function<void()> on_second = [] {};

  // The run has been told that so much is stored: before that the line stands still.
  void Told(int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    told_bytes_ = bytes;
    changed_.notify_all();
  }

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    const bool is_pack = key.starts_with("data/");
    std::unique_lock lock(mutex_);
    if (is_pack) {
      support::AwaitOn(changed_, lock, "a report", [&] { return told_bytes_ >= stored_bytes; });
    }
    Send(std::ssize(bytes));
    stored_bytes += is_pack ? std::ssize(bytes) : 0;
    return inner().Put(ctx, key, bytes, options);
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    const std::scoped_lock lock(mutex_);
    Send(range.length_bytes);
    return inner().GetRange(ctx, key, range);
  }

 private:
  void Send(int64_t bytes) {
    for (due_bytes_ += bytes; due_bytes_ >= bytes_per_second; due_bytes_ -= bytes_per_second) {
      clock_.Advance(absl::Seconds(1));
      on_second();
    }
  }

  LineClock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t told_bytes_ = 0;
  int64_t due_bytes_ = 0;
};

// Verbs over a slow line, and the lines of JSON that they print.
class SlowLineTest : public testing::Test {
 protected:
  static constexpr int64_t kPackBytes = 4 * kMib;
  static constexpr int64_t kVolumeBytes = 64 * kMib;

  struct Line {
    absl::Duration at;
    int64_t stored_bytes = 0;  // as the store counts
    Json json;

    int64_t done() const { return GetInt(json, {"bytes_done"}); }
    int64_t total() const { return GetInt(json, {"total_bytes"}); }
  };

  SlowLineTest() {
    std::ofstream(Path("image"), std::ios::binary)
        << support::Noise(static_cast<std::size_t>(kVolumeBytes), 1);
    EXPECT_THAT(NewSession()->Init(ctx_), support::IsOk());
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  std::unique_ptr<engine::Session> NewSession() {
    return std::make_unique<engine::Session>(engine::SessionOptions{
        .place =
            [](const CallContext&, engine::LockKind) {
              return engine::RepositoryTarget{.location = {.directory = "/none"}, .settings = {}};
            },
        .keyring = [] { return std::optional<repository::Keyring>(); },
        .keyring_name = [] { return ""; },
        .password = [](const CallContext&, const std::string&, bool) { return Secret("secret"); },
        .program_version = "test",
        .host = "here",
        .scratch_folder = folder_.path(),
        .scrypt = support::kCheapScrypt,
        .open_store = [this](const storage::Location&, const storage::StoreSettings&,
                             Random&) -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
          return std::make_unique<support::LentStore>(store_);
        }});
  }

  // Runs `verb`, whose line becomes half as fast after `slower_after`.
  std::vector<Line> Run(
      const std::function<void(engine::Session& session, const engine::ByteProgress&)>& verb,
      absl::Duration slower_after = absl::InfiniteDuration()) {
    std::vector<Line> lines;
    const absl::Duration began = clock_.Uptime();
    const auto take = [&](absl::string_view text) {
      lines.push_back({clock_.Uptime() - began, store_.stored_bytes, *ParseJsonObject(text)});
      return true;
    };
    Console console(take, take, {.json = true});
    ProgressMeter meter(console, clock_, "opening the store");
    store_.on_second = [&] {
      meter.Tick();
      if (clock_.Uptime() - began == slower_after) {
        store_.bytes_per_second = store_.bytes_per_second / 2;
      }
    };
    verb(*NewSession(), [&](const incremental::TransferProgress& now) {
      last_ = now;
      meter.ReportTransfer(now);
      store_.Told(now.done_bytes);
    });
    took_ = clock_.Uptime() - began;
    return lines;
  }

  void ExpectALineInEachSecond(const std::vector<Line>& lines) const {
    absl::Duration before;
    for (const Line& line : lines) {
      EXPECT_LE(line.at - before, absl::Seconds(1));
      before = line.at;
    }
    EXPECT_LE(took_ - before, absl::Seconds(1));
  }

  const support::ScratchFolder folder_;
  LineClock clock_;
  CallContext ctx_{.stop = {}, .clock = &clock_};
  support::FakeObjectStore memory_;
  SlowStore store_{memory_, clock_};
  absl::Duration took_;
  incremental::TransferProgress last_;  // that was reported
};

TEST_F(SlowLineTest, ABackupSaysWhatTheStoreHasAndWhatIsLeft) {
  constexpr absl::Duration kSlowerAfter = absl::Seconds(12);
  const std::vector<Line> lines = Run(
      [&](engine::Session& session, const engine::ByteProgress& progress) {
        EXPECT_THAT(
            engine::RunBackup(ctx_, session,
                              {.device = Path("image"), .pack_bytes = kPackBytes, .path = "/v"},
                              progress),
            support::IsOk());
      },
      kSlowerAfter);
  ExpectALineInEachSecond(lines);
  int known = 0;
  int64_t total = 0;
  for (const Line& line : lines) {
    SCOPED_TRACE(DumpJson(line.json));
    EXPECT_LE(std::abs(line.done() - line.stored_bytes),
              std::max(kPackBytes, line.stored_bytes / 20));
    EXPECT_GE(line.total(), total - kPackBytes) << "all of it is new";
    total = line.total();
    if (const Json* left = FindJson(line.json, {"seconds_remaining"}); left != nullptr) {
      EXPECT_GE(line.at, absl::Seconds(10));
      const double truth = absl::ToDoubleSeconds(took_ - line.at);
      if (line.at >= kSlowerAfter + absl::Seconds(15)) {
        ++known;
        EXPECT_NEAR(left->get<double>(), truth, 0.3 * truth + 1);
      }
    }
  }
  EXPECT_GE(known, 20);
  EXPECT_TRUE(GetBool(lines[1].json, {"is_at_most"})) << "the volume is still read";
  EXPECT_FALSE(last_.is_at_most);
  EXPECT_EQ(last_.stage, "commit");
  EXPECT_EQ(last_.done_bytes, last_.total_bytes);
  EXPECT_NEAR(static_cast<double>(last_.done_bytes), kVolumeBytes, 0.01 * kVolumeBytes);
}

TEST_F(SlowLineTest, ARestoreSaysWhatIsWritten) {
  EXPECT_THAT(engine::RunBackup(
                  ctx_, *NewSession(), {.device = Path("image"), .path = "/v"},
                  [&](const incremental::TransferProgress& now) { store_.Told(now.done_bytes); }),
              support::IsOk());
  std::vector<int64_t> done;
  const std::vector<Line> lines =
      Run([&](engine::Session& session, const engine::ByteProgress& progress) {
        EXPECT_THAT(engine::RunRestore(
                        ctx_, session, {.snapshot = "latest", .target = Path("target")},
                        [](const engine::RestorePlan&) { return absl::OkStatus(); },
                        [&](const incremental::TransferProgress& now) {
                          done.push_back(now.done_bytes);
                          EXPECT_EQ(now.total_bytes, kVolumeBytes);
                          progress(now);
                        }),
                    support::IsOk());
      });
  ExpectALineInEachSecond(lines);
  EXPECT_GE(lines.size(), 30U);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_GE(std::set<int64_t>(done.begin(), done.end()).size(), 5U);
  EXPECT_EQ(done.back(), kVolumeBytes);
}

}  // namespace
}  // namespace csidelta::cli::progress_test
