"""The mutant runner's own judgement: headers, verdicts, and the copy of the tree it works in."""

import pathlib
import subprocess

import console
import mutants
import pytest
from results import FAILED, PASSED, SKIPPED, Test

WHOLE = "Scenario: 1\nTest: a_test::A.B\nBreaks: it\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n"


def test_header():
    mutant = mutants.parse(pathlib.Path("tests/mutants/no_watch.patch"), WHOLE)
    assert (mutant.name, mutant.scenario, mutant.test, mutant.breaks) == ("no_watch", "1", "a_test::A.B", "it")


@pytest.mark.parametrize("text,words", [
    (WHOLE.split("diff")[0], "holds no diff"),
    (WHOLE.replace("Test: a_test::A.B\n", ""), "`Test: ...`"),
    (WHOLE.replace("Breaks: it", "Breaks: "), "`Breaks: ...`"),
])
def test_broken_header(text, words):
    with pytest.raises(console.Failure, match=words):
        mutants.parse(pathlib.Path("a.patch"), text)


@pytest.mark.parametrize("outcomes,want", [
    ([("t", PASSED)], PASSED), ([("t[1]", PASSED), ("t[2]", FAILED)], FAILED), ([("t/0", FAILED)], FAILED),
    ([("t", SKIPPED)], SKIPPED), ([("other", FAILED)], None), ([("tt", FAILED)], None), ([], None),
])
def test_outcome_of_the_named_test_only(outcomes, want):
    assert mutants.outcome_of("t", [Test(name, outcome) for name, outcome in outcomes]) == want


def test_a_set_up_that_failed_is_no_outcome():
    assert mutants.outcome_of("t", [Test("t", FAILED, 'failed on setup with "BedError"')]) is None
    assert mutants.outcome_of("t", [Test("t", FAILED, 'failed on teardown with "BedError"')]) == FAILED


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A scratch copy of a small tree; git and the build are not needed for it."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.cc").write_text("int a;\n")
    monkeypatch.setattr(mutants, "ROOT", source)
    monkeypatch.setattr(mutants.lint, "our_files", lambda *_: [path for path in source.rglob("*") if path.is_file()])
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    copy = mutants.Scratch()
    copy.root.mkdir(parents=True)
    copy.refresh()
    return copy


def test_refresh_undoes_a_patch_and_keeps_the_build(scratch, tmp_path):
    untouched = (scratch.root / "a.cc").stat().st_mtime_ns
    (scratch.root / "build").mkdir()
    (scratch.root / "build" / "a.o").write_text("object")
    (scratch.root / "new.cc").write_text("a patch made it\n")
    scratch.refresh()
    assert (scratch.root / "a.cc").stat().st_mtime_ns == untouched
    assert (scratch.root / "build" / "a.o").exists()
    assert not (scratch.root / "new.cc").exists()
    (scratch.root / "a.cc").write_text("int broken;\n")
    scratch.refresh()
    assert (scratch.root / "a.cc").read_text() == "int a;\n"


@pytest.mark.parametrize("patch,fits", [("-int a;\n+int b;\n", True), ("-int z;\n+int b;\n", False)])
def test_apply(scratch, tmp_path, patch, fits):
    path = tmp_path / "m.patch"
    path.write_text("Scenario: 1\nTest: t\nBreaks: b\n\ndiff --git a/a.cc b/a.cc\n--- a/a.cc\n+++ b/a.cc\n"
                    f"@@ -1 +1 @@\n{patch}")
    mutant = mutants.parse(path, path.read_text())
    if fits:
        scratch.apply(mutant)
        assert (scratch.root / "a.cc").read_text() == "int b;\n"
    else:
        with pytest.raises(console.Failure, match="does not apply"):
            scratch.apply(mutant)


@pytest.mark.parametrize("mutant", mutants.read_all().values(), ids=lambda mutant: mutant.name)
def test_every_patch_fits_the_tree(mutant):
    done = subprocess.run(["git", "apply", "--check", mutant.path], cwd=console.ROOT, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
