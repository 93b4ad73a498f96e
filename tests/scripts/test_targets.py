"""A test judges what was just built: CMake knows which programs each test program runs."""

import re

import build
import conftest
import console
import manifest
import prepare
import pytest
import tiers
import unit

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
    built, modules = [], []
    monkeypatch.setattr(build, "build", lambda preset, targets: built.append((preset, list(targets))))
    monkeypatch.setattr(prepare, "bed", modules.append)
    prepare.named(["a_test"])
    assert built.pop() == ("release", ["a_test"]) and not modules
    prepare.named(["a_test", "csi_sanity"])
    assert built.pop() == ("release", ["a_test", "csi_sanity"]) and modules.pop() == ["csi"]
    prepare.root_tests()
    assert modules == [["csi"]]


def test_each_unit_test_that_promises_seconds_is_found():
    """What asks whether nothing else runs is a test itself, in a source of a program with unit tests."""
    promising = {path for path in (conftest.ROOT / "tests").rglob("*") if path.suffix in (".cc", ".h")
                 and re.search("AssertsSeconds|CSI_DELTA_QUIET", path.read_text())}
    promising.remove(conftest.ROOT / "tests" / "support" / "await.h")
    assert len(promising) >= 4
    for path in promising:
        assert len(manifest.tests_with(str(path.relative_to(conftest.ROOT)), tiers.ASSERTS_SECONDS)) > 0, path
        programs = [words for _, words in _PROGRAM.findall((path.parent / "CMakeLists.txt").read_text()) if path.name in words]
        assert any("LABELS" not in words or re.search(r"LABELS[^)]*\bunit\b", words) for words in programs), path


def test_unit_tests_that_promise_seconds_run_alone(monkeypatch, tmp_path):
    (tmp_path / "a.cc").write_text("TEST(A, Waits) {\n}\n\nTEST_P(A, IsQuick) {\n  if (support::AssertsSeconds(\"2 s\")) {\n")
    (tmp_path / "b.cc").write_text("TEST(B, Waits) {\n}\n")
    monkeypatch.setattr(manifest, "ROOT", tmp_path)
    programs = {name: manifest.Program(f"{name}_test", "tests/x", sources=(f"{name}.cc",), labels=frozenset({"unit"})) for name in "ab"}
    monkeypatch.setattr(manifest, "read", lambda: {program.name: program for program in programs.values()})
    ran = []
    monkeypatch.setattr(unit, "run_programs", lambda this, chosen, run: ran.append((chosen, run)))
    tiers.run_unit_quiet([])
    (chosen, run), = ran
    assert chosen == [programs["a"]] and run.only == {"a_test": manifest.gtest_patterns("A.IsQuick")}
    assert run.at_once == 1 and run.env["CSI_DELTA_QUIET"] == "1"


def test_a_helper_does_not_promise_seconds_for_a_test(monkeypatch, tmp_path):
    (tmp_path / "a.cc").write_text("TEST(A, B) {\n}\n\nvoid Helper() {\n  support::AssertsSeconds(\"2 s\");\n}\n")
    monkeypatch.setattr(manifest, "ROOT", tmp_path)
    with pytest.raises(console.Failure, match="stands in no test itself"):
        manifest.tests_with("a.cc", tiers.ASSERTS_SECONDS)
