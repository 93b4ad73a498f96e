#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace csidelta::log_test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(LogTest, LineIsHclogJson) {
  const Json line = *ParseJson(FormatLogLine(LogLevel::kWarn, "src/a.cc:7", "two\nlines",
                                             {{"namespace", "ns"}, {"n", "1"}}));
  EXPECT_EQ(GetString(line, {"@level"}), "warn");
  EXPECT_EQ(GetString(line, {"@message"}), "two\nlines");
  EXPECT_EQ(GetString(line, {"logSource"}), "src/a.cc:7");
  EXPECT_EQ(GetString(line, {"namespace"}), "ns");
  EXPECT_FALSE(line.contains("@timestamp"));
}

TEST(LogTest, LineFitsTheHostsBuffer) {
  const std::string huge(1 << 20, '\x01');
  const std::string line = FormatLogLine(LogLevel::kInfo, "a:1", huge, {{"a", huge}, {"b", huge}});
  EXPECT_LT(line.size(), 64u << 10);
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(LogTest, LongTextKeepsItsBeginning) {
  const std::string text = "begin" + std::string(1 << 16, 'x');
  const Json line = *ParseJson(FormatLogLine(LogLevel::kInfo, "a:1", text, {{"field", text}}));
  for (const char* key : {"@message", "field"}) {
    EXPECT_THAT(GetString(line, {key}), AllOf(StartsWith("beginxxx"), EndsWith("(65541 bytes)")));
  }
}

TEST(LogTest, ALineGoesToTheSinkOrElseToStderr) {
  static std::string line;
  line.clear();
  SetLogSink([](LogLevel level, const std::string& told) {
    line = (level == LogLevel::kError ? "error " : "other ") + told;
  });
  testing::internal::CaptureStderr();
  Log(LogLevel::kError, "/build/src/a.cc", 7, "told", {});
  SetLogSink(nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(line, AllOf(StartsWith("error {"), HasSubstr("\"told\""), HasSubstr("\"src/a.cc:7\""),
                          EndsWith("}")));
  testing::internal::CaptureStderr();
  Log(LogLevel::kError, "/build/src/a.cc", 7, "written", {});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("\"written\""), EndsWith("}\n")));
}

TEST(LogTest, KnowsLogrusLevels) {
  EXPECT_EQ(ParseLogLevel("warning"), LogLevel::kWarn);
  EXPECT_EQ(ParseLogLevel("PANIC"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("no such level"), LogLevel::kInfo);
}

}  // namespace
}  // namespace csidelta::log_test
