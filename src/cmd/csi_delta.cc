#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/completion.h"
#include "cli/interrupt.h"
#include "cli/password.h"
#include "cli/program.h"

namespace csidelta {
extern const char kCommit[];  // cmake/Commit.cmake writes its source.
}  // namespace csidelta

namespace {

// 0 for what is no terminal.
int ColumnsOf(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// COLUMNS, else the width of the terminal; 0 where neither is known.
int TerminalColumns() {
  constexpr int kMin = 60;
  constexpr int kMax = 1000;
  int columns = ColumnsOf(STDOUT_FILENO);
  if (const char* const given = std::getenv("COLUMNS"); given != nullptr && std::atoi(given) > 0) {
    columns = std::atoi(given);
  }
  return columns <= 0 ? 0 : std::clamp(columns, kMin, kMax);
}

int HelpColumns() {
  const int columns = TerminalColumns();
  return columns == 0 ? csidelta::cli::kHelpColumns
                      : std::min(columns, csidelta::cli::kHelpColumns);
}

int TableColumns() {
  const int columns = TerminalColumns();
  return columns == 0 ? csidelta::cli::kTableColumns : columns;
}

// kubectl runs kubectl-csi_delta as `kubectl csi-delta`, and asks kubectl_complete-csi_delta for
// completions, which end with a line that says what else a shell may offer:
// https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/.
constexpr char kPlugin[] = "kubectl-csi_delta";
constexpr char kCompleter[] = "kubectl_complete-csi_delta";
constexpr char kFilesToo[] = ":0\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace csidelta;       // NOLINT(google-build-using-namespace)
  std::signal(SIGPIPE, SIG_IGN);  // A reader that goes away is an error of the write.
  SetLogLevel(LogLevel::kError);  // What a person must know, the verbs say.
  const cli::InterruptWatch interrupt;
  CallContext ctx;
  ctx.stop = interrupt.token();
  std::vector<std::string> arguments(argv, argv + argc);
  const std::string called = arguments.empty() ? "" : arguments.front();
  if (!arguments.empty()) {
    arguments.erase(arguments.begin());
  }
  const bool completes = called.ends_with(kCompleter);
  if (completes) {
    arguments.insert(arguments.begin(), cli::kCompleteArgument);
  }
  cli::ProgramEnvironment environment{
      .get = [](const char* name) { return std::getenv(name); },
      .out = cli::FdSink(STDOUT_FILENO),
      .error = cli::FdSink(STDERR_FILENO),
      .error_is_terminal = ::isatty(STDERR_FILENO) == 1,
      .error_columns = ColumnsOf(STDERR_FILENO) > 0 ? ColumnsOf(STDERR_FILENO) : cli::kTableColumns,
      .columns = HelpColumns(),
      .table_columns = TableColumns(),
      .out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
      .program = called.ends_with(kPlugin) ? "kubectl csi-delta" : "csi-delta",
      .commit = kCommit,
      .make_out_private = [] { return cli::MakePrivate(STDOUT_FILENO); }};
  if (environment.error_is_terminal && ::isatty(STDIN_FILENO) == 1) {
    environment.confirm = cli::Confirm;
  }
  const cli::ExitCode code = cli::RunProgram(ctx, arguments, environment);
  if (completes) {
    environment.out(kFilesToo);
  }
  return static_cast<int>(code);
}
