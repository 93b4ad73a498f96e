// What only a process shows: signals, pipes, and what the system says of its end.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/await.h"
#include "tests/support/paths.h"
#include "tests/support/scratch_folder.h"

extern char** environ;

namespace csidelta::cli::process_test {
namespace {

// More than a pipe holds: when all of it is written, the other end has begun to read.
constexpr std::size_t kMoreThanAPipe = 256 << 10;

class ProcessTest : public testing::Test {
 protected:
  ProcessTest() {
    ::signal(SIGPIPE, SIG_IGN);
    ::setenv("RESTIC_PASSWORD", "secret", 1);
    ::setenv("RESTIC_REPOSITORY", absl::StrCat(folder_.path(), "/repo").c_str(), 1);
    std::ofstream(absl::StrCat(folder_.path(), "/image")) << std::string(1 << 20, 'x');
    EXPECT_EQ(Shell("PROGRAM init"), 0);
  }

  // Runs a command line in the folder, PROGRAM standing for csi-delta; its exit code.
  int Shell(const std::string& line) const {
    const std::string command =
        absl::StrCat("cd ", folder_.path(), " && PROGRAM() { ", support::BuiltProgram("csi-delta"),
                     " \"$@\"; }; (", line, ") >out 2>error");
    const support::AwaitEnd end(line);
    const int state = std::system(command.c_str());
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  }

  std::string Text(const std::string& name) const {
    std::ifstream file(absl::StrCat(folder_.path(), "/", name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const support::ScratchFolder folder_;
};

// A backup that waits for the rest of a list.
class WaitingBackup {
 public:
  explicit WaitingBackup(const std::string& image) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    writing_ = ends[1];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    std::vector<std::string> words = {support::BuiltProgram("csi-delta"), "backup", image,
                                      "--extents", "-"};
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[0]);
    const std::string bytes(kMoreThanAPipe, '\n');
    EXPECT_EQ(::write(writing_, bytes.data(), bytes.size()), std::ssize(bytes));
  }
  ~WaitingBackup() { ::close(writing_); }

  void Signal(int number) const { EXPECT_EQ(::kill(pid_, number), 0); }
  // Its exit code, or minus the signal that ended it.
  int Wait() const {
    int state = 0;
    const support::AwaitEnd end("a backup to end");
    EXPECT_EQ(::waitpid(pid_, &state, 0), pid_);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  }

 private:
  int writing_ = -1;
  pid_t pid_ = 0;
};

TEST_F(ProcessTest, SignalsEndARunInOrder) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    WaitingBackup backup(absl::StrCat(folder_.path(), "/image"));
    backup.Signal(number);
    EXPECT_EQ(backup.Wait(), 130);
  }
  EXPECT_EQ(Shell("PROGRAM snapshots --json"), 0);
  EXPECT_EQ(Text("out"), "[]\n");
  EXPECT_TRUE(std::filesystem::is_empty(absl::StrCat(folder_.path(), "/repo/locks")));
}

TEST_F(ProcessTest, ExitCodesReachTheShell) {
  EXPECT_EQ(Shell("PROGRAM version"), 0);
  EXPECT_EQ(Shell("PROGRAM"), 1);
  EXPECT_EQ(Shell("PROGRAM snapshots -r nowhere"), 10);
  EXPECT_EQ(Shell("RESTIC_PASSWORD=wrong PROGRAM snapshots"), 12);
  EXPECT_EQ(Shell("PROGRAM snapshots >/dev/full"), 1);
  EXPECT_EQ(Shell("PROGRAM backup image"), 0);
  EXPECT_EQ(Shell("echo >small; PROGRAM restore latest -t small"), 22);
}

TEST_F(ProcessTest, ThePasswordCommandRunsWithoutAShell) {
  EXPECT_EQ(Shell("unset RESTIC_PASSWORD; PROGRAM snapshots --password-command 'echo secret'"), 0);
  EXPECT_EQ(Shell("unset RESTIC_PASSWORD; PROGRAM snapshots --password-command 'echo $x'"), 12);
}

TEST_F(ProcessTest, ServesKubectlUnderTheNameOfALink) {
  const std::string program = support::BuiltProgram("csi-delta");
  ASSERT_EQ(Shell(absl::StrCat("ln -s ", program, " kubectl-csi_delta && ln -s ", program,
                               " kubectl_complete-csi_delta && ./kubectl-csi_delta stats --help")),
            0);
  EXPECT_THAT(Text("out"), testing::StartsWith("usage: kubectl csi-delta stats "));
  EXPECT_EQ(Shell("./kubectl-csi_delta stat"), 1);
  EXPECT_THAT(Text("error"),
              testing::HasSubstr("did you mean stats? see kubectl csi-delta --help"));
  EXPECT_EQ(Shell("./kubectl_complete-csi_delta key ''"), 0);
  EXPECT_EQ(Text("out"), "add\nlist\npasswd\nremove\n:0\n");
}

TEST_F(ProcessTest, HelpFollowsTheWidthThatIsSet) {
  EXPECT_EQ(Shell("COLUMNS=72 PROGRAM help backup | awk '{ if (length($0) > 72) exit 1 }'"), 0);
  EXPECT_EQ(Shell("COLUMNS=72 PROGRAM help backup | awk '{ if (length($0) > 60) exit 1 }'"), 1);
}

}  // namespace
}  // namespace csidelta::cli::process_test
