"""Whole runs of ./dev test and ./dev ci, with tiers that only say what they would have found."""

import json

import ci
import console
import durations
import filters
import manifest
import pipeline
import pytest
import results
import seeds
from results import FAILED, PASSED, SKIPPED, Test, Tier

J1, J2, OTHER = "tests/e2e/test_a.py::test_j1", "tests/e2e/test_a.py::test_j2", "tests/e2e/test_b.py::test_bed"


class World:
    """What each tier finds, what the second run of a journey finds, and what ran in which order."""

    def __init__(self):
        self.finds = {name: [Test(f"{name}::one", PASSED, seconds=1.0)] for name in pipeline.TIER_NAMES}
        self.finds |= {"journeys": [Test(J1, PASSED)], "journeys moves": [Test(J2, PASSED)]}
        self.again = {}
        self.broken = set()  # Builds that fail.
        self.order = []

    def build(self, name):
        def run(*_, **__):
            self.order.append(name)
            if name in self.broken:
                raise console.Failure(f"{name} does not compile")
        return run

    def tier(self, name):
        def run(into, *_, **__):
            self.order.append(name)
            into.append(Tier(name, list(self.finds[name]), 1.0, ran=True))
        return run

    def scenarios(self, into, name, *_, **__):
        self.tier(name)(into)

    def run_again(self, tier, paths, **_):
        """Stands for pytest."""
        name = str(paths[0]).removeprefix(f"{console.ROOT}/")
        self.order.append(f"again {name}")
        tier.tests = [Test(name, self.again.get(name, PASSED))]
        tier.ran = True


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    world = World()
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(results, "results_folder", lambda: tmp_path / "results")
    monkeypatch.setattr(durations, "commit", lambda: "abc")
    monkeypatch.setenv(seeds.VARIABLE, "7")
    for name in ("programs", "real_tests", "unit_tests", "root_tests", "bed", "bed_without_old_velero", "old_velero", "hosts", "named"):
        monkeypatch.setattr(pipeline.prepare, name, world.build(name))
    monkeypatch.setattr(pipeline.prepare, "site", lambda: None)
    monkeypatch.setattr(pipeline.prepare.build, "build", lambda preset, *_: world.build(preset)())
    for name in ("unit", "host", "s3", "restic", "root", "image", "scripts", "docs"):
        monkeypatch.setattr(pipeline.tiers, f"run_{name}", world.tier(name))
    monkeypatch.setattr(pipeline.tiers, "run_sanitized", lambda into, preset: world.tier(preset)(into))
    monkeypatch.setattr(pipeline.tiers, "run_tidy_rules", world.tier("clang-tidy"))
    monkeypatch.setattr(pipeline.tiers, "run_e2e", world.scenarios)
    monkeypatch.setattr(pipeline.tiers.pytests, "run", world.run_again)
    monkeypatch.setattr(pipeline.pytests, "collect", lambda *_: [J1, J2])
    for name in ("format_sources", "check_house", "clang_tidy"):
        monkeypatch.setattr(pipeline.lint, name, lambda *_, **__: None)
    monkeypatch.setattr(pipeline.changed, "bed_changed", lambda: (False, "nothing has changed"))
    monkeypatch.setattr(ci.capacity, "require", lambda **_: None)
    monkeypatch.setattr(ci.packages, "require_root", lambda: None)
    monkeypatch.setattr(manifest, "read", lambda *_: {})
    monkeypatch.setattr("scenarios.read", lambda: [])
    return world


def test_a_good_run(world, capsys, tmp_path):
    assert ci.test()
    shown = capsys.readouterr().out
    assert "random seed of the day: CSI_DELTA_SWEEP=7" in shown
    assert "tests of the bed: left out: nothing has changed" in shown
    assert shown.splitlines()[-1] == f"{len(pipeline.TEST_TIERS) + 2} passed, 0 failed, 0 skipped"  # checks: three
    order = world.order
    assert order.index("programs") < order.index("real_tests") < order.index("unit_tests") < order.index("unit")
    assert order.index("bed_without_old_velero") < order.index("journeys") and order.index("real_tests") < order.index("journeys moves")
    assert not {"asan", "root", "old_velero"} & set(order)
    assert set(json.loads((tmp_path / "results" / "durations.json").read_text())["tiers"]) == set(pipeline.TEST_TIERS)


def test_ci_goes_on_where_test_ends_and_tells_its_time(world, capsys):
    assert ci.ci()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("./dev test: ") and line.endswith(" s") for line in lines)
    order = world.order
    assert all(order.index("asan") > order.index(name) for name in ("unit", "journeys", "host", "restic"))
    assert {"asan", "tsan", "clang-tidy", "image"} < set(order)
    assert order.index("journeys") < order.index("old_velero") < order.index("journeys old velero")


@pytest.mark.parametrize("run,tier", [(ci.test, "journeys"), (ci.ci, "journeys moves"), (ci.ci, pipeline.OLD_JOURNEYS)])
def test_a_journey_that_passes_alone_is_flaky_and_the_run_is_green(world, capsys, run, tier, tmp_path):
    world.finds[tier] = [Test(J1, FAILED)]
    assert run()
    assert f"again {J1}" in world.order
    assert f"flaky: {J1}" in "\n".join(capsys.readouterr().out.splitlines()[-4:])
    assert J1 in (tmp_path / "cache" / "flaky.txt").read_text()


@pytest.mark.parametrize("tests,again", [
    ([Test(J1, FAILED)], {J1: FAILED}),  # It fails again.
    ([Test(J1, FAILED)], {J1: SKIPPED}),
    ([Test(J1, FAILED, never_retry=True)], {}),  # It lost data, or its clean-up failed.
    ([Test(OTHER, FAILED)], {}),  # It is no journey.
])
def test_a_failure_that_is_not_flaky_stays_red(world, capsys, tests, again, tmp_path):
    world.finds["journeys"], world.again = tests, again
    assert not ci.test()
    shown = capsys.readouterr().out
    assert f"failed: {tests[0].id}" in shown and "flaky: " not in shown
    assert not (tmp_path / "cache" / "flaky.txt").exists()


@pytest.mark.parametrize("found,remembered", [
    (Test(OTHER, PASSED), ["before"]), (Test(OTHER, SKIPPED, "no tool"), []), (Test(OTHER, FAILED), [])])
def test_tests_of_the_bed_are_remembered_if_all_of_them_passed_as_the_files_were_before(world, monkeypatch, found, remembered):
    passed, states = [], iter(["before", "after"])
    world.finds["journeys"] = [Test(J1, PASSED), found]
    monkeypatch.setattr(pipeline.changed, "bed_changed", lambda: (True, "it has changed"))
    monkeypatch.setattr(pipeline.changed, "bed_digest", lambda: next(states))
    monkeypatch.setattr(pipeline.changed, "bed_passed", lambda digest="now": passed.append(digest))
    assert ci.test() == bool(remembered)
    assert passed == remembered


def test_ci_stops_at_the_first_failure_unless_told_to_go_on(world, capsys):
    world.finds["unit"] = [Test("a::A.A", FAILED)]
    assert not ci.ci()
    assert "asan" not in world.order
    shown = capsys.readouterr().out
    assert "required tier asan did not run" in shown and "CSI_DELTA_SWEEP=7 ./dev test a::A.A" in shown
    world.order.clear()
    assert not ci.ci(keep_going=True)
    assert {"asan", "tsan", "image"} < set(world.order)


def test_a_failed_build_fails_the_run_and_stops_only_its_dependents(world, capsys):
    world.broken = {"unit_tests"}
    assert not ci.test()
    assert "unit" not in world.order and {"journeys", "host", "s3"} < set(world.order)
    assert "required tier unit did not run: build unit tests failed" in capsys.readouterr().out


@pytest.mark.parametrize("run", [ci.test, lambda: ci.ci(keep_going=True),
                                 lambda: ci._test_selection("test checks", filters.Selection(tiers={"checks"}))])
def test_a_fault_of_the_scripts_themselves_fails_the_run(world, monkeypatch, capsys, run):
    del world
    monkeypatch.setattr(pipeline.lint, "check_house", lambda: 1 / 0)
    assert not run()
    assert "dev: checks: ZeroDivisionError: division by zero" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("selection,order", [
    (filters.Selection(paths={"scripts": ["tests/scripts/test_x.py"]}), {"scripts"}),
    (filters.Selection(paths={"e2e": ["tests/e2e/test_a.py"]}), {"programs", "real_tests", "bed_without_old_velero", "e2e"}),
    (filters.Selection(host="host::x"), {"programs", "real_tests", "hosts", "host"}),
    (filters.Selection(tiers={"unit"}), {"unit_tests", "unit"}),
    (filters.Selection(tiers={"journeys"}), {"programs", "real_tests", "bed_without_old_velero", "journeys", "journeys moves"}),
    (filters.Selection(paths={"image": ["tests/image/test_image.py"]}), {"programs", "image"}),
    (filters.Selection(paths={"docs": ["tests/docs/test_site.py"]}), {"docs"}),
    (filters.Selection(programs={"a_test": ["A.A"], "r_test": []}), {"named", "unit", "restic"}),
])
def test_a_filtered_run_makes_only_what_it_needs(world, monkeypatch, selection, order):
    monkeypatch.setattr(manifest, "read", lambda *_: {
        "a_test": manifest.Program("a_test", "tests/a", labels=frozenset({"unit"})),
        "r_test": manifest.Program("r_test", "tests/r", labels=frozenset({"restic"}))})
    assert ci._test_selection("test x", selection)
    assert set(world.order) == order
