#include "tests/support/csi_driver/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/support/status_matchers.h"

namespace csidelta::csi_driver::faults_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);

void AddRule(Faults& faults, const std::string& text) {
  absl::StatusOr<FaultRule> rule = ParseFaultRule(*ParseJson(text));
  ASSERT_THAT(rule, IsOk());
  faults.Add({*std::move(rule)});
}

Verdict Call(Faults& faults, const std::string& method, const std::string& request = "",
             const std::map<std::string, std::string>& secrets = {}) {
  Verdict verdict = faults.Enter({method, request, secrets}, [] { return false; });
  faults.Leave(method, verdict.before);
  return verdict;
}

// One letter per call: F for a failure.
std::string Pattern(Faults& faults, int calls) {
  std::string pattern;
  for (int i = 0; i < calls; ++i) {
    pattern += Call(faults, "CreateSnapshot").before.ok() ? '.' : 'F';
  }
  return pattern;
}

TEST(FaultsTest, ErrorHasCodeAndMessage) {
  Faults faults;
  AddRule(faults, R"({"method":"CreateSnapshot","code":"UNAVAILABLE","message":"tired"})");
  EXPECT_THAT(Call(faults, "CreateSnapshot").before,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("tired")));
  EXPECT_THAT(Call(faults, "DeleteSnapshot").before, IsOk());
}

TEST(FaultsTest, AnswerCanBeLost) {
  Faults faults;
  AddRule(faults, R"({"code":"UNAVAILABLE","after":true})");
  const Verdict verdict = Call(faults, "CreateSnapshot");
  EXPECT_THAT(verdict.before, IsOk());
  EXPECT_THAT(verdict.after, StatusIs(absl::StatusCode::kUnavailable));
}

struct PatternCase {
  const char* name;
  const char* rule;
  const char* want;
};
class FaultPatternTest : public testing::TestWithParam<PatternCase> {};

TEST_P(FaultPatternTest, HitsTheCallsItNames) {
  Faults faults;
  AddRule(faults, GetParam().rule);
  EXPECT_EQ(Pattern(faults, 8), GetParam().want);
}

const PatternCase kPatternCases[] = {
    {"Always", R"({"code":"INTERNAL"})", "FFFFFFFF"},
    {"Times", R"({"code":"INTERNAL","times":3})", "FFF....."},
    {"TimesZero", R"({"code":"INTERNAL","times":0})", "........"},
    {"Skip", R"({"code":"INTERNAL","skip":5})", ".....FFF"},
    {"Every", R"({"code":"INTERNAL","every":3})", "..F..F.."},
    {"SkipEveryTimes", R"({"code":"INTERNAL","skip":1,"every":2,"times":2})", "..F.F..."},
    {"Never", R"({"code":"INTERNAL","percent":0})", "........"},
    {"OtherMethod", R"({"method":"DeleteSnapshot","code":"INTERNAL"})", "........"},
};
INSTANTIATE_TEST_SUITE_P(Table, FaultPatternTest, testing::ValuesIn(kPatternCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(FaultsTest, SameSeedDecidesTheSame) {
  const auto pattern = [](int seed) {
    Faults faults;
    AddRule(faults, R"({"code":"INTERNAL","percent":50,"seed":)" + std::to_string(seed) + "}");
    return Pattern(faults, 64);
  };
  EXPECT_EQ(pattern(7), pattern(7));
  EXPECT_NE(pattern(7), pattern(8));
  EXPECT_THAT(pattern(7), testing::AllOf(HasSubstr("F"), HasSubstr(".")));
}

TEST(FaultsTest, MatchLooksIntoTheRequest) {
  Faults faults;
  AddRule(faults, R"({"match":"snap-1","code":"NOT_FOUND"})");
  EXPECT_THAT(Call(faults, "CreateVolume", "\x0a\x06snap-1").before,
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Call(faults, "CreateVolume", "\x0a\x06snap-2").before, IsOk());
}

TEST(FaultsTest, SecretsOpenTheDoor) {
  Faults faults;
  AddRule(faults, R"({"unless_secret":{"token":"right"},"code":"UNAUTHENTICATED"})");
  EXPECT_THAT(Call(faults, "DeleteSnapshot", "", {{"a", "b"}, {"token", "right"}}).before, IsOk());
  EXPECT_THAT(Call(faults, "DeleteSnapshot", "", {{"token", "wrong"}}).before,
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Call(faults, "DeleteSnapshot").before, StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST(FaultsTest, RulesAddUp) {
  Faults faults;
  AddRule(faults, R"({"lie":"not_ready"})");
  AddRule(faults, R"({"code":"ABORTED"})");
  AddRule(faults, R"({"code":"INTERNAL"})");
  const Verdict verdict = Call(faults, "CreateSnapshot");
  EXPECT_EQ(verdict.lies, std::set<Lie>{Lie::kNotReady});
  EXPECT_THAT(verdict.before, StatusIs(absl::StatusCode::kAborted));
}

TEST(FaultsTest, ARuleForAStreamSparesTheCallBeforeIt) {
  Faults faults;
  AddRule(faults, R"({"after_messages":2,"code":"ABORTED","hold":true,"times":1})");
  AddRule(faults, R"({"lie":"omit","extent":4,"extents":2})");
  const Verdict verdict = Call(faults, "GetMetadataDelta");
  EXPECT_THAT(verdict.before, IsOk());
  EXPECT_TRUE(verdict.lies.empty());
  ASSERT_EQ(verdict.stream.size(), 2u);
  EXPECT_THAT(verdict.stream[0].error, StatusIs(absl::StatusCode::kAborted));
  EXPECT_FALSE(verdict.stream[0].HappensAt(1));
  EXPECT_TRUE(verdict.stream[0].HappensAt(2));
  EXPECT_FALSE(verdict.stream[0].HappensAt(3));
  EXPECT_EQ(verdict.stream[1].extent, 4);
  EXPECT_EQ(verdict.stream[1].extents, 2);
  EXPECT_TRUE(verdict.Tells(Lie::kOmit));
  EXPECT_FALSE(verdict.Tells(Lie::kShift));
  EXPECT_EQ(Call(faults, "GetMetadataDelta").stream.size(), 1u);
}

TEST(FaultsTest, HeldCallsGoWhenReleasedAndLaterOnesAreHeldAgain) {
  Faults faults;
  AddRule(faults, R"({"method":"CreateSnapshot","hold":true})");
  std::jthread first([&] { Call(faults, "CreateSnapshot"); });
  ASSERT_TRUE(faults.WaitFor("CreateSnapshot", {.held = 1}, kLong));
  faults.Release("DeleteSnapshot");
  EXPECT_EQ(faults.Counts()["CreateSnapshot"].held, 1);
  faults.Release("CreateSnapshot");
  ASSERT_TRUE(faults.WaitFor("CreateSnapshot", {.finished = 1}, kLong));

  std::jthread second([&] { Call(faults, "CreateSnapshot"); });
  ASSERT_TRUE(faults.WaitFor("CreateSnapshot", {.started = 2, .held = 1}, kLong));
  faults.Clear();
  EXPECT_TRUE(faults.WaitFor("CreateSnapshot", {.finished = 2}, kLong));
}

TEST(FaultsTest, ClearEndsDelays) {
  Faults faults;
  AddRule(faults, R"({"delay_ms":3600000})");
  std::jthread caller([&] { Call(faults, "CreateSnapshot"); });
  ASSERT_TRUE(faults.WaitFor("CreateSnapshot", {.started = 1}, kLong));
  faults.Clear();
  EXPECT_TRUE(faults.WaitFor("CreateSnapshot", {.finished = 1}, kLong));
}

TEST(FaultsTest, CallsWhoseCallerWentAwayDoNothing) {
  Faults faults;
  AddRule(faults, R"({"hold":true})");
  std::atomic<bool> gone = false;
  Verdict verdict;
  {
    std::jthread caller([&] {
      verdict = faults.Enter({"CreateSnapshot", "", {}}, [&] { return gone.load(); });
    });
    ASSERT_TRUE(faults.WaitFor("CreateSnapshot", {.held = 1}, kLong));
    gone = true;
  }
  EXPECT_THAT(verdict.before, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(faults.Counts()["CreateSnapshot"].held, 0);
}

class BadRuleTest : public testing::TestWithParam<const char*> {};

TEST_P(BadRuleTest, IsRefused) {
  EXPECT_THAT(ParseFaultRule(*ParseJson(GetParam())), StatusIs(absl::StatusCode::kInvalidArgument));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadRuleTest,
    testing::Values("[]", R"({"methods":"x"})", R"({"method":1})", R"({"code":"NO_SUCH"})",
                    R"({"code":14})", R"({"lie":"no such"})", R"({"lie":true})", R"({"every":0})",
                    R"({"after_messages":-1})", R"({"per_message":1})", R"({"extents":0})",
                    R"({"times":-1})", R"({"percent":"10"})", R"({"delay_ms":1.5})",
                    R"({"hold":1})", R"({"skip":18446744073709551615})"));

}  // namespace
}  // namespace csidelta::csi_driver::faults_test
