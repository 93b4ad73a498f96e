// A process that is stopped for longer than its lock lives: a real process, stopped by a real
// signal, with a clock that runs so fast that half an hour is a second.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "storage/file_object_store.h"
#include "storage/forwarding_object_store.h"
#include "tests/reliability/client.h"
#include "tests/reliability/volume_model.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::reliability::frozen_process_test {
namespace {

using repository::Id;
using support::IsOk;
using support::SweepSample;

constexpr int64_t kTimesFaster = 1800;
constexpr char kVolume[] = "/shop/db";
constexpr int kAttemptsMax = 20;  // of backups: on a busy machine their locks run out, too

// The system's clock, and all that waits by it, so many times faster.
class FastClock : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixSeconds(1'700'000'000) + Uptime(); }
  absl::Duration Uptime() const override { return real_.Uptime() * kTimesFaster; }
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    return SleepFor(wake_at - Now(), std::move(stop));
  }
  bool SleepFor(absl::Duration duration, std::stop_token stop) const override {
    return real_.SleepFor(duration / kTimesFaster, std::move(stop));
  }

 private:
  const Clock& real_ = Clock::Real();
};

// Stops its process at the `last`-th deletion of a pack, before it has its effect; 0: never. Where
// several threads delete, the others are stopped with it.
class StoppingStore : public storage::ForwardingObjectStore {
 public:
  StoppingStore(storage::ObjectStore& inner, int64_t last)
      : ForwardingObjectStore(inner), last_(last) {}

  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    if (absl::StartsWith(key, "data/") && ++deletions_ == last_) {
      ::kill(::getpid(), SIGSTOP);
    }
    return inner().Delete(ctx, key);
  }

 private:
  const int64_t last_;
  std::atomic<int64_t> deletions_ = 0;
};

class FrozenProcessTest : public testing::Test {
 protected:
  FrozenProcessTest() {
    SetLogLevel(LogLevel::kError);
    const std::string memory = "/dev/shm";
    folder_.emplace(std::filesystem::exists(memory) ? memory : testing::TempDir());
  }

  std::string Path(int64_t number) const { return absl::StrCat(folder_->path(), "/", number); }

  ClientOptions Options(uint64_t seed) const {
    ClientOptions options;
    options.clock = &clock_;
    options.seed = seed;
    options.refresh_by_thread = true;
    return options;
  }

  // Backs `state` up, at the latest when a lock is out of date that is not refreshed.
  absl::StatusOr<Id> MustBackUp(storage::ObjectStore& store, const VolumeState& state) {
    absl::Status last;
    for (int i = 0; i < kAttemptsMax; ++i) {
      const std::string handle = absl::StrCat("handle-", ++runs_);
      KnownVolumes known = {{handle, state}};
      const auto result = Client(store, Options(100 + runs_))
                              .Backup(kVolume, state, known, handle, {.incremental = false});
      if (result.ok()) {
        return result->snapshot;
      }
      last = result.status();
    }
    return last;
  }

  // Two generations of a volume, of which the first is given up, so that a prune removes its packs.
  void MakeRepository(storage::ObjectStore& store) {
    CallContext ctx;
    ctx.clock = &clock_;
    for (const auto& [key, object] : Client::FreshRepository()) {
      ASSERT_THAT(store.Put(ctx, key, *object.bytes, {}), IsOk());
    }
    first_ = {.size_bytes = 40 * kModelChunkBytes};
    kept_state_ = first_;
    for (int64_t chunk = 0; chunk < 40; ++chunk) {
      first_.chunks[chunk] = static_cast<uint64_t>(chunk);
      kept_state_.chunks[chunk] = static_cast<uint64_t>(40 + chunk);
    }
    const auto first = MustBackUp(store, first_);
    ASSERT_THAT(first, IsOk());
    const auto kept = MustBackUp(store, kept_state_);
    ASSERT_THAT(kept, IsOk());
    kept_ = *kept;
    absl::Status forgotten = absl::UnknownError("not tried");
    for (int i = 0; i < kAttemptsMax && !forgotten.ok(); ++i) {
      forgotten = Client(store, Options(3)).Forget({*first});
    }
    ASSERT_THAT(forgotten, IsOk());
  }

  // A prune in a process of its own, which stops at a deletion. True when it did stop.
  bool StopPruneAt(const std::string& path, int64_t deletion, pid_t& child) const {
    child = ::fork();
    if (child == 0) {
      storage::FileObjectStore files(path, Random::Real());
      StoppingStore stopping(files, deletion);
      const absl::Status pruned = Client(stopping, Options(4)).Prune();
      ::_exit(pruned.ok() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
    return WIFSTOPPED(status);
  }

  FastClock clock_;
  std::optional<support::ScratchFolder> folder_;
  VolumeState first_;
  VolumeState kept_state_;
  Id kept_;
  uint64_t runs_ = 0;
};

TEST_F(FrozenProcessTest, APruneThatWasStoppedTakesNothingThatWasSavedMeanwhile) {
  const SweepSample sample;
  int stopped = 0;
  for (const int64_t deletion : sample.Below(4, 1)) {
    const std::string path = Path(deletion);
    storage::FileObjectStore store(path, Random::Real());
    ASSERT_NO_FATAL_FAILURE(MakeRepository(store));
    pid_t child = 0;
    if (!StopPruneAt(path, deletion % 2 + 1, child)) {
      continue;  // It ended before: its own lock ran out on a busy machine.
    }
    ++stopped;
    if (deletion >= 2) {  // What the index does not list any more is listed again.
      for (int i = 0; i < kAttemptsMax && !Client(store, Options(7)).RepairIndex().ok(); ++i) {
      }
    }
    // The data that the prune is about to delete.
    const auto saved = MustBackUp(store, first_);
    EXPECT_EQ(::kill(child, SIGCONT), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_THAT(saved, IsOk());
    EXPECT_THAT(Client(store, Options(5)).Restores(*saved, first_), IsOk());
    EXPECT_THAT(Client(store, Options(6)).Restores(kept_, kept_state_), IsOk());
  }
  EXPECT_GT(stopped, 0);
}

}  // namespace
}  // namespace csidelta::reliability::frozen_process_test
