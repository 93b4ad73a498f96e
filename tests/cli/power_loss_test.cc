#include <unistd.h>

#include <cerrno>

#include "tests/cli/sweep_fixture.h"
#include "tests/cli/system_calls.h"
#include "tests/support/durable_disk.h"

namespace csidelta::cli::power_loss_test {
namespace {

using support::DurableDisk;

// A repository in a directory, on a disk that keeps nothing that was not synced: the power fails
// after each sync that a verb makes, and the next process runs the same verb.
class PowerLossTest : public SweepFixture {
 protected:
  static constexpr std::size_t kSample = 3;

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    if (folder_of_store_.empty()) {
      return SweepFixture::OpenStore(location, settings);
    }
    return storage::OpenStore({.directory = folder_of_store_}, settings, Random::Real());
  }

  std::map<std::string, std::string> Objects() override {
    std::map<std::string, std::string> objects;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_of_store_)) {
      objects[std::filesystem::relative(entry.path(), folder_of_store_).string()] = "";
    }
    return objects;
  }

  // Goes on in a directory that holds `tree`.
  void MoveInto(const DurableDisk::Tree& tree) {
    if (!folder_of_store_.empty()) {
      std::filesystem::remove_all(folder_of_store_);
    }
    folder_of_store_ = Path(absl::StrCat("store-", ++folders_));
    std::filesystem::create_directory(folder_of_store_);
    support::WriteTree(tree, folder_of_store_);
  }

  // `again` are what the next process runs, one behind the other.
  void Sweep(const std::vector<std::string>& words,
             const std::vector<std::vector<std::string>>& again) {
    MoveInto(store_.objects());
    DurableDisk disk(folder_of_store_);
    {
      const SystemCallWatch watch(folder_of_store_, [&](const SystemCall& call) {
        if (absl::string_view(call.name) != "fsync") {
          return std::optional<int64_t>();
        }
        disk.NoteSync(call.fd);
        return std::optional<int64_t>(0);
      });
      last_ = MustRun(words);
    }
    // What was answered with OK is there, if the power fails in this moment.
    ASSERT_GT(disk.sync_count(), 5u);
    MoveInto(disk.After(disk.sync_count()));
    ExpectDone();
    const std::vector<int64_t> points =
        sample_.Below(static_cast<int64_t>(disk.sync_count()), kSample);
    for (const int64_t point : points) {
      SCOPED_TRACE(absl::StrCat("no power after sync ", point));
      MoveInto(disk.After(static_cast<std::size_t>(point)));
      const Process next = NextProcess(point);
      for (const std::vector<std::string>& each : again) {
        last_ = MustRun(each, next);
      }
      ExpectDone();
      ExpectGood(next);
      if (HasFailure()) {
        return;
      }
    }
    RecordProperty("points", static_cast<int>(points.size()));
  }

  // A backup to a disk with room for so many bytes.
  Outcome RunWithRoomFor(int64_t free_bytes) {
    const SystemCallWatch watch(folder_of_store_,
                                [&](const SystemCall& call) -> std::optional<int64_t> {
                                  if (absl::string_view(call.name) != "pwrite") {
                                    return std::nullopt;
                                  }
                                  if (free_bytes < static_cast<int64_t>(call.size_bytes)) {
                                    return -ENOSPC;
                                  }
                                  free_bytes -= static_cast<int64_t>(call.size_bytes);
                                  return std::nullopt;
                                });
    return Run(BackupArguments());
  }

  void ExpectDone() {
    MustRun({"check", "--read-data"});
    expect_done_();
  }

  std::string folder_of_store_;
  int folders_ = 0;
  Outcome last_;  // Of the verb that ended last. Not "latest": clocks go back.
  std::function<void()> expect_done_;
};

TEST_F(PowerLossTest, Backup) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  expect_done_ = [&] { ExpectRestores(GetString(last_.Result(), {"snapshot_id"}), image_, {}); };
  Sweep(BackupArguments(), {BackupArguments()});
}

TEST_F(PowerLossTest, ForgetAndPrune) {
  MakeGenerations();
  expect_done_ = [&] {
    ExpectRestores(kept_, kept_image_, {});
    const Json plan = MustRun({"prune", "--dry-run", "--max-unused", "0"}).Result();
    EXPECT_EQ(GetInt(plan, {"bytes_freed"}), 0);
  };
  Sweep({"forget", "--keep-last", "1", "--prune", "--max-unused", "0"},
        {{"forget", "--keep-last", "1"}, {"prune", "--max-unused", "0"}});
}

TEST_F(PowerLossTest, AFullDiskIsOneClearErrorAndLosesNothing) {
  MakeGenerations();
  WriteImage({1, 12, 23, 14, 5, 26});
  const std::map<std::string, std::string> base = store_.objects();
  // With less room than kRoomMin no backup fits, which one of the sample shows in any case.
  constexpr int64_t kRoomMin = 5;
  constexpr int64_t kRoomEnd = 12;
  std::vector<int64_t> points = sample_.Below(kRoomMin, 1);
  for (const int64_t more : sample_.Below(kRoomEnd - kRoomMin, kSample - 1)) {
    points.push_back(kRoomMin + more);
  }
  for (const int64_t point : points) {
    SCOPED_TRACE(absl::StrCat("room for ", point * 100'000));
    MoveInto(base);
    const Outcome outcome = RunWithRoomFor(point * 100'000);
    if (point < kRoomMin || outcome.code != ExitCode::kOk) {
      EXPECT_EQ(outcome.code, ExitCode::kFailed);
      EXPECT_THAT(outcome.error, testing::HasSubstr("No space left on device"));
      EXPECT_THAT(outcome.error, testing::HasSubstr("make room"));
    }
    for (const auto& [path, bytes] : Objects()) {
      EXPECT_THAT(path, testing::Not(testing::HasSubstr("-tmp-")));
      EXPECT_FALSE(path.starts_with("locks/")) << path;
    }
    MustRun(BackupArguments());
    ExpectGood({});
  }
  RecordProperty("points", static_cast<int>(points.size()));
}

}  // namespace
}  // namespace csidelta::cli::power_loss_test
