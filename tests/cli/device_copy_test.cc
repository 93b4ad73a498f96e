// csi-delta device-copy: one image into another, and what is said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/cli/program_runner.h"

namespace csidelta::cli::device_copy_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kBlock = 4096;

class DeviceCopyTest : public testing::Test {
 protected:
  DeviceCopyTest() {
    std::mt19937 engine(1);
    for (char& byte : held_) {
      byte = static_cast<char>(engine());
    }
    wanted_ = held_;
    for (const std::size_t at : {2 * kMiB, 3 * kMiB + 5}) {
      wanted_[at] = static_cast<char>(wanted_[at] ^ 1);
    }
    program_.Write("source", wanted_);
    program_.Write("target", held_);
  }

  Outcome Copy(std::vector<std::string> words = {}) {
    words.insert(words.begin(), {"device-copy", "--source", program_.Path("source"), "--target",
                                 program_.Path("target")});
    return program_.Run(words);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(program_.Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The last line.
  static Json Result(const Outcome& outcome) {
    const std::size_t before = outcome.out.rfind('\n', outcome.out.size() - 2);
    return ParseJson(outcome.out.substr(before == std::string::npos ? 0 : before + 1))
        .value_or(Json());
  }
  // A list of one extent.
  std::string WriteList(std::size_t offset, std::size_t length) const {
    program_.Write("list", absl::StrCat("{\"base\":\"monday-handle\"}\n{\"offset\":", offset,
                                        ",\"length\":", length, "}\n{\"end\":true}\n"));
    return program_.Path("list");
  }

  ProgramRunner program_;
  std::string held_ = std::string(8 * kMiB, '\0');
  std::string wanted_;
};

TEST_F(DeviceCopyTest, OnlyWhatDiffersIsWritten) {
  const Outcome copied = Copy({"--json"});
  ASSERT_EQ(copied.code, ExitCode::kOk) << copied.error;
  EXPECT_EQ(Read("target"), wanted_);
  const Json result = Result(copied);
  EXPECT_EQ(GetString(result, {"message_type"}), "result");
  EXPECT_EQ(GetInt(result, {"written_bytes"}), 2 * kBlock);
  EXPECT_EQ(GetInt(result, {"kept_bytes"}), 8 * kMiB - 2 * kBlock);
  EXPECT_EQ(GetInt(result, {"compared_bytes"}), 8 * kMiB);
  EXPECT_EQ(GetString(result, {"target"}), program_.Path("target"));
  EXPECT_FALSE(GetBool(result, {"used_list"}, true));
  const Outcome again = Copy();
  EXPECT_THAT(again.out, AllOf(HasSubstr("0 B written"), HasSubstr("everything was compared")));
}

TEST_F(DeviceCopyTest, WithAListThatIsLookedAt) {
  const Outcome copied =
      Copy({"--json", "--base", "monday-handle", "--extents", WriteList(2 * kMiB, 2 * kMiB)});
  ASSERT_EQ(copied.code, ExitCode::kOk) << copied.error;
  EXPECT_EQ(Read("target"), wanted_);
  EXPECT_TRUE(GetBool(Result(copied), {"used_list"}));
  EXPECT_EQ(GetInt(Result(copied), {"compared_bytes"}), 2 * kMiB + kBlock);
}

TEST_F(DeviceCopyTest, AListThatOmitsBlocksIsExitCode20) {
  for (std::size_t at = 0; at < wanted_.size(); at += kMiB / 4) {
    wanted_[at + kBlock] = static_cast<char>(wanted_[at + kBlock] ^ 1);
  }
  program_.Write("source", wanted_);
  const Outcome copied =
      Copy({"--json", "--base", "monday-handle", "--extents", WriteList(2 * kMiB, kMiB)});
  EXPECT_EQ(copied.code, ExitCode::kAuditMismatch);
  EXPECT_EQ(Read("target"), wanted_);
  EXPECT_TRUE(GetBool(Result(copied), {"audit_mismatch"}));
}

TEST_F(DeviceCopyTest, AListOfAnotherBaseIsRefused) {
  const Outcome copied = Copy({"--base", "tuesday-handle", "--extents", WriteList(0, kMiB)});
  EXPECT_EQ(copied.code, ExitCode::kFailed);
  EXPECT_THAT(copied.error, HasSubstr("monday-handle"));
  EXPECT_EQ(Read("target"), held_);
}

TEST_F(DeviceCopyTest, ADriverThatIsNotReachedLeavesComparing) {
  const Outcome copied = Copy({"--json", "--base", "monday", "--volume-snapshot", "shop/before",
                               "--kubeconfig", program_.Path("no-such-file")});
  ASSERT_EQ(copied.code, ExitCode::kOk) << copied.error;
  EXPECT_EQ(Read("target"), wanted_);
  EXPECT_THAT(copied.error, HasSubstr("everything is compared"));
  EXPECT_THAT(GetString(Result(copied), {"list_refused"}), HasSubstr("no-such-file"));
}

TEST_F(DeviceCopyTest, ASmallerTargetIsExitCode22) {
  program_.Write("target", held_.substr(0, kMiB));
  EXPECT_EQ(Copy().code, ExitCode::kTargetTooSmall);
  EXPECT_EQ(Read("target"), held_.substr(0, kMiB));
}

TEST_F(DeviceCopyTest, NothingIsWrittenTooLate) {
  const Outcome late = Copy({"--start-before", "2020-01-01T00:00:00Z"});
  EXPECT_EQ(late.code, ExitCode::kFailed);
  EXPECT_THAT(late.error, HasSubstr("2020-01-01T00:00:00Z"));
  EXPECT_EQ(Read("target"), held_);
  EXPECT_EQ(Copy({"--start-before", "2999-01-01T00:00:00Z"}).code, ExitCode::kOk);
  EXPECT_EQ(Copy({"--start-before", "soon"}).code, ExitCode::kFailed);
}

TEST_F(DeviceCopyTest, TheResultStandsInAFileToo) {
  ASSERT_EQ(Copy({"--result-file", program_.Path("result")}).code, ExitCode::kOk);
  const auto result = ParseJson(Read("result"));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(GetInt(*result, {"written_bytes"}), 2 * kBlock);
  EXPECT_EQ(Copy({"--result-file", program_.Path("no/such/folder")}).code, ExitCode::kOk);
}

TEST_F(DeviceCopyTest, OnATerminalItAsks) {
  program_.confirm = [](const CallContext&, absl::string_view) { return false; };
  EXPECT_EQ(Copy().code, ExitCode::kFailed);
  EXPECT_EQ(Read("target"), held_);
  EXPECT_EQ(Copy({"--yes"}).code, ExitCode::kOk);
  EXPECT_EQ(Read("target"), wanted_);
}

TEST_F(DeviceCopyTest, FlagsThatContradictEachOtherAreRefused) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--base", "monday"},
           {"--extents", "list"},
           {"--volume-snapshot", "a/b"},
           {"--base", "x", "--extents", "list", "--volume-snapshot", "a/b"}}) {
    const Outcome refused = Copy(words);
    EXPECT_EQ(refused.code, ExitCode::kFailed);
    EXPECT_THAT(refused.error, HasSubstr("--"));
  }
  EXPECT_EQ(program_.Run({"device-copy", "--source", program_.Path("source")}).code,
            ExitCode::kFailed);
  EXPECT_EQ(Read("target"), held_);
}

}  // namespace
}  // namespace csidelta::cli::device_copy_test
