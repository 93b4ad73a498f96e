"""./dev sweep: every crash point, every fault and every seed, of which CI sees a sample.

Test programs that the manifest says sweep, and scenarios with that marker, read CSI_DELTA_SWEEP: "all", or the seed by
which they draw their sample. What they swept they record as the property "points" of the test.
"""

import dataclasses
import os

import account
import build
import manifest
import prepare
import seeds
import tiers
import unit
from console import Failure, say

PROGRAM_SECONDS_MAX = 3600


def patterns_of(program):
    """The patterns of --gtest_filter that meet the tests of a program's sources which sweep."""
    suites = []
    for source in program.sweeps:
        tests, instances = manifest.tests_of_source(source)
        suites += [test.split(".")[0] for test in tests] + [one.split("/")[1] for one in instances]
    return [pattern for suite in dict.fromkeys(suites) for pattern in manifest.gtest_patterns(suite)]


def _run_programs(into, programs):
    """Those tests of some programs that sweep; each has some."""
    with tiers.tier("sweep", into) as this:
        only = {program.name: patterns_of(program) for program in programs}
        patient = [dataclasses.replace(program, timeout_seconds=PROGRAM_SECONDS_MAX) for program in programs]
        unit.run_programs(this, patient, unit.Run(only=only, env=tiers.bed_environment()))
        idle = [name for name in only if not any(test.id.startswith(f"{name}::") for test in this.tests)]
        if idle:
            raise Failure(f"no test that sweeps ran of {' '.join(idle)}")


def run(seed=None):
    """Sweeps all, or the sample of a seed. True if all is well."""
    os.environ[seeds.VARIABLE] = seed or "all"
    chosen = [program for program in manifest.read().values() if program.sweeps]
    build.build("release", [program.name for program in chosen])
    prepare.for_scenarios()

    def work(into):
        _run_programs(into, chosen)
        tiers.run_e2e(into, "e2e sweep", extra=["-m", "sweep or long"])
        swept = [test for tier in into for test in tier.tests if test.points]
        for test in swept:
            say(f"{test.points:>7} points  {test.id}")
        say(f"sweep: {'all points' if not seed else f'seed {seed}'}: {sum(test.points for test in swept)}")
    return account.of_one("sweep", work)
