#include <cerrno>
#include <set>

#include "tests/cli/sweep_fixture.h"
#include "tests/cli/system_calls.h"
#include "tests/support/durable_disk.h"

namespace csidelta::cli::call_sweep_test {
namespace {

// What one call to the system answers instead of doing anything, once.
struct WrongAnswer {
  const char* name;
  int error = 0;          // errno; 0: see below
  bool is_short = false;  // half of the bytes of a read or write are moved
  bool is_end = false;    // a read finds the end of the file
};

// A call that fails says nothing of what is there. Not ENOENT: that is an answer, and believed.
constexpr WrongAnswer kWrongAnswers[] = {
    {.name = "EIO", .error = EIO},          {.name = "EACCES", .error = EACCES},
    {.name = "ESTALE", .error = ESTALE},    {.name = "ETIMEDOUT", .error = ETIMEDOUT},
    {.name = "ENOSPC", .error = ENOSPC},    {.name = "EDQUOT", .error = EDQUOT},
    {.name = "EMFILE", .error = EMFILE},    {.name = "ENOMEM", .error = ENOMEM},
    {.name = "EROFS", .error = EROFS},      {.name = "ELOOP", .error = ELOOP},
    {.name = "ENOTDIR", .error = ENOTDIR},  {.name = "EINTR", .error = EINTR},
    {.name = "EINVAL", .error = EINVAL},    {.name = "half of it", .is_short = true},
    {.name = "end of file", .is_end = true}};

// A repository in a directory, one of whose calls to the system fails: each call of a verb, with
// each error. The program then does its work, or ends with an error; nothing that was ever saved
// is lost, and the same verb succeeds when it is run again.
class EmptyCallSweepTest : public SweepFixture {
 protected:
  static constexpr std::size_t kSample = 6;

  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    if (place_.empty() || location.directory == "/source") {
      return SweepFixture::OpenStore(location, settings);
    }
    return storage::OpenStore({.directory = place_}, settings, Random::Real());
  }

  void MustSave() {
    last_saved_ = Backup();
    saved_[last_saved_] = image_;
  }

  // Begins again in a directory that holds these objects.
  void MoveInto(const std::map<std::string, std::string>& objects) {
    if (!place_.empty()) {
      std::filesystem::remove_all(place_);
    }
    place_ = absl::StrCat(memory_.path(), "/", ++places_);
    std::filesystem::create_directory(place_);
    support::WriteTree(objects, place_);
  }

  // Of calls that some answers cannot be given to, nothing is made.
  static bool MayBe(const WrongAnswer& answer, absl::string_view call) {
    const bool moves = call == "pread" || call == "pwrite";
    return answer.is_short ? moves : answer.is_end ? call == "pread" : true;
  }

  // Runs the verb with one call answered wrongly, the one after `point` others. The call's name; ""
  // where none existed, or it could not be answered so.
  std::string RunWrongly(const std::vector<std::string>& words, const WrongAnswer& answer,
                         int64_t point, Outcome& outcome) {
    std::string met;
    int64_t left = point;
    const SystemCallWatch watch(place_, [&](const SystemCall& call) -> std::optional<int64_t> {
      if (left-- != 0 || !MayBe(answer, call.name)) {
        return std::nullopt;
      }
      met = call.name;
      return answer.is_short ? static_cast<int64_t>((call.size_bytes + 1) / 2)
                             : -int64_t{answer.error};
    });
    outcome = Run(words);
    return met;
  }

  int64_t CountCalls(const std::vector<std::string>& words) {
    int64_t calls = 0;
    const SystemCallWatch watch(place_, [&](const SystemCall&) {
      ++calls;
      return std::optional<int64_t>();
    });
    MustRun(words);
    return calls;
  }

  // `again` is what the user does then.
  void Sweep(const std::vector<std::string>& words, std::function<void()> again = nullptr,
             std::size_t sample = kSample) {
    const std::map<std::string, std::string> base = store_.objects();
    const auto saved = saved_;
    MoveInto(base);
    const int64_t calls = CountCalls(words);
    ASSERT_GT(calls, 10);
    const auto points = sample_.Below(std::ssize(kWrongAnswers) * calls, sample);
    std::set<const WrongAnswer*> met;
    int count = 0;
    for (const int64_t point : points) {
      const WrongAnswer& answer = kWrongAnswers[static_cast<std::size_t>(point / calls)];
      MoveInto(base);
      saved_ = saved;
      Outcome outcome;
      const std::string call = RunWrongly(words, answer, point % calls, outcome);
      if (call.empty()) {
        continue;
      }
      met.insert(&answer);
      ++count;
      SCOPED_TRACE(absl::StrCat(answer.name, " at call ", point % calls + 1, " of ", words[0], ", ",
                                call, "; exit code ", static_cast<int>(outcome.code), ": ",
                                outcome.error));
      Note(words, outcome);
      ExpectKept();
      if (again != nullptr) {
        again();
      } else {
        Note(words, RunAgain(words));
      }
      ExpectKept();
      MustRun({"check", "--read-data"});
      if (HasFailure()) {
        return;
      }
    }
    EXPECT_TRUE(!sample_.is_everything() || met.size() == std::size(kWrongAnswers))
        << "only " << met.size() << " of the answers were met";
    RecordProperty("points", count);
  }

  // What a run said that it did has to be so.
  void Note(const std::vector<std::string>& words, const Outcome& outcome) {
    if (outcome.code != ExitCode::kOk && outcome.code != ExitCode::kAuditMismatch) {
      EXPECT_FALSE(outcome.error.empty() && outcome.out.empty());
    } else if (words[0] == "backup") {
      saved_[GetString(outcome.Result(), {"snapshot_id"})] = image_;
    } else if (words[0] == "restore") {
      EXPECT_TRUE(ReadFile("target") == saved_.at(words[1]));
    }
  }

  // All that was ever reported as saved is there, but for what the verb is to take away.
  void ExpectKept() {
    for (const auto& [id, image] : saved_) {
      ExpectRestores(id, image, {});
    }
  }

  std::map<std::string, std::string> saved_;  // by the snapshot's id
  std::string last_saved_;
  const support::ScratchFolder memory_{"/dev/shm"};
  std::string place_;  // "": the store of the fixture still
  int places_ = 0;
};

class CallSweepTest : public EmptyCallSweepTest {
 protected:
  CallSweepTest() {
    MustSave();
    WriteImage({1, 12, 3, 14, 5, 6});
    MustSave();
  }
};

TEST_F(EmptyCallSweepTest, Init) {
  store_.SetObjects({});
  Sweep({"init"}, [&] {
    Run({"init"});  // It may be there already.
    MustRun({"snapshots"});
  });
}

TEST_F(EmptyCallSweepTest, FirstBackup) { Sweep(BackupArguments()); }

TEST_F(CallSweepTest, Backup) {
  WriteImage({1, 12, 23, 14, 5, 26});
  Sweep(BackupArguments());
}

TEST_F(CallSweepTest, IncrementalBackup) {
  WriteImage({1, 12, 23, 14, 5, 6});
  Sweep(BackupByList(last_saved_, 2 * kChunkBytes, kChunkBytes));
}

TEST_F(CallSweepTest, Restore) {
  WriteFile("target", "");
  Sweep({"restore", saved_.begin()->first, "--target", Path("target")});
}

TEST_F(CallSweepTest, Forget) {
  std::erase_if(saved_, [&](const auto& one) { return one.second != image_; });
  Sweep({"forget", "--keep-last", "1"});
}

TEST_F(CallSweepTest, Prune) {
  std::erase_if(saved_, [&](const auto& one) { return one.second != image_; });
  MustRun({"forget", "--keep-last", "1"});
  Sweep({"prune", "--max-unused", "0"});
}

TEST_F(CallSweepTest, RepairIndex) { Sweep({"repair", "index"}); }

TEST_F(CallSweepTest, Check) { Sweep({"check", "--read-data"}); }

TEST_F(CallSweepTest, Copy) {
  saved_.clear();  // Copies have other ids.
  MakeSourceOfCopy();
  Sweep({"copy"}, [&] {
    MustRun({"copy"});
    ExpectRestores("latest", image_, {});
  });
}

}  // namespace
}  // namespace csidelta::cli::call_sweep_test
