"""The test tiers: how each is run and how its report is read. They build nothing: prepare.py and the steps do."""

import contextlib
import os
import re
import time

import build
import console
import manifest
import progress
import pytests
import results
import unit
from console import ROOT, Failure, OutOfTime
from results import Tier

PYTHON = "/usr/bin/python3"

# How long a tier may take on two cores before it counts as hung, others running alongside.
LIMIT_SECONDS = {"scripts": 300, "docs": 300, "image": 300, "s3": 900, "host": 1800, "journeys": 3600, "journeys moves": 3600,
                 "journeys old velero": 1800, "journeys again": 1800, "scenarios": 14400, "scenarios moves": 14400,
                 "scenarios quiet": 14400, "e2e": 14400, "e2e sweep": 14400, "e2e group": 10800, "rustic": 300, "marks": 1800}
QUIET = {"CSI_DELTA_QUIET": "1"}  # Nothing else runs: promises of seconds are asserted.
QUIET_SCENARIOS = "scenarios quiet"
ASSERTS_SECONDS = "support::AssertsSeconds("  # In unit tests: tests/support/await.h.
LANES = {"": "not moves", " moves": "moves"}  # Two beds at a time; what moves volumes has one of its own.
LATER_RESTICS = ("*/Trixie*", "*/Sid*", "*/trixie*", "*/sid*")  # Tests of releases after the one that is installed.


@contextlib.contextmanager
def tier(name, into):
    """Runs the body as a tier: records seconds, and an error instead of passing it on."""
    this = Tier(name)
    into.append(this)
    start = time.monotonic()
    try:
        with console.stage(name):
            yield this
    except OutOfTime as error:
        this.error = f"ran out of time: {error}"
    except Failure as error:
        this.error = str(error)
    finally:
        this.seconds = time.monotonic() - start
    if this.error:
        console.say(f"dev: {name}: {this.error}")


def bed_environment(preset="release"):
    """Which programs, tests and CSI driver the test bed uses, unless the caller chose."""
    tests = build.folder(preset) / "bin"
    defaults = {"CSI_DELTA_PLUGIN": build.folder("release") / "bin" / build.PLUGIN,
                "CSI_DELTA_PROGRAM": build.folder("release") / "bin" / build.PROGRAM,
                "CSI_DELTA_TESTS": tests,
                "CSI_DELTA_CSI_DRIVER": tests / "csi-delta-test-driver"}
    return {key: os.environ.get(key) or str(value) for key, value in defaults.items()}


def run_scripts(into, paths=None):
    """The tests of the project's own scripts."""
    with tier("scripts", into) as this:
        pytests.run(this, paths or [ROOT / "tests" / "scripts"], limit_seconds=LIMIT_SECONDS["scripts"],
                    extra=() if paths else ["-m", "not clang_tidy"])


def run_tidy_rules(into):
    """That the project's plugin of clang-tidy finds what it is for."""
    with tier("clang-tidy", into) as this:
        pytests.run(this, [ROOT / "tests" / "scripts"], limit_seconds=LIMIT_SECONDS["scripts"], extra=["-m", "clang_tidy"])


def run_unit(into, only=None):
    """All unit tests as they are shipped; or those programs and patterns of `only`."""
    with tier("unit", into) as this:
        programs = manifest.read()
        chosen = [programs[one] for one in only] if only is not None else manifest.labelled(programs, "unit")
        unit.run_programs(this, chosen, unit.Run(only=_patterns(only), env=bed_environment()))


def run_unit_quiet(into):
    """The unit tests that promise seconds, one process at a time; nothing else may run."""
    with tier("unit quiet", into) as this:
        programs = manifest.read()
        only = _patterns({one.name: [pattern for source in one.sources for test in manifest.tests_with(source, ASSERTS_SECONDS)
                                     for pattern in manifest.gtest_patterns(test)]
                          for one in manifest.labelled(programs, "unit")})
        unit.run_programs(this, [programs[name] for name in only],
                          unit.Run(only=only, env={**bed_environment(), **QUIET}, at_once=1))


def run_sanitized(into, preset, pattern=None):
    """Unit tests under a sanitizer; for threads only those that have some and do not call the distribution's gRPC.

    `pattern`: a part of a program's name, perhaps with a test of it: "json_test::A.B".
    """
    name, _, test = (pattern or "").partition("::")
    with tier(preset, into) as this:
        programs = manifest.read(preset)
        chosen = [one for one in manifest.labelled(programs, "threads" if preset == "tsan" else "unit") if name in one.name]
        only = {one.name: manifest.gtest_patterns(test) for one in chosen} if test else {}
        unit.run_programs(this, chosen, unit.Run(only=only, env=bed_environment(preset)))


def run_restic(into, later=False, only=None):
    """Stock restic on our repositories: of Debian's installed release, or with `later` of those after it, too."""
    with tier("restic", into) as this:
        programs = manifest.read()
        chosen = [programs[one] for one in only] if only is not None else manifest.labelled(programs, "restic")
        unit.run_programs(this, chosen, unit.Run(only=_patterns(only),
                                                 left_out=() if later else LATER_RESTICS, env=bed_environment()))


def run_root(into, only=None):
    """What needs root beside the scenarios: loop devices, csi-sanity, the conformance program on real devices."""
    with tier("root", into) as this:
        programs = manifest.read()
        chosen = [programs[one] for one in only] if only is not None else manifest.labelled(programs, "root")
        unit.run_programs(this, chosen, unit.Run(only=_patterns(only), env=bed_environment(), root=True))


def _patterns(only):
    """Those programs of a choice of which only some tests are to run."""
    return {name: patterns for name, patterns in (only or {}).items() if patterns}


VELERO_VERSIONS = ("118", "116", "114", "113")  # Those of which there is a module, newest first.
_HOST_ID = re.compile(r"^(pluginmanager|host)::1\.(\d+)\.\d+/(?:host/)?(.+)$")


def host_commands(versions=VELERO_VERSIONS, name=""):
    """The runners of the host tier: (prefix of their tests' ids, command). `name`: the id of a test; "" is all."""
    release = build.folder("release") / "bin"
    wanted, _, _ = name.partition("::")
    found = _HOST_ID.match(name)
    flags = [f"--version={version}" for version in ([f"1{found[2]}"] if found else versions)]
    runners = [("pluginmanager", [PYTHON, ROOT / "tests" / "pluginmanager" / "run.py", *flags,
                                  "--scripted", release / "plugin_under_test"]),
               ("host", [PYTHON, ROOT / "tests" / "host" / "run.py", *flags, "--fake-cluster", release / "fake_cluster",
                         *(["--filter", found[3]] if found else [])])]
    return [runner for runner in runners if wanted in ("", runner[0])]


def run_host(into, versions=VELERO_VERSIONS, name=""):
    """The plugin under Velero's own plugin manager, in several versions, also at work on a fake API server."""
    with tier("host", into) as this:
        part, cases = progress.part(), []

        def watch(line):
            if line.startswith(("PASS", "FAIL")):
                cases.append(line)
                part.note = f"{len(cases)} cases"
        for prefix, command in host_commands(versions, name):
            log = results.log_file(f"host {prefix}")
            code, lines = console.execute(command, keep=True, quiet=True, limit_seconds=LIMIT_SECONDS["host"], log=log,
                                          watch=watch, env=bed_environment())
            tests = results.read_lines(prefix, lines)
            failed = [test for test in tests if test.outcome == results.FAILED]
            if failed or code != 0:
                console.say("\n".join(line for line in lines if not line.startswith("PASS")))
            this.tests += [test for test in tests if name in test.id]
            if code != 0 and not failed:
                raise Failure(f"{prefix}: the runner failed with code {code}; log: {results.shown(log)}")
        this.ran = bool(this.tests)


def run_s3(into, paths=None):
    """Repositories in a real S3 server: the suite of object stores, and backups with faults and TLS. And the chart."""
    with tier("s3", into) as this:
        pytests.run(this, paths or [ROOT / "tests" / "s3", ROOT / "tests" / "chart"], env=bed_environment(), limit_seconds=LIMIT_SECONDS["s3"])


def run_docs(into, paths=None):
    """The documentation site: built, searched in a browser, and free of links that lead nowhere."""
    with tier("docs", into) as this:
        pytests.run(this, paths or [ROOT / "tests" / "docs"], limit_seconds=LIMIT_SECONDS["docs"])


def run_image(into, paths=None):
    """The image that `./dev image` builds, unpacked and run."""
    with tier("image", into) as this:
        pytests.run(this, paths or [ROOT / "tests" / "image"], root=True, limit_seconds=LIMIT_SECONDS["image"],
                    env=bed_environment())


def run_e2e(into, name, paths=None, extra=(), env=None, may_be_empty=False):
    """Scenarios on the real stack, in one bed at a time."""
    with tier(name, into) as this:
        pytests.run(this, paths or [ROOT / "tests" / "e2e"], extra=extra, env={**bed_environment(), **(env or {})}, root=True,
                    limit_seconds=LIMIT_SECONDS[name], may_be_empty=may_be_empty)


def run_again(into, tests):
    """Each of these once more, in a process and so in a bed of its own; returns the ids of those that passed."""
    passed, quiet = [], {test.id for one in into if one.name == QUIET_SCENARIOS for test in one.tests}
    for test in tests:
        again = []
        console.say(f"again, alone: {test.id}")
        with tier("journeys again", again) as this:
            pytests.run(this, [ROOT / test.id], env={**bed_environment(), **(QUIET if test.id in quiet else {})}, root=True,
                        limit_seconds=LIMIT_SECONDS["journeys again"])
        if again[0].ran and not again[0].error and {one.outcome for one in again[0].tests} == {results.PASSED}:
            passed.append(test.id)
            for one in into:
                one.tests = [results.Test(t.id, results.PASSED, seconds=t.seconds) if t.id == test.id else t
                             for t in one.tests]
    return passed
