#include "tests/cli/sweep_fixture.h"

namespace csidelta::cli::chain_test {
namespace {

// A backup that is not told its parent finds it, and what that costs does not grow with the chain.
class ChainCostTest : public SweepFixture {
 protected:
  Json BackUpUnchanged(const std::string& base) {
    WriteFile("nothing", "{\"base\":\"" + base + "\"}\n{\"end\":true}\n");
    std::vector<std::string> words = BackupArguments();
    words.insert(words.end(), {"--extents", Path("nothing")});
    return MustRun(words).Result();
  }
};

TEST_F(ChainCostTest, TheFortiethCostsWhatTheFifthDoes) {
  std::string last = Backup();
  for (int generation = 2; generation <= 45; ++generation) {
    SCOPED_TRACE(generation);
    store_.Restart();
    const Json result = BackUpUnchanged(last);
    EXPECT_EQ(GetString(result, {"base"}), last);
    // From the first to the last, but for the audit, which has a row of its own.
    EXPECT_LE(store_.call_count() - GetInt(result, {"audit", "requests"}), 28);
    last = GetString(result, {"snapshot_id"});
  }
}

}  // namespace
}  // namespace csidelta::cli::chain_test
