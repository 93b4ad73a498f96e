"""What is kept of a run, what its last lines say, and what is run again."""

import json

import account
import capacity
import console
import durations
import flaky
import pytest
import pytests
import results
import seeds
import tiers
from results import FAILED, PASSED, OptionalTests, Test, Tier
from scenarios import Scenario

NOTHING = OptionalTests({})


@pytest.fixture(name="kept")
def fixture_kept(tmp_path, monkeypatch):
    """A cache and a folder of results of this test's own."""
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(results, "results_folder", lambda: tmp_path / "results")
    monkeypatch.setattr(console, "ROOT", tmp_path)
    monkeypatch.setattr(capacity, "ROOT", tmp_path)
    monkeypatch.setattr(durations, "commit", lambda: "abc")
    monkeypatch.setenv(seeds.VARIABLE, "20261125")
    return tmp_path


def test_durations_of_tests_tiers_and_steps_are_kept(kept):
    run = account.Run("test")
    run.tiers = [Tier("unit", [Test("a::A.A", PASSED, seconds=2.5), Test("a::A.B", PASSED, seconds=0.5)], 3.0, ran=True)]
    run.steps = {"unit": 3.1, "go bed": 200.0}
    assert run.account(optional=NOTHING)
    document = json.loads((kept / "results" / "durations.json").read_text())
    assert document["tests"] == {"unit": {"a::A.A": 2.5, "a::A.B": 0.5}}
    assert document["tiers"] == {"unit": 3.0} and document["steps"]["go bed"] == 200.0
    assert durations.history()["steps"]["go bed"] == [200.0]
    assert durations.expected("go bed", durations.history()) == 200.0
    durations.record("test x", run.tiers, {"go bed": 1.0}.items(), 5.0, whole=False)
    assert durations.history()["steps"]["go bed"] == [200.0]  # A filtered run says nothing of a whole one.


def test_the_history_forgets_and_a_torn_one_is_none(kept):
    for seconds in range(9):
        durations.record("test", [], {"s": float(seconds)}.items(), 1.0)
    assert durations.history()["steps"]["s"] == [4.0, 5.0, 6.0, 7.0, 8.0]
    (kept / "cache" / "durations.json").write_text("{")
    assert durations.history()["runs"] == []


def test_the_slowest_come_first(kept, capsys):
    del kept
    run = account.Run("test")
    run.tiers = [Tier("unit", [Test(f"a::A.T{n}", PASSED, seconds=n) for n in range(40)], 3.0, ran=True)]
    run.account(optional=NOTHING)
    lines = capsys.readouterr().out.splitlines()
    first = next(number for number, line in enumerate(lines) if "25 slowest" in line)
    assert lines[first + 1].split() == ["39.0", "s", "a::A.T39", "(unit)"]
    assert lines[first + 25].split()[2] == "a::A.T15"


def test_a_failure_ends_with_the_command_that_repeats_it(kept, capsys):
    del kept
    run = account.Run("test")
    run.tiers = [Tier("e2e", [Test("tests/e2e/a.py::test_x[1]", FAILED), Test("a::A.B", FAILED)], 3.0, ran=True)]
    assert not run.account(optional=NOTHING)
    shown = capsys.readouterr().out
    assert "CSI_DELTA_SWEEP=20261125 ./dev test 'tests/e2e/a.py::test_x[1]'" in shown
    assert "CSI_DELTA_SWEEP=20261125 ./dev test a::A.B" in shown
    assert shown.splitlines()[-1] == "0 passed, 2 failed, 0 skipped"


def test_a_test_of_another_verb_is_repeated_by_that_verb(kept, capsys):
    del kept
    run = account.Run("ci")
    run.tiers = [Tier("asan", [Test("a::A.B", FAILED)], ran=True), Tier("rustic", [Test("rustic::x", FAILED)], ran=True)]
    run.account(optional=NOTHING)
    again = [line for line in capsys.readouterr().out.splitlines() if line.startswith("again: ")]
    assert again == ["again: CSI_DELTA_SWEEP=20261125 ./dev asan a::A.B", "again: ./dev interop"]


def test_a_required_tier_that_did_not_run_says_what_kept_it(kept, capsys):
    del kept
    run = account.Run("test")
    run.step_failures = {"unit": "build unit tests failed"}
    run.tiers = [Tier("checks", [Test("checks::fmt", PASSED)], ran=True)]
    assert not run.account(["checks", "unit"], NOTHING)
    assert "required tier unit did not run: build unit tests failed" in capsys.readouterr().out


def test_a_step_that_broke_fails_the_run_and_is_told_once(kept, capsys):
    del kept
    run = account.Run("test")
    run.step_failures = {"checks": "ZeroDivisionError: division by zero", "all unit": "no compiler"}
    run.tiers = [Tier("checks", ran=True), Tier("unit")]
    assert not run.account(["checks", "unit"], NOTHING)
    shown = capsys.readouterr().out
    assert "dev: checks: ZeroDivisionError: division by zero" in shown
    assert "dev: required tier unit did not run: no compiler" in shown and "all unit" not in shown
    assert shown.splitlines()[-1] == "0 passed, 2 failed, 0 skipped"


def test_a_flaky_test_is_named_and_recorded(kept, capsys):
    run = account.Run("test")
    run.flaky = ["tests/e2e/a.py::test_x"]
    run.tiers = [Tier("journeys", [Test("tests/e2e/a.py::test_x", PASSED)], 3.0, ran=True)]
    assert run.account(optional=NOTHING)
    assert "flaky: tests/e2e/a.py::test_x" in capsys.readouterr().out.splitlines()[-3]
    line = (kept / "cache" / "flaky.txt").read_text()
    assert line.split()[1:] == ["tests/e2e/a.py::test_x"]


def test_more_than_three_flaky_names_in_ten_runs_are_too_many(kept):
    for name in "abc":
        durations.record("test", [Tier("journeys")], (), 1.0)
        flaky.add([name, name])
    assert flaky.recent() == ["a", "b", "c"] and not flaky.complaint()
    flaky.add(["d"])
    assert "4 flaky names" in flaky.complaint()
    (kept / "cache" / "flaky.txt").write_text("".join(f"2020-01-01T00:00:00Z {name}\n" for name in "abcd"))
    for _ in range(flaky.RUNS):
        durations.record("test", [Tier("journeys")], (), 1.0)
    assert flaky.recent() == []  # They are of earlier runs.


def test_the_flaky_names_of_a_run_count_in_it(kept):
    del kept
    flaky.add("abc")
    run = account.Run("test --all 1/4")
    run.flaky = ["d"]
    run.tiers = [Tier("scenarios", [Test("d", PASSED)], ran=True)]
    assert not run.account(optional=NOTHING, counts_flaky=True)
    assert run.account(optional=NOTHING)


def test_runs_without_journeys_make_no_flaky_name_old(kept):
    del kept
    flaky.add("a")
    for tier in ["scenarios"] + ["unit"] * 60:
        durations.record("test", [Tier(tier)], (), 1.0)
    assert [run["journeys"] for run in durations.history()["runs"]] == [True]


def test_promises_of_unit_tests_are_proven_by_every_run_and_others_where_they_ran():
    promises = [Scenario(name, "text", test) for name, test in (
        ("1", "A.A"), ("2", "tests/e2e/a.py::test_x"), ("3", "tests/e2e/a.py::test_y"), ("4", "R.B"))]
    ran = [Test("tests/e2e/a.py::test_x[1]", PASSED), Test("restic_test::All/R.B/bookworm", PASSED)]
    assert [one.id for one in account.promised_here(promises, ran, {"A.A"})] == ["1", "2", "4"]


def _failed(*names, never_retry=False):
    return [Test(name, FAILED, never_retry=never_retry) for name in names]


@pytest.mark.parametrize("tests,retried", [
    (_failed("j1", "j2"), ["j1", "j2"]),
    (_failed("other"), []),
    (_failed("j1") + _failed("j2", never_retry=True), []),
    (_failed("j1", "j2", "j3", "j4", "j5", "j6"), []),
    ([Test("j1", PASSED)], []),
])
def test_only_a_few_journeys_that_lost_nothing_run_again(tests, retried):
    journeys = {f"j{number}" for number in range(1, 9)}
    assert [test.id for test in pytests.to_retry(tests, journeys)[0]] == retried


def test_a_repeated_test_still_promises_its_seconds(monkeypatch):
    quiet = {}
    monkeypatch.setattr(pytests, "run", lambda this, paths, env, **_: quiet.update({paths[0].name: "CSI_DELTA_QUIET" in env}))
    lanes = [Tier("scenarios", _failed("a.py"), ran=True), Tier("scenarios quiet", _failed("b.py"), ran=True)]
    tiers.run_again(lanes, _failed("a.py", "b.py"))
    assert quiet == {"a.py": False, "b.py": True}


def test_the_seed_of_the_day_is_the_date_unless_the_caller_chose():
    environment = {}
    assert seeds.set_once(environment) == seeds.of_today() == environment[seeds.VARIABLE]
    assert seeds.set_once({seeds.VARIABLE: "all"}) == "all"
    assert seeds.of_today(0) == "19700101"


def test_too_little_disk_or_memory_is_said_with_what_there_is(kept, monkeypatch):
    monkeypatch.setenv("GOCACHE", str(kept / "go-build"))
    monkeypatch.setenv("GOMODCACHE", str(kept / "go-mod"))
    gib = 1 << 30
    capacity.require(6, 3, 6, 4, lambda path: 15 * gib, lambda path: 1, lambda: 8 * gib)
    with pytest.raises(console.Failure, match=r"15\.0 GiB more of disk for .*build, .*cache, .*go-build, .*go-mod, there are "
                                              r"3\.0; and 4 GiB of memory, there are 2\.0"):
        capacity.require(6, 3, 6, 4, lambda path: 3 * gib, lambda path: 1, lambda: 2 * gib)
    with pytest.raises(console.Failure, match=r"6\.0 GiB more of disk for \S*build, there are 5\.0$"):  # Four disks.
        capacity.require(6, 3, 6, 4, lambda path: 5 * gib, str, lambda: 8 * gib)
    (kept / "build").mkdir()
    (kept / "build" / "object").write_bytes(b"x" * (3 << 20))
    assert capacity._used_bytes(kept / "build") >= 3 << 20  # What is there already is used again.
