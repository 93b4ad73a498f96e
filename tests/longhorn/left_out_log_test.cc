#include "longhorn/kinds_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/log.h"

namespace csidelta::longhorn::left_out_log_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class LeftOutLogTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([](LogLevel level, const std::string& line) {
      EXPECT_EQ(level, LogLevel::kInfo) << "a warning would count as one of the restore";
      lines().push_back(GetString(*ParseJson(line), {"@message"}));
    });
    lines().clear();
  }
  void TearDown() override { SetLogSink(nullptr); }

  static std::vector<std::string>& lines() {
    static std::vector<std::string> all;
    return all;
  }

  void Note(int times, const std::string& run = "r1", const std::string& resource = "a.io",
            const std::string& reason = "why") {
    for (int i = 0; i < times; ++i) {
      log_.Note(run, resource, absl::StrCat("ns/", i), reason);
    }
  }

  LeftOutLog log_;
};

TEST_F(LeftOutLogTest, SaysTheFirstWithItsReasonAndThenCounts) {
  Note(1);
  EXPECT_THAT(lines(), ElementsAre("a.io ns/0 is left out: why"));
  lines().clear();
  Note(998);
  EXPECT_THAT(lines(), ElementsAre("a.io: 10 are left out by now, for the same reason: why",
                                   "a.io: 100 are left out by now, for the same reason: why"));
  lines().clear();
  Note(1);
  EXPECT_THAT(lines(), ElementsAre("a.io: 1000 are left out by now, for the same reason: why"));
  lines().clear();
  Note(8999);
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(LeftOutLogTest, CountsEachResourceReasonAndRunOfItsOwn) {
  Note(9);
  Note(9, "r2");
  Note(9, "r1", "b.io");
  Note(9, "r1", "a.io", "other");
  EXPECT_THAT(lines(), SizeIs(4));
}

TEST_F(LeftOutLogTest, BeyondItsLimitTheCountsRestart) {
  const int max = static_cast<int>(LeftOutLog::kCountsMax);
  for (int i = 0; i < max; ++i) {
    Note(1, "r1", absl::StrCat("kind", i));
  }
  lines().clear();
  Note(1, "r1", "kind0");
  EXPECT_THAT(lines(), IsEmpty()) << "all of them are counted";
  Note(1, "r1", "one-more");
  Note(1, "r1", "kind0");
  EXPECT_THAT(lines(),
              ElementsAre("one-more ns/0 is left out: why", "kind0 ns/0 is left out: why"));
}

}  // namespace
}  // namespace csidelta::longhorn::left_out_log_test
