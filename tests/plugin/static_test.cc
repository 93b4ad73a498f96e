// The server's image has no C++ library, no shell, and its own release of the C library.
#include <elf.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/paths.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::static_test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kSomeUid = 123456;  // As a cluster may force it: no passwd entry, no home.

std::string Program() {
  const char* chosen = std::getenv("CSI_DELTA_PLUGIN");
  return chosen != nullptr ? chosen
                           : support::SourcePath("build/release/bin/velero-plugin-for-csi-delta");
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
T At(const std::string& bytes, std::size_t offset_bytes) {
  T value;
  std::memcpy(&value, bytes.data() + offset_bytes, sizeof value);
  return value;
}

TEST(StaticProgramTest, NeedsNoInterpreterAndNoLibrary) {
  const std::string bytes = ReadFile(Program());
  ASSERT_GT(bytes.size(), sizeof(Elf64_Ehdr));
  const auto header = At<Elf64_Ehdr>(bytes, 0);
  ASSERT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  EXPECT_EQ(header.e_type, ET_DYN) << "not position independent";
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto segment =
        At<Elf64_Phdr>(bytes, header.e_phoff + static_cast<std::size_t>(i) * sizeof(Elf64_Phdr));
    EXPECT_NE(segment.p_type, static_cast<Elf64_Word>(PT_INTERP));
    if (segment.p_type != PT_DYNAMIC) {
      continue;
    }
    for (std::size_t done_bytes = 0; done_bytes < segment.p_filesz;
         done_bytes += sizeof(Elf64_Dyn)) {
      EXPECT_NE(At<Elf64_Dyn>(bytes, segment.p_offset + done_bytes).d_tag, DT_NEEDED);
    }
  }
}

// Runs the program in a root that holds nothing but itself and /tmp, as an unknown user;
// returns the first line of its stdout.
std::string HandshakeInEmptyRoot(const std::string& root) {
  int out[2];
  EXPECT_EQ(pipe(out), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    close(out[0]);
    close(out[1]);
    char* const words[] = {const_cast<char*>("/p"), nullptr};
    char* const variables[] = {const_cast<char*>("VELERO_PLUGIN=hello"), nullptr};
    if (chroot(root.c_str()) == 0 && chdir("/") == 0 && setgroups(0, nullptr) == 0 &&
        setgid(kSomeUid) == 0 && setuid(kSomeUid) == 0) {
      execve(words[0], words, variables);
    }
    _exit(1);
  }
  close(out[1]);
  std::string line;
  for (char byte = 0; line.find('\n') == std::string::npos && read(out[0], &byte, 1) == 1;) {
    line.push_back(byte);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(out[0]);
  return line;
}

TEST(StaticProgramTest, RunsInAnEmptyRootAsAnyUser) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "an empty root needs the right to change it";
  }
  const support::ScratchFolder folder;
  const std::string& root = folder.path();
  fs::permissions(root, fs::perms(0755));
  fs::copy_file(Program(), root + "/p");
  fs::create_directory(root + "/tmp");
  fs::permissions(root + "/tmp", fs::perms(01777));
  EXPECT_THAT(HandshakeInEmptyRoot(root),
              testing::MatchesRegex("1\\|2\\|unix\\|/tmp/plugin[0-9a-f]+\\|grpc\\|\n"));
}

}  // namespace
}  // namespace csidelta::static_test
