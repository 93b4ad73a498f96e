#include "cli/password.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/scratch_file.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::password_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::ScratchFile;
using support::StatusIs;
using testing::HasSubstr;

GetVariable Variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

absl::StatusOr<Secret> Read(const PasswordSource& source) {
  return ReadPassword(CallContext(), source, "password", /*twice=*/false);
}

TEST(PasswordTest, FlagsComeBeforeVariables) {
  const GetVariable all = Variables({{"RESTIC_PASSWORD", "text"}});
  const absl::StatusOr<PasswordSource> from_flags =
      ChoosePasswordSource({.command = "", .file = "/flag", .text = Secret()}, all);
  ASSERT_THAT(from_flags, IsOk());
  EXPECT_EQ(from_flags->file, "/flag");
  EXPECT_TRUE(from_flags->text.empty());
  const absl::StatusOr<PasswordSource> from_variables = ChoosePasswordSource({}, all);
  ASSERT_THAT(from_variables, IsOk());
  EXPECT_EQ(from_variables->text.Reveal(), "text");
}

TEST(PasswordTest, FileAndCommandExcludeEachOther) {
  EXPECT_THAT(ChoosePasswordSource({.command = "a", .file = "b", .text = Secret()}, Variables({})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ChoosePasswordSource(
                  {}, Variables({{"RESTIC_PASSWORD_COMMAND", "a"}, {"RESTIC_PASSWORD_FILE", "b"}})),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PasswordTest, ReadsFilesWithoutTheirLineBreak) {
  const ScratchFile file;
  file.Write(" secret with spaces \r\n");
  const absl::StatusOr<Secret> password =
      Read({.command = "", .file = file.path(), .text = Secret()});
  ASSERT_THAT(password, IsOk());
  EXPECT_EQ(password->Reveal(), "secret with spaces");
}

// As restic reads them: Windows' editors and shells write such files.
TEST(PasswordTest, ReadsFilesWithAByteOrderMark) {
  const ScratchFile file;
  using namespace std::string_literals;
  const std::pair<std::string, const char*> files[] = {
      {"\xef\xbb\xbfp\xc3\xa4\n"s, "p\xc3\xa4"},
      {"\xff\xfep\0\xe4\0\r\0\n\0"s, "p\xc3\xa4"},
      {"\xfe\xff\0p\0\xe4\0\r\0\n"s, "p\xc3\xa4"},
      {"\xff\xfe\x3d\xd8\x00\xde"s, "\xf0\x9f\x98\x80"},
      {"\xff\xfe\x3d\xd8p\0"s, "\xef\xbf\xbdp"},
      {"\xff\xfe\x3d\xd8"s, "\xef\xbf\xbd"},
      {"\xff\xfep\0x"s, "p\xef\xbf\xbd"},
      {"\xefp"s, "\xefp"}};
  for (const auto& [bytes, text] : files) {
    file.Write(bytes);
    EXPECT_THAT(ReadSmallText(file.path()), IsOkAndHolds(text));
  }
}

TEST(PasswordTest, RefusesEmptyAndMissingFiles) {
  const ScratchFile file;
  EXPECT_THAT(Read({.command = "", .file = file.path(), .text = Secret()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(Read({.command = "", .file = "/nonexistent/file", .text = Secret()}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Read({.command = "", .file = "/dev/zero", .text = Secret()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer")));
}

TEST(PasswordTest, RunsCommands) {
  const absl::StatusOr<Secret> password =
      Read({.command = "printf '%s\\n' \"a b\"", .file = "", .text = Secret()});
  ASSERT_THAT(password, IsOk());
  EXPECT_EQ(password->Reveal(), "a b");
  EXPECT_THAT(Read({.command = "false", .file = "", .text = Secret()}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("false failed")));
  EXPECT_THAT(Read({.command = "/nonexistent/program", .file = "", .text = Secret()}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Read({.command = "true", .file = "", .text = Secret()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
}

TEST(PasswordTest, ACommandThatHangsEndsWithTheProgram) {
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx;
  ctx.stop = stop.get_token();
  EXPECT_THAT(
      ReadPassword(ctx, {.command = "sleep 1000", .file = "", .text = Secret()}, "password", false),
      StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace csidelta::cli::password_test
