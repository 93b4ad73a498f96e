#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/program.h"
#include "tests/cli/outcome.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/impatient_clock.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::cli {

// The whole program in this process, in a folder of its own that is removed afterwards; in memory
// where nothing else is said, because each object of a repository is synced.
class ProgramRunner {
 public:
  explicit ProgramRunner(const std::string& parent = Memory()) : folder_(parent) {}

  // What a restore writes to, "target" or "restored", must not lie below /dev, where memory is.
  std::string Path(const std::string& name) const {
    const bool is_target = name == "target" || name == "restored";
    return absl::StrCat((is_target ? targets_ : folder_).path(), "/", name);
  }
  void Write(const std::string& name, absl::string_view bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Outcome Run(const std::vector<std::string>& words, std::stop_token stop = {}) const {
    Outcome outcome;
    const auto into = [this, &outcome](std::string& text) {
      return [this, &outcome, &text](absl::string_view bytes) {
        text.append(bytes.data(), bytes.size());
        if (on_out && &text == &outcome.out) {
          on_out(text);
        }
        return true;
      };
    };
    CallContext ctx;
    ctx.stop = std::move(stop);
    ctx.clock = other_clock != nullptr ? other_clock : &clock;
    outcome.code = RunProgram(ctx, words,
                              {.get = [this](const char* name) -> const char* {
                                 if (on_variable) {
                                   on_variable(name);
                                 }
                                 const auto found = variables.find(name);
                                 return found == variables.end() ? nullptr : found->second.c_str();
                               },
                               .out = into(outcome.out),
                               .error = into(outcome.error),
                               .table_columns = table_columns,
                               .out_is_terminal = out_is_terminal,
                               .confirm = confirm,
                               .scrypt = support::kCheapScrypt,
                               .open_store = open_store,
                               .liveness_probes = liveness_probes});
    return outcome;
  }

  // Makes the repository that RESTIC_REPOSITORY names.
  void Init() const { ASSERT_EQ(Run({"init"}).code, ExitCode::kOk); }

  std::map<std::string, std::string> variables;  // of the program's environment
  support::ImpatientClock clock;
  const Clock* other_clock = nullptr;  // instead of that
  engine::StoreOpener open_store = storage::OpenStore;
  std::function<repository::LivenessProbes()> liveness_probes =
      ProgramEnvironment().liveness_probes;
  int table_columns = kTableColumns;
  bool out_is_terminal = false;
  // Called with all of stdout each time that the program writes there.
  std::function<void(const std::string& out)> on_out = nullptr;
  // A user at a terminal; null: no terminal.
  std::function<absl::StatusOr<bool>(const CallContext& ctx, absl::string_view question)> confirm =
      nullptr;
  // Called before the program reads one of them.
  std::function<void(const std::string& name)> on_variable = nullptr;

 private:
  static std::string Memory() {
    constexpr char kMemory[] = "/dev/shm";
    return std::filesystem::exists(kMemory) ? kMemory : testing::TempDir();
  }

  const support::ScratchFolder folder_;
  const support::ScratchFolder targets_;
};

}  // namespace csidelta::cli
