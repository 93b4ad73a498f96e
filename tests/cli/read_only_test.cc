// A location that takes no writes, in which a stranger left objects of the right names and of no
// sense: what reads goes on, and names what does not.

#include "storage/forwarding_object_store.h"
#include "tests/cli/sweep_fixture.h"

namespace csidelta::cli::read_only_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ReadOnlyTest : public SweepFixture {
 protected:
  absl::StatusOr<std::unique_ptr<storage::OpenedStore>> OpenStore(
      const storage::Location& location, const storage::StoreSettings& settings) override {
    if (!is_read_only_) {
      return SweepFixture::OpenStore(location, settings);
    }
    return std::make_unique<RetriedStore>(read_only_);
  }

  // Under its hash, which makes it sealed bytes that fail their MAC, or under another name.
  std::string AddJunk(const std::string& folder, uint64_t seed, bool has_its_name) {
    const std::string bytes = support::Noise(100, seed);
    const repository::Id name = repository::Id::Of(has_its_name ? bytes : bytes + "x");
    store_.SetObject(absl::StrCat(folder, name.Hex()), bytes);
    return name.Hex();
  }

  void AddJunkEverywhere() {
    for (const bool has_its_name : {true, false}) {
      for (const char* folder : {"keys/", "index/", "locks/", "aux/v1/", "aux/v1/trees/"}) {
        AddJunk(folder, 5, has_its_name);
      }
      junk_snapshots_.push_back(AddJunk("snapshots/", 5, has_its_name));
    }
    store_.SetObject("snapshots/no-id", "x");
    store_.SetObject("locks/no-id", "x");
    junk_index_ = AddJunk("index/", 6, true);
    junk_key_ = AddJunk("keys/", 6, true);
  }

  Outcome ReadOnly(std::vector<std::string> words, ExitCode code) {
    const std::map<std::string, std::string> before = store_.objects();
    is_read_only_ = true;
    const Outcome outcome = Run(words);
    is_read_only_ = false;
    EXPECT_EQ(outcome.code, code) << absl::StrJoin(words, " ") << ": " << outcome.error
                                  << outcome.out;
    EXPECT_TRUE(store_.objects() == before) << words.front();
    return outcome;
  }

  void ExpectRead(const std::string& id, ExitCode code, std::vector<std::string> flags) {
    WriteFile("target", std::string(image_.size(), '\xa5'));
    flags.insert(flags.end(), {"restore", id, "--target", Path("target")});
    ReadOnly(flags, code);
    EXPECT_TRUE(ReadFile("target") == image_);
  }

  storage::ReadOnlyObjectStore read_only_{store_};
  bool is_read_only_ = false;
  std::vector<std::string> junk_snapshots_;
  std::string junk_index_;
  std::string junk_key_;
};

TEST_F(ReadOnlyTest, VerbsReadAroundJunkAndNameIt) {
  const std::string id = Backup();
  AddJunkEverywhere();
  ExpectRead(id, ExitCode::kOk, {"--no-lock"});
  ExpectRead("latest", ExitCode::kIncomplete, {"--no-lock"});
  for (const char* verb : {"snapshots", "stats"}) {
    const Outcome listed = ReadOnly({"--no-lock", verb}, ExitCode::kIncomplete);
    EXPECT_THAT(listed.error, AllOf(HasSubstr(junk_snapshots_[0]), HasSubstr(junk_snapshots_[1])));
  }
  EXPECT_THAT(ReadOnly({"--no-lock", "snapshots"}, ExitCode::kIncomplete).out, HasSubstr(id));
  ReadOnly({"--no-lock", "ls", id}, ExitCode::kOk);
  EXPECT_THAT(ReadOnly({"--no-lock", "key", "list"}, ExitCode::kIncomplete).error,
              HasSubstr(junk_key_.substr(0, 8)));
  const Outcome checked = ReadOnly({"--no-lock", "check", "--read-data"}, ExitCode::kFailed);
  EXPECT_THAT(checked.out, AllOf(HasSubstr(junk_snapshots_[0].substr(0, 8)),
                                 HasSubstr(junk_index_.substr(0, 8))));
  EXPECT_THAT(checked.Result()["unrestorable"], testing::IsEmpty()) << checked.out;
}

// Without --no-lock: a lock that does not read counts for half an hour, and then no longer.
TEST_F(ReadOnlyTest, ALockThatDoesNotReadDelaysARestoreAndDoesNotEndIt) {
  const std::string id = Backup();
  AddJunkEverywhere();
  ExpectRead(id, ExitCode::kOk, {});
  ExpectRead("latest", ExitCode::kIncomplete, {});
  ReadOnly({"snapshots"}, ExitCode::kIncomplete);
}

}  // namespace
}  // namespace csidelta::cli::read_only_test
