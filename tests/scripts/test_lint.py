"""clang-tidy with our plugin still finds what it is there for, and a niced thread's commands leave others the cores."""

import json
import os
import shutil
import threading

import console
import lint

HEADER = """#include <string>
class Thing {
 public:
  int Size() const { return size; }

 private:
  int size = 0;
};
"""
SOURCE = """#include <string>
#include <utility>
#include "thing.h"
int Use(std::string text) {
  const std::string moved = std::move(text);
  return static_cast<int>(text.size() + moved.size()) + Thing().Size();
}
"""


def tidy(folder, source):
    """(clean?, words) of a source below folder/src, judged by the project's rules."""
    (folder / "src").mkdir()
    (folder / "src" / "thing.h").write_text(HEADER)
    file = folder / "src" / "use.cc"
    file.write_text(source)
    shutil.copy(console.ROOT / ".clang-tidy", folder)
    entry = {"file": str(file), "directory": str(folder), "command": f"clang++-14 -std=c++20 -c {file}"}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    return lint._tidy_one(lint._plugin(), folder, entry)


def test_faults_of_a_source_and_of_its_headers_are_found(tmp_path):
    clean, words = tidy(tmp_path, SOURCE)
    assert not clean
    assert "use.cc:6" in words and "bugprone-use-after-move" in words
    assert "thing.h:7" in words and "readability-identifier-naming" in words


def test_a_source_without_fault_is_clean(tmp_path):
    assert tidy(tmp_path, "#include <string>\nint Size(const std::string& text) { return text.empty() ? 0 : 1; }\n")[0]


def test_a_command_of_a_niced_thread_is_niced_with_its_whole_session():
    told = []
    wait = """nice; for turn in $(seq 200); do
        grep -q "nice $(nice)$" /proc/self/autogroup && break; sleep 0.05; done; cat /proc/self/autogroup"""

    def run():
        os.nice(7)
        told.extend(console.execute(["sh", "-c", wait], keep=True, quiet=True)[1])
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert told[0] == str(os.getpriority(os.PRIO_PROCESS, 0) + 7)
    if os.path.exists("/proc/self/autogroup"):  # A kernel that schedules sessions as groups.
        assert told[1].endswith(f"nice {told[0]}")
