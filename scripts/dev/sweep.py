"""./dev sweep: every crash point, every fault and every seed, of which CI sees a sample.

Test programs that the manifest says sweep, and scenarios with that marker, read CSI_DELTA_SWEEP: "all", or the seed by
which they draw their sample. What they swept they record as the property "points" of the test.
"""

import dataclasses
import xml.etree.ElementTree

import build
import console
import manifest
import prepare
import results
import tiers
from console import Failure, say, stage

PROGRAM_SECONDS_MAX = 3600
SCENARIOS = "e2e sweep"


@dataclasses.dataclass(frozen=True)
class Swept:
    """One test of a program."""

    id: str
    points: int  # 0: the test has none of its own.
    outcome: str
    seconds: float


def _swept(test_id, case):
    points = [one.get("value") for one in case.iter("property") if one.get("name") == "points"]
    outcome = results.PASSED
    if case.find("failure") is not None or case.find("error") is not None:
        outcome = results.FAILED
    elif case.find("skipped") is not None:
        outcome = results.SKIPPED
    return Swept(test_id, int(points[-1]) if points else 0, outcome, float(case.get("time", 0)))


def read(text, program):
    """The tests in a report of GoogleTest."""
    return [_swept(f"{program}::{case.get('classname')}.{case.get('name')}", case)
            for case in xml.etree.ElementTree.fromstring(text).iter("testcase") if case.get("status") == "run"]


def read_scenarios(text):
    """The tests in a report of pytest."""
    return [_swept(f"{case.get('file')}::{case.get('name')}", case)
            for case in xml.etree.ElementTree.fromstring(text).iter("testcase")]


def patterns_of(program):
    """The patterns of --gtest_filter that meet the tests of a program's sources which sweep."""
    suites = []
    for source in program.sweeps:
        tests, instances = manifest.tests_of_source(source)
        suites += [test.split(".")[0] for test in tests] + [one.split("/")[1] for one in instances]
    return [pattern for suite in dict.fromkeys(suites) for pattern in manifest.gtest_patterns(suite)]


def _run_program(program, wish):
    report = results.results_folder() / "sweep" / f"{program.name}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    with stage(f"sweep {program.name}"):
        console.execute([*program.command, f"--gtest_output=xml:{report}", "--gtest_brief=1",
                         f"--gtest_filter={':'.join(patterns_of(program))}"],
                        env={"CSI_DELTA_SWEEP": wish}, limit_seconds=PROGRAM_SECONDS_MAX)
    if not report.is_file():
        raise Failure(f"{program.name} left no report")
    return read(report.read_text(), program.name)


def _run_scenarios(wish):
    prepare.for_scenarios()
    into = []
    tiers.run_e2e(into, SCENARIOS, extra=["-m", "sweep or long"], env={"CSI_DELTA_SWEEP": wish})
    if into[0].error:
        raise Failure(into[0].error)
    return read_scenarios((results.results_folder() / SCENARIOS.replace(" ", "-") / "pytest.xml").read_text())


def run(seed=None):
    """Sweeps all, or the sample of a seed; prints what was swept. True if nothing failed."""
    wish = seed or "all"
    chosen = [program for program in manifest.read().values() if program.sweeps]
    if not chosen:
        raise Failure("there is nothing to sweep")
    build.build("release", manifest.targets_of(chosen))
    swept = [one for program in chosen for one in _run_program(program, wish)]
    swept += _run_scenarios(wish)
    say("")
    for one in swept:
        say(f"{one.outcome:<8}{one.points or '':>7} {one.seconds:>8.1f} s  {one.id}")
    failed = sum(one.outcome == results.FAILED for one in swept)
    say(f"sweep: {'all points' if wish == 'all' else f'seed {wish}'}: {sum(one.points for one in swept)} points, "
        f"{len(swept)} tests, {failed} failed")
    return not failed
