"""How pytest is run: its failures in full, its counts for the line, and nothing of what passed."""

import sys
import threading

import console
import progress
import pytest
import pytests
import results
from results import FAILED, PASSED, SKIPPED, Tier

TESTS = """import pytest

def test_good():
    print("words of the good one")

@pytest.mark.parametrize("x", [1, 2])
def test_bad(x):
    print("words of the bad one")
    assert x == 1

@pytest.fixture
def tidy():
    yield
    raise RuntimeError("something is left")

def test_left(tidy):
    pass

def test_skipped():
    pytest.skip("no tool")

def test_lost(record_property):
    record_property("never_retry", "lost data")
    assert False
"""


@pytest.fixture(name="folder")
def fixture_folder(tmp_path, monkeypatch):
    (tmp_path / "results" / "logs").mkdir(parents=True)
    (tmp_path / "test_some.py").write_text(TESTS)
    monkeypatch.setattr(results, "results_folder", lambda: tmp_path / "results")
    monkeypatch.setattr(pytests, "ROOT", tmp_path)
    monkeypatch.setattr(pytests, "PYTHON", sys.executable)
    return tmp_path


def test_failures_are_shown_in_full_and_nothing_else(folder, capsys):
    tier, board = Tier("s3"), progress.Board(say=lambda line: None)
    with board.part("s3") as part:
        pytests.run(tier, [folder / "test_some.py"], limit_seconds=60)
        assert (part.done, part.total) == (6, 6)
    outcomes = {test.id.split("::")[1]: (test.outcome, test.never_retry) for test in tier.tests}
    assert outcomes == {"test_good": (PASSED, False), "test_bad[1]": (PASSED, False), "test_bad[2]": (FAILED, False),
                        "test_left": (FAILED, True), "test_skipped": (SKIPPED, False), "test_lost": (FAILED, True)}
    shown = capsys.readouterr().out
    assert "words of the bad one" in shown and "something is left" in shown
    assert "words of the good one" not in shown and "PASSED" not in shown
    assert "words of" in (folder / "results" / "s3" / "pytest.log").read_text()


def test_a_run_that_finds_nothing_to_run_is_a_failure_unless_it_may(folder):
    with pytest.raises(console.Failure, match="code 5"):
        pytests.run(Tier("s3"), [folder / "test_some.py"], extra=["-k", "no_such"], limit_seconds=60)
    tier = Tier("s3")
    pytests.run(tier, [folder / "test_some.py"], extra=["-k", "no_such"], limit_seconds=60, may_be_empty=True)
    assert tier.ran and not tier.tests


def test_tests_are_collected_by_name(folder):
    found = pytests.collect([folder / "test_some.py"], "-k", "bad")
    assert [name.rsplit("/", 1)[-1] for name in found] == ["test_some.py::test_bad[1]", "test_some.py::test_bad[2]"]


def test_a_run_that_is_ended_has_shown_what_failed_before(folder, monkeypatch):
    (folder / "test_slow.py").write_text("import time\n\ndef test_a():\n    assert False, 'early'\n\n"
                                         "def test_slow():\n    time.sleep(600)\n")
    ended, shown = threading.Event(), []
    monkeypatch.setattr(console, "INTERRUPTED", ended)
    monkeypatch.setattr(pytests, "say", lambda line: (shown.append(line), ended.set()))
    with pytest.raises(console.Stopped):
        pytests.run(Tier("s3"), [folder / "test_slow.py"], limit_seconds=60)
    assert shown[0].startswith("failed: ")
    assert any("early" in text for text in shown[1:])  # pytest was asked to end, and told what it knew.
