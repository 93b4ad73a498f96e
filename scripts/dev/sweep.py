"""./dev sweep: every crash point, every fault and every seed, of which CI sees a sample.

Test programs that the manifest says sweep, and scenarios with that marker, read CSI_DELTA_SWEEP: "all", or the seed by
which they draw their sample. What they swept they record as the property "points" of the test.
All of them include uploads over slow lines (tests/bench/slow_line.py): an hour that the processors hardly notice.
`./dev sweep storm` runs the storm alone (tests/reliability), and prints the ledger that docs/reliability.md keeps.
"""

import dataclasses
import os
import re
import time

import account
import benches
import build
import console
import durations
import manifest
import prepare
import results
import seeds
import tiers
import unit
from console import Failure, say
from results import FAILED, PASSED, Test, Tier

PROGRAM_SECONDS_MAX = 3600
SLOW_LINES = {"scaled": [], "unscaled": ["--unscaled"]}  # Runs of tests/bench/slow_line.py.
STORM = "storm"  # The argument that runs the program below alone.
STORM_PROGRAM = "storm_test"
_LEDGER = re.compile(r"^storm: (.+) (\d+)$", re.MULTILINE)  # What tests/reliability/storm_test.cc prints.


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


def run_slow_lines(into):
    """Uploads over slow lines, with time scaled, and once without."""
    with tiers.tier("slow lines", into) as this:
        benches.build_line()
        for name, arguments in SLOW_LINES.items():
            code, lines = console.execute(benches.line_command(*arguments), keep=True, limit_seconds=PROGRAM_SECONDS_MAX,
                                          log=results.log_file(f"slow lines {name}"))
            this.tests += results.read_lines(f"slow_line {name}", lines)
            if code != 0:
                raise Failure(f"slow lines, {name}: not as promised")
        this.ran = bool(this.tests)


def ledger(printed, revision):
    """The lines of a ledger, of what a storm has printed: what befell how many seeds of which code."""
    counts = _LEDGER.findall(printed)
    return [f"storm of revision {revision}:", *(f"{int(count):>12,}  {name}" for name, count in counts)] if counts else []


def _run_storm():
    build.build("release", [STORM_PROGRAM])
    program = manifest.read()[STORM_PROGRAM]

    def work(into):
        _run_programs(into, [program])
        printed = (results.results_folder() / "sweep" / f"{STORM_PROGRAM}.log").read_text()
        for line in ledger(printed, durations.commit()):
            say(line)
    return account.of_one("sweep", work)


def _run_rows(into):
    """Verbs in the memory of a worker, beside more packs than ./dev test --all has, and far away from the bucket."""
    this = Tier("rows", ran=True)
    into.append(this)
    for row in benches.OTHER_ROWS:
        start, outcome = time.monotonic(), PASSED
        try:
            benches.run(row)
        except Failure as error:
            outcome = FAILED
            say(f"dev: bench {' '.join(row)}: {error}")
        this.tests.append(Test(f"rows::{' '.join(row)}", outcome, seconds=time.monotonic() - start, never_retry=True))


def run(seed=None):
    """Sweeps all, the sample of a seed, or all seeds of the storm alone. True if all is well."""
    os.environ[seeds.VARIABLE] = "all" if seed in (None, STORM) else seed
    if seed == STORM:
        return _run_storm()
    chosen = [program for program in manifest.read().values() if program.sweeps]
    build.build("release", [program.name for program in chosen])
    prepare.for_scenarios()

    def work(into):
        _run_programs(into, chosen)
        tiers.run_e2e(into, "e2e sweep", extra=["-m", "sweep or long"])
        if not seed:
            _run_rows(into)
            run_slow_lines(into)
        swept = [test for tier in into for test in tier.tests if test.points]
        for test in swept:
            say(f"{test.points:>7} points  {test.id}")
        say(f"sweep: {'all points' if not seed else f'seed {seed}'}: {sum(test.points for test in swept)}")
    return account.of_one("sweep", work)
