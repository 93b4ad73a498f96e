"""The four parts of --all: nothing is in none or in two of them, and they are of one commit."""

import console
import parts
import pipeline
import progress
import pytest
import whole
from account import Run

NOTHING_KNOWN = {"steps": {}, "tests": {}, "runs": []}
SCENARIOS = [f"tests/e2e/test_{file}.py::test_{number}" for file in "abcdefgh" for number in range(20)]


def test_everything_is_in_one_part_and_none_is_much_heavier():
    seconds = parts.weights(SCENARIOS, NOTHING_KNOWN)
    lists = parts.split(seconds)
    assert sorted(name for one in lists for name in one) == sorted(seconds)
    sums = [sum(seconds[name] for name in one) for one in lists]
    assert len(lists) == parts.PARTS and max(sums) <= 1.35 * min(sums)
    assert parts.split(dict(reversed(seconds.items()))) == lists


def test_what_was_measured_counts():
    known = {**NOTHING_KNOWN, "steps": {"all fuzz": [10, 30]}, "tests": {SCENARIOS[0]: 1000.0}}
    seconds = parts.weights(SCENARIOS, known)
    assert seconds["fuzz"] == 30
    assert seconds["tests/e2e/test_a.py"] == 500 + 19 * parts._SCENARIO_SECONDS / 2


def test_the_parts_of_a_commit_are_split_once(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(parts.durations, "history", lambda: NOTHING_KNOWN)
    made = parts.plan("abc", SCENARIOS)
    monkeypatch.setattr(parts.durations, "history", lambda: {**NOTHING_KNOWN, "steps": {"all dev": [9000]}})
    assert parts.plan("abc", SCENARIOS) == made
    assert parts.plan("def", SCENARIOS) != made
    assert sorted(sum(parts.plan("abc", SCENARIOS[:20]), [])) != sorted(sum(made, []))  # Other tests: another split.


def test_a_split_that_is_not_written_to_its_end_leaves_the_one_before(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(parts.durations, "history", lambda: NOTHING_KNOWN)
    parts.plan("abc", SCENARIOS)
    kept, = ((path, path.read_text()) for path in (tmp_path / "all").iterdir())

    def disk_is_full(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[:10])
        raise OSError("disk is full")
    monkeypatch.setattr(type(tmp_path), "write_text", disk_is_full)
    with pytest.raises(OSError, match="disk is full"):
        parts.plan("abc", SCENARIOS[:20])
    assert kept[0].read_text() == kept[1]


@pytest.mark.parametrize("text,want", [("1/4", 1), ("4/4", 4), ("0/4", None), ("5/4", None), ("1/3", None), ("x", None)])
def test_a_part_is_named_by_its_number_of_four(text, want):
    if want:
        assert parts.parse(text) == want
    else:
        with pytest.raises(console.Failure, match="not a part"):
            parts.parse(text)


def _report(number, commit="abc", passed=True, tests=("s1", "s2")):
    return {"part": f"{number}/4", "commit": commit, "passed": passed, "tests": {name: "passed" for name in tests}}


@pytest.mark.parametrize("change,words", [
    ({}, None), ({2: None}, "part 2/4 has no report"), ({3: _report(3, "def")}, "2 commits"),
    ({1: _report(1, passed=False)}, "part 1/4 failed"),
    ({number: _report(number, "abc+") for number in range(1, 5)}, "no commit has"),
    ({number: _report(number, tests=("s1",)) for number in range(1, 5)}, "1 scenarios are in no report: s2"),
])
def test_four_reports_are_one_whole(change, words):
    found = {number: _report(number) for number in range(1, 5)} | change
    wrong = parts.judge({number: report for number, report in found.items() if report}, ["s1", "s2"])
    assert (not wrong) if words is None else any(words in line for line in wrong)


def test_every_item_has_its_step():
    run = Run("test --all 1/4")
    steps = [step.name for step in whole.part_steps(run, [*parts.OTHERS, "tests/e2e/test_a.py"])]
    assert {f"all {name}" for name in parts.OTHERS} < set(steps)
    assert steps[-1] == "journeys again" and "scenarios moves" in steps
    assert progress.forecast(whole.part_steps(run, list(parts.OTHERS)), {}, {}, NOTHING_KNOWN) > 600


def test_the_graphs_of_test_and_ci_are_whole(monkeypatch):
    monkeypatch.setattr(pipeline.changed, "bed_changed", lambda: (False, "why"))
    for make, tiers in ((pipeline.test_steps, pipeline.TEST_TIERS), (pipeline.ci_steps, pipeline.CI_TIERS)):
        steps = make(Run("ci"))
        assert progress.forecast(steps, {}, {}, NOTHING_KNOWN) > 600  # A first run has a forecast, too.
        names = [step.name for step in steps]
        assert len(set(names)) == len(names) and set(tiers) <= set(names)
