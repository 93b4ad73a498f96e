#include "plugin/handshake.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::plugin::handshake_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

EnvironmentLookup From(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

TEST(HandshakeTest, LineIsExactlyWhatTheHostReads) {
  EXPECT_EQ(FormatHandshakeLine("/tmp/plugin1"), "1|2|unix|/tmp/plugin1|grpc|\n");
}

TEST(HandshakeTest, OnlyTheCookieOfTheHostCounts) {
  EXPECT_TRUE(IsStartedByHost(From({{"VELERO_PLUGIN", "hello"}})));
  EXPECT_FALSE(IsStartedByHost(From({{"VELERO_PLUGIN", "hell"}})));
  EXPECT_FALSE(IsStartedByHost(From({})));
}

TEST(HandshakeTest, ProtocolVersionIsChecked) {
  EXPECT_TRUE(CheckProtocolVersions(From({})).ok());
  EXPECT_TRUE(CheckProtocolVersions(From({{"PLUGIN_PROTOCOL_VERSIONS", "2"}})).ok());
  EXPECT_TRUE(CheckProtocolVersions(From({{"PLUGIN_PROTOCOL_VERSIONS", "1,2,3"}})).ok());
  const absl::Status refused = CheckProtocolVersions(From({{"PLUGIN_PROTOCOL_VERSIONS", "1,22"}}));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1,22"));
}

TEST(HandshakeTest, SocketFolderIsTheHostsThenTmpdirThenTmp) {
  Random& random = Random::Real();
  EXPECT_THAT(*ChooseSocketPath(From({{"PLUGIN_UNIX_SOCKET_DIR", "/a"}, {"TMPDIR", "/b"}}), random),
              StartsWith("/a/plugin"));
  EXPECT_THAT(*ChooseSocketPath(From({{"TMPDIR", "/b"}}), random), StartsWith("/b/plugin"));
  EXPECT_THAT(*ChooseSocketPath(From({}), random), StartsWith("/tmp/plugin"));
}

TEST(HandshakeTest, TwoProcessesNeverShareASocket) {
  Random& random = Random::Real();
  EXPECT_NE(*ChooseSocketPath(From({}), random), *ChooseSocketPath(From({}), random));
}

TEST(HandshakeTest, FolderTooLongForASocketIsPassedOverOrRefused) {
  const std::string folder = "/" + std::string(kSocketPathBytesMax, 'x');
  EXPECT_THAT(*ChooseSocketPath(From({{"TMPDIR", folder}}), Random::Real()),
              StartsWith("/tmp/plugin"));
  EXPECT_EQ(
      ChooseSocketPath(From({{"PLUGIN_UNIX_SOCKET_DIR", folder}}), Random::Real()).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(HandshakeTest, SocketIsSharedOnlyWithAGroupThatExists) {
  EXPECT_TRUE(ShareSocketWithGroup("/no/such", From({})).ok());
  const absl::Status unknown =
      ShareSocketWithGroup("/no/such", From({{"PLUGIN_UNIX_SOCKET_GROUP", "no such group"}}));
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(unknown.message(), "no group no such group");
  EXPECT_FALSE(ShareSocketWithGroup("/no/such", From({{"PLUGIN_UNIX_SOCKET_GROUP", "0"}})).ok());
}

TEST(HandshakeTest, ASharedSocketIsForItsOwnerAndItsGroup) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/socket";
  std::ofstream(path) << "";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const std::string group = absl::StrCat(getgid());
  ASSERT_TRUE(ShareSocketWithGroup(path, From({{"PLUGIN_UNIX_SOCKET_GROUP", group}})).ok());
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            perms::owner_read | perms::owner_write | perms::group_read | perms::group_write);
}

// Only root may give a file to any group; others have their own, if it has a name here.
TEST(HandshakeTest, AGroupIsFoundByItsName) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/socket";
  std::ofstream(path) << "";
  std::vector<std::pair<std::string, gid_t>> groups;
  while (const struct group* entry = getgrent()) {
    if (geteuid() == 0 || entry->gr_gid == getgid()) {
      groups.emplace_back(entry->gr_name, entry->gr_gid);
    }
  }
  endgrent();
  for (const auto& [name, id] : groups) {
    ASSERT_TRUE(ShareSocketWithGroup(path, From({{"PLUGIN_UNIX_SOCKET_GROUP", name}})).ok())
        << name;
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_gid, id) << name;
  }
}

TEST(HandshakeTest, ExplanationSaysWhatToDo) {
  const std::string text = ExplainHandStart("prog");
  EXPECT_THAT(text, StartsWith("prog is a plugin of Velero"));
  EXPECT_THAT(text, HasSubstr("velero plugin add"));
  EXPECT_THAT(text, HasSubstr("install"));
}

}  // namespace
}  // namespace csidelta::plugin::handshake_test
