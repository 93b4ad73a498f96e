#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "repository/repository.h"
#include "storage/metered_object_store.h"
#include "storage/retrying_object_store.h"
#include "tests/cli/program_runner.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::cli {

// Time for programs that run one after the other: what waits for a while is through at once, what
// waits longer than any retry, as the refreshing of a lock does, waits until it is stopped. The
// time of day can be set.
class SweepClock : public Clock {
 public:
  static constexpr absl::Duration kNapMax = absl::Minutes(1);
  static constexpr absl::Duration kStride = absl::Seconds(5);

  absl::Time Now() const override {
    std::scoped_lock lock(mutex_);
    return absl::UnixEpoch() + uptime_ + set_by_;
  }
  absl::Duration Uptime() const override {
    std::scoped_lock lock(mutex_);
    ++looks_;
    const absl::Duration stride = std::min(flight_, kStride);
    uptime_ += stride;
    flight_ -= stride;
    return uptime_;
  }
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    return SleepFor(wake_at - Now(), std::move(stop));
  }
  bool SleepFor(absl::Duration duration, std::stop_token stop) const override {
    std::unique_lock lock(mutex_);
    if (duration > kNapMax) {
      stopped_.wait(lock, stop, [] { return false; });
      return false;
    }
    uptime_ += std::max(duration, absl::ZeroDuration());
    return !stop.stop_requested();
  }
  // So much passes during the next looks at the time, for those that wait without effect.
  void Fly(absl::Duration flight) {
    std::scoped_lock lock(mutex_);
    flight_ = flight;
  }
  int64_t looks() const {
    std::scoped_lock lock(mutex_);
    return looks_;
  }
  // So much passes at once, by either clock: a process that was stopped, a machine that slept.
  void Pass(absl::Duration uptime, absl::Duration time_of_day) {
    std::scoped_lock lock(mutex_);
    uptime_ += uptime;
    set_by_ += time_of_day - uptime;
  }
  // How far the time of day is off.
  void SetTimeOfDay(absl::Duration off_by) {
    std::scoped_lock lock(mutex_);
    set_by_ = absl::Hours(400'000) + off_by;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable_any stopped_;
  mutable absl::Duration uptime_ = absl::Hours(1);
  mutable absl::Duration flight_ = absl::ZeroDuration();
  mutable int64_t looks_ = 0;
  absl::Duration set_by_ = absl::Hours(400'000);
};

// A store of another client's, with the retries and counts that every store has.
class RetriedStore : public storage::OpenedStore {
 public:
  explicit RetriedStore(storage::ObjectStore& place)
      : metered_(place, meter_), retrying_(metered_, {}, Random::Real(), meter_) {}

  storage::ObjectStore& store() override { return retrying_; }
  const storage::StoreMeter& meter() const override { return meter_; }

 private:
  storage::StoreMeter meter_;
  storage::MeteredObjectStore metered_;
  storage::RetryingObjectStore retrying_;
};

// One start of the program.
struct SweepProcess {
  bool elsewhere = false;  // not on the machine of the first
  absl::Duration clock_off_by = absl::ZeroDuration();
  SweepClock* clock = nullptr;  // null: that of the fixture
};

// A repository with some history and the image file of its volume, on which the program runs as
// one process after the other. What is swept are points: all of them, or the sample of the day.
class SweepFixture : public testing::Test {
 protected:
  static constexpr std::size_t kChunkBytes = 256 << 10;
  static constexpr char kPassword[] = "secret";
  static constexpr char kAssumeEnded[] = "--assume-ended";

  using Process = SweepProcess;

  SweepFixture() {
    variables_ = {{"RESTIC_PASSWORD", kPassword}, {"RESTIC_REPOSITORY", "/main"}};
    program_.open_store = [this](const storage::Location& location,
                                 const storage::StoreSettings& settings,
                                 Random&) { return OpenStore(location, settings); };
    // Making one takes longer than most of what is done to it.
    static const std::map<std::string, std::string> made = [this] {
      MakeRepository(store_);
      return store_.objects();
    }();
    store_.SetObjects(made);
    WriteImage({1, 2, 3, 4, 5, 6});
  }

  void MakeRepository(support::FakeObjectStore& store) {
    CallContext ctx;
    ctx.clock = &clock_;
    repository::Environment environment;
    environment.scrypt = support::kCheapScrypt;
    const auto made = repository::Repository::Init(ctx, store, kPassword, environment);
    ASSERT_TRUE(made.ok()) << made.status();
  }

  std::string Path(const std::string& name) const { return program_.Path(name); }
  void WriteFile(const std::string& name, absl::string_view bytes) const {
    program_.Write(name, bytes);
  }
  std::string ReadFile(const std::string& name) const { return program_.Read(name); }

  // An image of one chunk for each seed, and a short one.
  void WriteImage(const std::vector<uint64_t>& seeds) {
    image_.clear();
    for (const uint64_t seed : seeds) {
      image_ += support::Noise(kChunkBytes, seed);
    }
    image_ += support::Noise(1000, 99);
    WriteFile("image", image_);
  }

  virtual absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& /*settings*/) {
    return std::make_unique<RetriedStore>(location.directory == "/source" ? source_ : store_);
  }

  Outcome Run(std::vector<std::string> words, const Process& process = {}) {
    const int64_t pid = ++last_pid_;
    SweepClock& clock = process.clock == nullptr ? clock_ : *process.clock;
    clock.SetTimeOfDay(process.clock_off_by);
    program_.other_clock = &clock;
    program_.liveness_probes = [&] {
      repository::LivenessProbes liveness_probes;
      liveness_probes.self = {.boot_id = process.elsewhere ? "b2" : "b1",
                              .pid_namespace = 1,
                              .pid = pid,
                              .start_ticks = static_cast<uint64_t>(pid)};
      liveness_probes.start_ticks_of = [pid](int64_t other) -> std::optional<uint64_t> {
        return other == pid ? static_cast<uint64_t>(pid) : 0;
      };
      return liveness_probes;
    };
    words.insert(words.begin(), "--json");
    return program_.Run(words);
  }

  Outcome MustRun(const std::vector<std::string>& words, const Process& process = {}) {
    Outcome outcome = Run(words, process);
    EXPECT_EQ(outcome.code, ExitCode::kOk)
        << absl::StrJoin(words, " ") << ": " << outcome.error << outcome.out;
    return outcome;
  }

  // Does a verb once more, after a run of it that came to grief. A repair may want to be told that
  // that one has ended. Where that one had made its
  // increment, the list is of changes since another backup by now: refused, and all is read.
  Outcome RunAgain(const std::vector<std::string>& words, const Process& process = {}) {
    const bool has_list = std::find(words.begin(), words.end(), "--extents") != words.end();
    Outcome outcome = Run(words, process);
    if (absl::StrContains(outcome.error, kAssumeEnded)) {
      std::vector<std::string> again = words;
      again.emplace_back(kAssumeEnded);
      return MustRun(again, process);
    }
    if (has_list && outcome.code == ExitCode::kAuditMismatch) {
      EXPECT_EQ(GetString(outcome.Result(), {"reason"}), "list-base-mismatch");
      return outcome;
    }
    EXPECT_EQ(outcome.code, ExitCode::kOk)
        << absl::StrJoin(words, " ") << ": " << outcome.error << outcome.out;
    return outcome;
  }

  // The objects become the source of a copy, and the repository of the image is new.
  void MakeSourceOfCopy() {
    source_.SetObjects(store_.objects());
    store_.SetObjects({});
    MakeRepository(store_);
    kept_.clear();  // The copy has another id.
    variables_["RESTIC_FROM_REPOSITORY"] = "/source";
  }

  // Two generations, of which the second is the one to keep.
  void MakeGenerations() {
    Backup();
    WriteImage({1, 12, 3, 14, 5, 6});
    kept_ = Backup();
    kept_image_ = image_;
  }

  std::size_t CountBelow(const std::string& prefix) const {
    std::size_t count = 0;
    for (const auto& [key, bytes] : store_.objects()) {
      count += key.starts_with(prefix) ? 1 : 0;
    }
    return count;
  }

  std::unique_ptr<repository::Repository> OpenRepository(const CallContext& ctx) {
    auto opened = repository::Repository::Open(ctx, store_, kPassword, {});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }

  // As a store does whose policy excepts a prefix.
  void RefuseDeletions(const std::string& prefix = "") {
    store_.AddFault({.operation = support::StoreOperation::kDelete,
                     .key_prefix = prefix,
                     .last_call = 1'000'000,
                     .status = absl::PermissionDeniedError("AccessDenied")});
  }

  void RemoveOneIndexFile() {
    const std::map<std::string, std::string> objects = store_.objects();
    store_.RemoveObject(objects.lower_bound("index/")->first);
  }

  // Flips a bit in each pack of more than `bytes_min`. Returns the name of the last one.
  std::string DamagePacks(std::size_t bytes_min) {
    std::string damaged;
    for (auto [key, bytes] : store_.objects()) {
      if (key.starts_with("data/") && bytes.size() > bytes_min) {
        bytes[kChunkBytes] = static_cast<char>(bytes[kChunkBytes] ^ 1);
        store_.SetObject(key, bytes);
        damaged = key.substr(key.rfind('/') + 1);
      }
    }
    return damaged;
  }

  // A backup by a list of one extent that has changed since snapshot `base`.
  std::vector<std::string> BackupByList(const std::string& base, std::size_t offset_bytes,
                                        std::size_t length_bytes) const {
    WriteFile("list", absl::StrCat("{\"base\":\"", base, "\"}\n{\"offset\":", offset_bytes,
                                   ",\"length\":", length_bytes, "}\n{\"end\":true}\n"));
    std::vector<std::string> arguments = BackupArguments();
    arguments.insert(arguments.end(), {"--extents", Path("list")});
    return arguments;
  }

  ExitCode OpenWith(const std::string& password, const Process& process = {}) {
    const std::string before = std::exchange(variables_["RESTIC_PASSWORD"], password);
    const ExitCode code = Run({"snapshots"}, process).code;
    variables_["RESTIC_PASSWORD"] = before;
    return code;
  }

  // Backs the image up and returns the snapshot's id. The sweep's packs hold twelve chunks.
  std::string Backup(const Process& process = {}) {
    const Outcome outcome = MustRun(BackupArguments(), process);
    return GetString(outcome.Result(), {"snapshot_id"});
  }
  std::vector<std::string> BackupArguments() const {
    return {"backup", "--chunk-size", "256KiB",  "--pack-size",
            "4",      "--path",       "/volume", Path("image")};
  }

  void ExpectRestores(const std::string& id, const std::string& image, const Process& process) {
    WriteFile("target", std::string(image.size(), '\xa5'));
    MustRun({"restore", id, "--target", Path("target")}, process);
    EXPECT_TRUE(ReadFile("target") == image) << id;
  }

  // What must hold after anything that happened, without a human: a backup is made and comes back
  // as it was, as does the one that is kept; every byte proves itself; no lock is left.
  void ExpectGood(const Process& process) {
    ExpectRestores(Backup(process), image_, process);
    if (!kept_.empty()) {
      ExpectRestores(kept_, kept_image_, process);
    }
    MustRun({"check", "--read-data"}, process);
    for (const auto& [key, bytes] : Objects()) {
      EXPECT_FALSE(key.starts_with("locks/")) << key;
    }
  }

  virtual std::map<std::string, std::string> Objects() { return store_.objects(); }

  // The process after the one that came to grief: every second one on another machine, and their
  // clocks right, a day ahead, a day behind.
  static Process NextProcess(int64_t point) {
    return {.elsewhere = point % 2 == 1, .clock_off_by = absl::Hours(24) * (point / 2 % 3 - 1)};
  }

  const support::SweepSample sample_;
  SweepClock clock_;
  ProgramRunner program_{testing::TempDir()};
  std::map<std::string, std::string>& variables_ = program_.variables;
  support::FakeObjectStore store_;
  support::FakeObjectStore source_;  // of copies
  std::string image_;
  std::string kept_;  // a snapshot that nothing may take away
  std::string kept_image_;

 private:
  int64_t last_pid_ = 0;
};

}  // namespace csidelta::cli
