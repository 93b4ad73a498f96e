"""clang-tidy with the project's plugin still finds what it is there for. Run where clang-tidy is: ./dev ci."""

import json
import shutil

import console
import lint
import pytest

pytestmark = pytest.mark.clang_tidy

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


def judge(folder, file):
    """(clean?, words) of a source, judged by the project's rules."""
    shutil.copy(console.ROOT / ".clang-tidy", folder)
    entry = {"file": str(file), "directory": str(folder),
             "command": f"clang++-14 -std=c++20 -I{folder}/src -c {file}"}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    return lint._tidy_one(lint._plugin(), folder, entry)


def tidy(folder, source):
    """The same of a text below folder/src."""
    (folder / "src").mkdir()
    (folder / "src" / "thing.h").write_text(HEADER)
    file = folder / "src" / "use.cc"
    file.write_text(source)
    return judge(folder, file)


def test_faults_of_a_source_and_of_its_headers_are_found(tmp_path):
    clean, words = tidy(tmp_path, SOURCE)
    assert not clean
    assert "use.cc:6" in words and "bugprone-use-after-move" in words
    assert "thing.h:7" in words and "readability-identifier-naming" in words


CLEAN = "#include <string>\nint Size(const std::string& text) { return text.empty() ? 0 : 1; }\n"


def unite(folder, **sources):
    """A library of these sources, united as cmake/Targets.cmake does it."""
    (folder / "src" / "lib").mkdir(parents=True)
    (folder / "src" / "lib" / "thing.h").write_text(HEADER)
    for name, text in sources.items():
        (folder / "src" / "lib" / f"{name}.cc").write_text(text)
    united = folder / "lib_united.cc"
    united.write_text("// NOLINTBEGIN(bugprone-suspicious-include)\n"
                      + "".join(f'#include "lib/{name}.cc"\n' for name in sources)
                      + "// NOLINTEND(bugprone-suspicious-include)\n")
    return united


def test_faults_of_each_source_are_found_where_they_are_compiled_as_one(tmp_path):
    clean, words = judge(tmp_path, unite(tmp_path, fine=CLEAN, use=SOURCE))
    assert not clean
    assert "use.cc:6" in words and "bugprone-use-after-move" in words
    assert "thing.h:7" in words and "readability-identifier-naming" in words
    assert "fine.cc" not in words


def test_to_be_united_is_no_fault(tmp_path):
    assert judge(tmp_path, unite(tmp_path, fine=CLEAN))[0]


def test_a_source_is_chosen_by_its_own_name_where_it_is_united(tmp_path):
    entry = {"file": str(unite(tmp_path, fine=CLEAN))}
    assert lint._matches(tmp_path, entry, "^src/lib/fine")
    assert lint._matches(tmp_path, entry, "lib_united")
    assert not lint._matches(tmp_path, entry, "^src/lib/other")


def test_a_source_without_fault_is_clean(tmp_path):
    assert tidy(tmp_path, CLEAN)[0]
