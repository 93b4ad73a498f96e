#include <numeric>

#include "tests/cli/sweep_fixture.h"

namespace csidelta::cli::crash_sweep_test {
namespace {

using support::CutMoment;
using support::StoreCall;
using support::StoreOperation;

// Processes that are killed: at each call that a verb makes to the store, before the call has its
// effect and after it. The next process runs the same verb.
class CrashSweepTest : public SweepFixture {
 protected:
  // Of the points of calls that change something, and of the others.
  static constexpr std::size_t kChangesSample = 3;
  static constexpr std::size_t kLooksSample = 1;

  // `again` is what the next process does, `expect_more` what must hold then.
  void Sweep(
      const std::vector<std::string>& words,
      const std::function<void(const Process&)>& expect_more = [](const Process&) {},
      std::function<void(const Process&)> again = nullptr) {
    if (again == nullptr) {
      again = [&](const Process& next) { RunAgain(words, next); };
    }
    const std::map<std::string, std::string> base = store_.objects();
    const std::map<std::string, std::string> variables = variables_;
    store_.Restart();
    MustRun(words);
    const std::vector<int64_t> points = ChoosePoints(store_.calls());
    ASSERT_FALSE(points.empty());
    for (const int64_t point : points) {
      const bool before = point % 2 == 0;
      const int64_t call = point / 2 + 1;
      SCOPED_TRACE(absl::StrCat("killed ", before ? "before" : "after", " call ", call));
      variables_ = variables;
      store_.SetObjects(base);
      store_.Restart();
      store_.CutAt(call, before ? CutMoment::kBefore : CutMoment::kAfter);
      Run(words);
      store_.Restart();
      ExpectSoundAsItLies();
      const Process next = NextProcess(call);
      again(next);
      if (!next.elsewhere) {
        EXPECT_EQ(CountBelow("locks/"), 0u);  // The dead one's went first of all.
      }
      expect_more(next);
      ExpectGood(next);
      if (HasFailure()) {
        return;
      }
    }
    RecordProperty("points", static_cast<int>(points.size()));
  }

  // Before anybody clears up: no index lists a pack that is not there, for a backup would build on
  // it.
  virtual void ExpectSoundAsItLies() {
    CallContext ctx;
    ctx.clock = &clock_;
    const auto repository = OpenRepository(ctx);
    ASSERT_TRUE(repository->LoadIndex(ctx).ok());
    for (uint32_t i = 0; i < repository->index().pack_count(); ++i) {
      const repository::PackId pack = repository->index().PackAt(i);
      EXPECT_TRUE(store_.objects().contains(repository::PackKey(pack))) << pack.Hex();
    }
  }

  // Two points for each call: before its effect, and after it.
  std::vector<int64_t> ChoosePoints(const std::vector<StoreCall>& calls) const {
    std::vector<int64_t> changes;
    std::vector<int64_t> looks;
    for (int64_t i = 0; i < std::ssize(calls); ++i) {
      const StoreOperation operation = calls[static_cast<std::size_t>(i)].operation;
      const bool is_change =
          operation == StoreOperation::kPut || operation == StoreOperation::kDelete;
      for (const int64_t point : {2 * i, 2 * i + 1}) {
        (is_change ? changes : looks).push_back(point);
      }
    }
    std::vector<int64_t> points = sample_.Of(std::move(changes), kChangesSample);
    for (const int64_t point : sample_.Of(std::move(looks), kLooksSample)) {
      points.push_back(point);
    }
    return points;
  }

  // Of which only the last is wanted, and packs that it shares with the others.
  void MakeThreeGenerations() {
    Backup();
    WriteImage({1, 12, 3, 14, 5, 6});
    Backup();
    KeepThis({1, 12, 23, 14, 5, 26});
  }

  void KeepThis(const std::vector<uint64_t>& seeds) {
    WriteImage(seeds);
    kept_ = Backup();
    kept_image_ = image_;
  }

  // Nothing lies there twice, and nothing that no index lists: what the dead one had stored was
  // made use of. On another machine its death cannot be known: what it had stored may be of a
  // run that lives, and goes with the next prune after its lock.
  void ExpectNothingWasted(const Process& process) {
    if (process.elsewhere) {
      MustRun({"prune", "--max-unused", "0"}, process);
    }
    const Json plan = MustRun({"prune", "--dry-run"}, process).Result();
    EXPECT_EQ(GetInt(plan, {"blobs_duplicate"}), 0);
    EXPECT_EQ(GetInt(plan, {"packs_unindexed"}), 0);
  }
};

TEST_F(CrashSweepTest, Backup) {
  KeepThis({1, 2, 3, 4, 5, 6});
  WriteImage({1, 12, 3, 14, 5, 6});
  Sweep(BackupByList(kept_, kChunkBytes, 3 * kChunkBytes),
        [&](const Process& next) { ExpectNothingWasted(next); });
}

TEST_F(CrashSweepTest, FirstBackup) {
  std::vector<uint64_t> seeds(26);
  std::iota(seeds.begin(), seeds.end(), 1);
  WriteImage(seeds);  // Two packs, of which one is there long before the other.
  Sweep(BackupArguments(), [&](const Process& next) { ExpectNothingWasted(next); });
}

TEST_F(CrashSweepTest, Forget) {
  MakeThreeGenerations();
  Sweep({"forget", "--keep-last", "1"},
        [&](const Process&) { EXPECT_EQ(CountBelow("snapshots/"), 1u); });
}

TEST_F(CrashSweepTest, Prune) {
  MakeThreeGenerations();
  MustRun({"forget", "--keep-last", "1"});
  Sweep({"prune", "--max-unused", "0"}, [&](const Process& next) {
    const Json plan = MustRun({"prune", "--dry-run"}, next).Result();
    EXPECT_EQ(GetInt(plan, {"bytes_unused"}), 0);
    EXPECT_EQ(GetInt(plan, {"bytes_unindexed"}), 0);
  });
}

TEST_F(CrashSweepTest, Copy) {
  MakeThreeGenerations();
  MakeSourceOfCopy();
  Sweep({"copy"}, [&](const Process& next) {
    EXPECT_EQ(CountBelow("snapshots/"), 3u);
    ExpectRestores("latest", image_, next);
    ExpectNothingWasted(next);
  });
}

TEST_F(CrashSweepTest, RepairIndex) {
  MakeThreeGenerations();
  RemoveOneIndexFile();
  Sweep({"repair", "index"});
}

TEST_F(CrashSweepTest, RepairPacks) {
  KeepThis({1, 2, 3, 4, 5, 6});
  const std::vector<std::string> words = {"repair", "packs", DamagePacks(kChunkBytes), "--from",
                                          Path("image")};
  Sweep(
      words, [](const Process&) {},
      [&](const Process& next) {
        const Outcome again = Run(words, next);
        EXPECT_TRUE(again.code == ExitCode::kOk ||
                    again.error.find("is in no index") != std::string::npos)
            << again.error;
      });
}

class KeyCrashSweepTest : public CrashSweepTest {
 protected:
  KeyCrashSweepTest() {
    KeepThis({1, 2, 3, 4, 5, 6});
    WriteFile("new", "new secret");
  }

  // Without a key it cannot be opened any more.
  void ExpectSoundAsItLies() override { EXPECT_GT(CountBelow("keys/"), 0u); }
};

TEST_F(KeyCrashSweepTest, Add) {
  Sweep({"key", "add", "--new-password-file", Path("new")}, [&](const Process& next) {
    EXPECT_EQ(OpenWith(kPassword, next), ExitCode::kOk);
    EXPECT_EQ(OpenWith("new secret", next), ExitCode::kOk);
  });
}

TEST_F(KeyCrashSweepTest, Remove) {
  const Json added = MustRun({"key", "add", "--new-password-file", Path("new")}).Result();
  const std::vector<std::string> words = {"key", "remove", GetString(added, {"id"})};
  Sweep(
      words,
      [&](const Process& next) {
        EXPECT_EQ(OpenWith(kPassword, next), ExitCode::kOk);
        EXPECT_EQ(OpenWith("new secret", next), ExitCode::kWrongPassword);
      },
      [&](const Process& next) {
        const Outcome again = Run(words, next);
        EXPECT_TRUE(again.code == ExitCode::kOk ||
                    again.error.find("no key begins with") != std::string::npos)
            << again.error;
      });
}

TEST_F(KeyCrashSweepTest, Passwd) {
  const std::vector<std::string> words = {"key", "passwd", "--new-password-file", Path("new")};
  Sweep(
      words,
      [&](const Process& next) {
        EXPECT_EQ(OpenWith(kPassword, next), ExitCode::kWrongPassword);
        EXPECT_EQ(OpenWith("new secret", next), ExitCode::kOk);
      },
      [&](const Process& next) {
        // The user that changed it knows both.
        if (Run(words, next).code == ExitCode::kWrongPassword) {
          variables_["RESTIC_PASSWORD"] = "new secret";
          MustRun({"snapshots"}, next);
        }
        variables_["RESTIC_PASSWORD"] = "new secret";
      });
}

TEST_F(CrashSweepTest, ABackupBuildsOnTheLastOneWhateverTheClocksSay) {
  Backup();
  const std::string second = Backup({.clock_off_by = -absl::Hours(24)});
  const Outcome third = MustRun(BackupArguments());
  EXPECT_EQ(GetString(third.Result(), {"base"}), second);
}

// Elsewhere its death cannot be proven, and what no index lists could be of a run that lives.
TEST_F(CrashSweepTest, DataOfADeadRunIsUsedIfItsDeathIsProven) {
  KeepThis({1, 2, 3, 4, 5, 6});
  WriteImage({11, 12, 13, 14, 15, 16});
  const std::map<std::string, std::string> base = store_.objects();
  store_.Restart();
  MustRun(BackupArguments());
  const std::vector<StoreCall> calls = store_.calls();
  const auto index = std::find_if(calls.begin(), calls.end(), [](const StoreCall& call) {
    return call.operation == StoreOperation::kPut && call.key.starts_with("index/");
  });
  ASSERT_NE(index, calls.end());
  for (const bool elsewhere : {false, true}) {
    store_.SetObjects(base);
    store_.Restart();
    store_.CutAt(index - calls.begin() + 1, CutMoment::kBefore);
    Run(BackupArguments());
    store_.Restart();
    const Process next = {.elsewhere = elsewhere};
    const Json result = MustRun(BackupArguments(), next).Result();
    EXPECT_EQ(GetInt(result, {"new_bytes"}) < static_cast<int64_t>(kChunkBytes), !elsewhere);
    ExpectNothingWasted(next);
    ExpectGood(next);
  }
}

}  // namespace
}  // namespace csidelta::cli::crash_sweep_test
