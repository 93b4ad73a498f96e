#include "tests/plugin/plugin_process.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"

namespace csidelta::plugin {
namespace {

constexpr int kAnswerMsMax = 60'000;

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

PluginProcess::PluginProcess(const Options& options) {
  int out[2];
  int err[2];
  CSIDELTA_CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
  std::vector<std::string> words = {options.executable};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : options.environment) {
    variables.push_back(absl::StrCat(name, "=", value));
  }
  variables.push_back(absl::StrCat("TMPDIR=", folder_.path()));
  // Which of the faults that ./dev mutants compiled in is on: these tests are to notice it.
  if (const char* const mutant = std::getenv("CSI_DELTA_MUTANT"); mutant != nullptr) {
    variables.push_back(absl::StrCat("CSI_DELTA_MUTANT=", mutant));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  const int failed = posix_spawn(&pid_, options.executable.c_str(), &actions, nullptr,
                                 Pointers(words).data(), Pointers(variables).data());
  CSIDELTA_CHECK(failed == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  stdout_fd_ = out[0];
  stderr_fd_ = err[0];
}

PluginProcess::~PluginProcess() {
  if (!exited_) {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(stdout_fd_);
  close(stderr_fd_);
}

std::string PluginProcess::ReadHandshake() {
  while (handshake_.empty() || handshake_.back() != '\n') {
    pollfd ready = {stdout_fd_, POLLIN, 0};
    char byte = 0;
    if (poll(&ready, 1, kAnswerMsMax) != 1 || read(stdout_fd_, &byte, 1) != 1) {
      break;
    }
    handshake_.push_back(byte);
  }
  return handshake_;
}

void PluginProcess::AwaitStderr(const std::string& text) {
  while (stderr_.find(text) == std::string::npos) {
    pollfd ready = {stderr_fd_, POLLIN, 0};
    char byte = 0;
    if (poll(&ready, 1, kAnswerMsMax) != 1 || read(stderr_fd_, &byte, 1) != 1) {
      break;
    }
    stderr_.push_back(byte);
  }
}

std::string PluginProcess::SocketPath() {
  const std::vector<std::string> fields = absl::StrSplit(ReadHandshake(), '|');
  return fields.size() > 3 ? fields[3] : "";
}

std::shared_ptr<grpc::Channel> PluginProcess::Connect() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt("grpc.use_local_subchannel_pool", 1);  // A connection for each channel.
  return grpc::CreateCustomChannel(absl::StrCat("unix:", SocketPath()),
                                   grpc::InsecureChannelCredentials(), arguments);
}

void PluginProcess::Signal(int number) const { kill(pid_, number); }

int PluginProcess::WaitForExit(absl::Duration grace_period) {
  if (exited_) {
    return exit_status_;
  }
  const int pid_fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended = {pid_fd, POLLIN, 0};
  const int count = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(grace_period)));
  close(pid_fd);
  if (count != 1) {
    return -1;
  }
  waitpid(pid_, &exit_status_, 0);
  exited_ = true;
  return exit_status_;
}

std::string PluginProcess::RestOfStdout() { return ReadAll(stdout_fd_); }
std::string PluginProcess::Stderr() { return stderr_ += ReadAll(stderr_fd_); }

}  // namespace csidelta::plugin
