"""A test judges what was just built: CMake knows which programs each test program runs."""

import re

import build
import conftest
import prepare

SHIPPED = {"velero-plugin-for-csi-delta", "csi-delta"}
_PROGRAM = re.compile(r"csidelta_tests\(NAME (\w+)([^()]*)")
_DEPENDENCIES = re.compile(r"add_dependencies\(([\w${}]+) ([^)]*)\)")
_RUNS = re.compile(r'\bBuiltProgram\("([\w-]+)"\)|build/release/bin/([\w-]+)')


def _dependencies(text):
    found = {}
    for target, names in _DEPENDENCIES.findall(text):
        found.setdefault(target, set()).update(names.split())
    return found


def test_a_test_program_is_built_after_the_programs_that_it_runs():
    seen = set()
    for listing in sorted((conftest.ROOT / "tests").glob("*/CMakeLists.txt")):
        text = listing.read_text()
        for name, words in _PROGRAM.findall(text):
            sources = [(listing.parent / word).read_text() for word in words.split() if word.endswith(".cc")]
            runs = {one or other for source in sources for one, other in _RUNS.findall(source)}
            assert runs <= _dependencies(text).get(name, set()), name
            seen |= runs
    assert SHIPPED < seen


def test_the_tiers_that_run_what_is_shipped_build_it():
    text = (conftest.ROOT / "cmake" / "Targets.cmake").read_text()
    (labels,) = re.findall(r"foreach\(label ([\w ]+)\)[^\n]*\n\s*add_dependencies\(csidelta_\${label}_tests velero", text)
    assert set(labels.split()) == {"root", "restic", "real"}
    assert SHIPPED <= _dependencies(text)["csidelta_${label}_tests"]


def test_commands_are_built_as_programs_are(monkeypatch):
    built = []
    monkeypatch.setattr(build, "build", lambda preset, targets: built.append((preset, list(targets))))
    prepare.named(["a_test", "csi_sanity"])
    assert built == [("release", ["a_test", "csi_sanity"])]
