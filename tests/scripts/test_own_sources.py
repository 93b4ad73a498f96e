"""clang-tidy, as ./dev lint runs it, finds what it is there for, and once. Run where clang-tidy is: ./dev ci."""

import subprocess

import console
import lint
import pytest
from conftest import write

pytestmark = pytest.mark.clang_tidy

HEADER = "#include <string>\nclass Thing {\n public:\n  int Size() const { return size; }\n\n private:\n  int size = 0;\n};\n"
FAULTY = """#include <string>
#include <utility>
#include "lib/thing.h"
int Use(std::string text) {
  const std::string moved = std::move(text);
  return static_cast<int>(text.size() + moved.size()) + Thing().Size();
}
"""
FAULTS = ("use.cc:6", "bugprone-use-after-move", "thing.h:7", "readability-identifier-naming")
CLEAN = "#include <string>\nint Size(const std::string& text) { return text.empty() ? 0 : 1; }\n"
IMPLICIT = "struct Box {\n  Box(int size);\n};\n"  # A fault of the product, and none of a test.


@pytest.fixture(name="tree", scope="module")
def _tree(tmp_path_factory):
    """A folder, and the environment by which ccache judges sources in it."""
    folder = tmp_path_factory.mktemp("tree")
    (folder / "tests/lib").mkdir(parents=True)
    write(folder, {".clang-tidy": (console.ROOT / ".clang-tidy").read_text(), "src/lib/thing.h": HEADER})
    return folder, console.environment({**lint.environment(folder), "CCACHE_DIR": folder / "ccache"})


def judge(tree, sources, united=None, **changed):
    """(clean?, words) of a source {path: text}, or of some as cmake/Targets.cmake unites them."""
    folder, environment = tree
    write(folder, sources)
    if united:
        lines = [f'#include "{name.removeprefix("src/")}"\n' for name in sources]
        check = "bugprone-suspicious-include"
        (folder / united).write_text(f"// NOLINTBEGIN({check})\n{''.join(lines)}// NOLINTEND({check})\n")
    command = ["ccache", "clang++-14", "-std=c++20", f"-I{folder}/src", f"-I{folder}", "-MD", "-MF", "made.d", "-o", "made.o",
               "-c", united or [*sources][-1]]
    done = subprocess.run(command, cwd=folder, env={**environment, **changed}, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


@pytest.mark.parametrize("united", [None, "lib_united.cc"])
def test_faults_of_a_source_and_of_its_headers_are_found(tree, united):
    clean, words = judge(tree, {"src/lib/fine.cc": CLEAN, "src/lib/use.cc": FAULTY}, united)
    assert not clean and "fine.cc" not in words
    assert [fault for fault in FAULTS if fault not in words] == []


@pytest.mark.parametrize("name, text, clean", [
    ("src/lib/fine.cc", CLEAN, True), ("src/lib/box.cc", IMPLICIT, False), ("tests/lib/box.cc", IMPLICIT, True)])
def test_united_sources_are_judged_by_the_rules_of_their_folder(tree, name, text, clean):
    """The source that unites them lies in build/, where clang-tidy would take the rules of the product."""
    assert judge(tree, {name: text}, "some_united.cc")[0] == clean


def test_a_result_is_kept_until_something_that_it_depends_on_changes(tree):
    source = {"src/lib/kept.cc": '#include "lib/kept.h"\n' + CLEAN}
    header = tree[0] / "src" / "lib" / "kept.h"
    header.write_text("int One(int size);\n")
    assert judge(tree, source)[0]
    assert judge(tree, source, CCACHE_PREFIX="false")[0]
    header.write_text("int One(int Size);\n")
    assert not judge(tree, source)[0]
