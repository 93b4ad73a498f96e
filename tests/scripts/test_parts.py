"""The four parts of --all: nothing is in none or in two of them, and they are of one commit."""

import console
import parts
import pipeline
import progress
import pytest
import results
import scenarios
import seeds
import tiers
import whole
from account import Run
from results import FAILED, PASSED, Test
from schedule import Step

NOTHING_KNOWN = {"steps": {}, "tests": {}, "runs": []}
SCENARIOS = [f"tests/e2e/test_{file}.py::test_{number}" for file in "abcdefgh" for number in range(20)]


def test_everything_is_in_one_part_and_none_is_much_heavier():
    seconds = parts.weights(SCENARIOS, NOTHING_KNOWN)
    lists = parts.split(seconds)
    assert sorted(name for one in lists for name in one) == sorted(seconds)
    sums = [sum(seconds[name] for name in one) for one in lists]
    assert len(lists) == parts.PARTS and max(sums) <= 1.35 * min(sums)
    assert parts.split(dict(reversed(seconds.items()))) == lists


def test_measured_seconds_count():
    known = {**NOTHING_KNOWN, "steps": {"all fuzz": [10, 30]}, "tests": {SCENARIOS[0]: 1000.0}}
    seconds = parts.weights(SCENARIOS, known)
    assert seconds["fuzz"] == 30
    assert seconds["tests/e2e/test_a.py"] == 500 + 19 * parts._SCENARIO_SECONDS / 2


def test_the_parts_of_a_commit_are_split_once(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(parts.durations, "history", lambda: NOTHING_KNOWN)
    made = parts.plan("abc", SCENARIOS, "7")
    monkeypatch.setattr(parts.durations, "history", lambda: {**NOTHING_KNOWN, "steps": {"all dev": [9000]}})
    assert parts.plan("abc", SCENARIOS, "7") == made
    assert parts.plan("def", SCENARIOS, "7") != made
    assert sorted(sum(parts.plan("abc", SCENARIOS[:20], "7"), [])) != sorted(sum(made, []))  # Other tests: another split.


def test_a_split_that_is_not_written_to_its_end_leaves_the_one_before(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(parts.durations, "history", lambda: NOTHING_KNOWN)
    parts.plan("abc", SCENARIOS, "7")
    kept, = ((path, path.read_text()) for path in (tmp_path / "all").iterdir())

    def disk_is_full(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[:10])
        raise OSError("disk is full")
    monkeypatch.setattr(type(tmp_path), "write_text", disk_is_full)
    with pytest.raises(OSError, match="disk is full"):
        parts.plan("abc", SCENARIOS[:20], "7")
    assert kept[0].read_text() == kept[1]


@pytest.mark.parametrize("text,want", [("1/4", 1), ("4/4", 4), ("0/4", None), ("5/4", None), ("1/3", None), ("x", None)])
def test_a_part_is_named_by_its_number_of_four(text, want):
    if want:
        assert parts.parse(text) == want
    else:
        with pytest.raises(console.Failure, match="not a part"):
            parts.parse(text)


def test_parts_that_begin_on_different_days_draw_the_same_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(parts.durations, "history", lambda: NOTHING_KNOWN)
    monkeypatch.setattr(seeds, "of_today", lambda: "20261125")
    assert parts.take_seed("abc", {}) == "20261125"
    parts.plan("abc", SCENARIOS, "20261125")
    monkeypatch.setattr(seeds, "of_today", lambda: "20261126")
    environment = {}
    assert parts.take_seed("abc", environment) == environment[seeds.VARIABLE] == "20261125"
    assert parts.take_seed("def", {}) == "20261126"
    assert parts.take_seed("abc", {seeds.VARIABLE: "7"}) == "7"


ITEMS = [*parts.OTHERS, "f.py"]


def _report(number, commit="abc", passed=True, tests=("f.py::s1", "f.py::s2"), items=(), unused=()):
    return {"part": f"{number}/4", "commit": commit, "passed": passed, "tests": {name: "passed" for name in tests},
            "items": list(items or ITEMS), "unused": list(unused)}


@pytest.mark.parametrize("change,words", [
    ({}, None), ({2: None}, "part 2/4 has no report"),
    ({1: _report(1, passed=False)}, "part 1/4 failed"),
    ({number: _report(number, "abc+") for number in range(1, 5)}, "no commit has"),
    ({number: _report(number, tests=("f.py::s1",)) for number in range(1, 5)}, "1 scenarios are in no report: f.py::s2"),
    ({number: _report(number, items=ITEMS[1:]) for number in range(1, 5)}, f"1 items are in no report: {ITEMS[0]}"),
    ({1: _report(1, unused=[["get a", "get b"], ["get a"]]), 2: _report(2, unused=[["get a"]])}, "used in no part: get a"),
    ({1: _report(1, unused=[["get a", "get b"], ["get a"]]), 2: _report(2, unused=[["get b"]])}, None),
])
def test_four_reports_are_one_whole(change, words):
    found = {number: _report(number) for number in range(1, 5)} | change
    wrong = parts.judge({number: report for number, report in found.items() if report}, ["f.py::s1", "f.py::s2"])
    assert (not wrong) if words is None else any(words in line for line in wrong)


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    """--all without anything to run: each part finds what the test says."""
    finds = {"scenarios": Test("tests/e2e/test_a.py::test_0", PASSED)}
    commit = ["abc"]
    for module, name, value in (
            (console, "cache_dir", lambda: tmp_path / "cache"), (results, "ROOT", tmp_path), (console, "ROOT", tmp_path),
            (whole.durations, "commit", lambda: commit[0]), (whole.capacity, "require", lambda **_: None),
            (whole.packages, "require_root", lambda: None), (whole, "_all_scenarios", lambda: [finds["scenarios"].id]),
            (whole, "_judge_promises", lambda found: []), (whole.changed, "bed_digest", lambda: "digest"),
            (whole.changed, "bed_passed", lambda digest: None),
            (whole.scenarios, "read", lambda: [])):
        monkeypatch.setattr(module, name, value)

    def part_steps(run, items):
        def work():
            with tiers.tier("scenarios", run.tiers) as this:
                results.fresh_folder(this.name).joinpath("pytest.log").write_text(" ".join(items))
                this.tests, this.ran = [finds["scenarios"]], True
        return [Step("scenarios", work)]
    monkeypatch.setattr(whole, "part_steps", part_steps)
    monkeypatch.setenv(seeds.VARIABLE, "7")
    return finds, commit


def test_reports_of_another_commit_are_none(world, capsys):
    _, commit = world
    assert whole.run()
    assert "four parts passed at commit abc" in capsys.readouterr().out
    commit[0] = "def"
    assert whole.run("3/4")  # It passed, and says nothing of the others.
    assert "--all:" not in capsys.readouterr().out
    assert [whole.run(f"{number}/4") for number in (1, 2, 4)] == [True] * 3
    assert "four parts passed at commit def" in capsys.readouterr().out


def test_the_output_of_a_part_outlasts_the_other_parts(world, tmp_path):
    finds, _ = world
    finds["scenarios"] = Test("tests/e2e/test_a.py::test_0", FAILED)
    assert not whole.run()
    logs = [path.read_text() for path in sorted((tmp_path / "build/results/all").glob("*/scenarios/pytest.log"))]
    assert len(logs) == parts.PARTS and sorted(" ".join(logs).split()) == sorted(
        " ".join([*parts.OTHERS, "tests/e2e/test_a.py"]).split())


def test_every_item_has_its_step():
    run = Run("test --all 1/4")
    steps = [step.name for step in whole.part_steps(run, [*parts.OTHERS, "tests/e2e/test_a.py"])]
    assert {f"all {name}" for name in parts.OTHERS} < set(steps)
    assert steps[-1] == "journeys again" and "scenarios moves" in steps
    assert progress.forecast(whole.part_steps(run, list(parts.OTHERS)), {}, {}, NOTHING_KNOWN) > 600


def test_scenarios_that_promise_seconds_run_when_nothing_else_does(monkeypatch):
    ran = {}
    monkeypatch.setattr(tiers, "run_e2e", lambda into, name, paths, extra, env, may_be_empty: ran.update(
        {name: ({path.name for path in paths}, extra[1], env)}))
    files = [f"tests/e2e/test_{name}.py" for name in ("mover_cancels", "mover", "round_trip")]
    steps = {step.name: step for step in whole.part_steps(Run("test --all 1/4"), files) if step.name.startswith("scenarios")}
    assert steps["scenarios quiet"].after == ("scenarios", "scenarios moves")
    for step in steps.values():
        step.run()
    others = {"test_mover.py", "test_round_trip.py"}
    tells = whole.TELLS.rsplit("/", 1)[-1]
    assert ran == {"scenarios": (others, "(not moves) and not long", whole.PART),
                   "scenarios moves": ({*others, tells}, "(moves) and not long", whole.PART),
                   "scenarios quiet": ({"test_mover_cancels.py", tells}, "(moves or not moves) and not long",
                                       {**whole.PART, **tiers.QUIET})}


def test_helpers_that_promise_seconds_are_known():
    assert scenarios.is_declared(whole.TELLS)
    for path in (console.ROOT / "tests" / "e2e").glob("test_*.py"):
        if parts.has(path, "check_canceled("):  # Of moving.py, the one helper that promises some.
            assert parts.promises_seconds(path), path.name
    helpers = [path.name for path in (console.ROOT / "tests" / "e2e").glob("*.py")
               if parts.promises_seconds(path) and not path.name.startswith("test_")]
    assert sorted(helpers) == ["conftest.py", "moving.py"]


def test_the_graphs_of_test_and_ci_are_whole(monkeypatch):
    monkeypatch.setattr(pipeline.changed, "bed_changed", lambda: (False, "why"))
    for make, tiers in ((pipeline.test_steps, pipeline.TEST_TIERS), (pipeline.ci_steps, pipeline.CI_TIERS)):
        steps = make(Run("ci"))
        assert progress.forecast(steps, {}, {}, NOTHING_KNOWN) > 600  # A first run has a forecast, too.
        names = [step.name for step in steps]
        assert len(set(names)) == len(names) and set(tiers) <= set(names)
