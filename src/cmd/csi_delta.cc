#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/password.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace csidelta;       // NOLINT(google-build-using-namespace)
  std::signal(SIGPIPE, SIG_IGN);  // A reader that goes away is an error of the write.
  SetLogLevel(LogLevel::kError);  // What a person must know, the verbs say.
  const cli::InterruptWatch interrupt;
  CallContext ctx;
  ctx.stop = interrupt.token();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  cli::ProgramEnvironment environment{
      .get = [](const char* name) { return std::getenv(name); },
      .out = cli::FdSink(STDOUT_FILENO),
      .error = cli::FdSink(STDERR_FILENO),
      .error_is_terminal = ::isatty(STDERR_FILENO) == 1,
      .make_out_private = [] { return cli::MakePrivate(STDOUT_FILENO); }};
  if (environment.error_is_terminal && ::isatty(STDIN_FILENO) == 1) {
    environment.confirm = cli::Confirm;
  }
  return static_cast<int>(cli::RunProgram(ctx, words, environment));
}
