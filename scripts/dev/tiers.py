"""The test tiers: how each is run and how its report is read."""

import concurrent.futures
import contextlib
import os
import shlex
import shutil
import sys
import time

import build
import console
import debian
import packages
import results
from console import ROOT, Failure, OutOfTime
from results import Tier

PYTHON = "/usr/bin/python3"
sys.path.insert(0, str(ROOT / "scripts"))

# How long a tier may take on two cores before it counts as hung; CI gives "tsan" what the scenarios leave of them.
LIMIT_SECONDS = {"scripts": 300, "unit": 900, "asan": 1500, "tsan": 2400, "sanity": 1200, "image": 300,
                 "s3": 600, "plugin manager": 900, "e2e": 3600, "e2e moves": 3600, "coverage": 900,
                 "interop": 1200, "rustic": 300, "e2e sweep": 14400, "e2e group": 10800}
GO_BUILD_SECONDS_MAX = 3600
# What runs beside the shipped program, from the build of the unit tests that the caller has made already.
REAL_TESTS = ["csidelta_real_tests"]


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


def _fresh(name):
    folder = results.results_folder() / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run_ctest(this, preset, *, labels, pattern=None, root=False, env=None):
    """Runs the ctest tests of a preset. `labels`: arguments that choose among them."""
    folder = _fresh(this.name)
    report = folder / "ctest.xml"
    command = ["ctest", "--test-dir", build.folder(preset), "-j", console.jobs(), "--output-on-failure",
               "--output-junit", report, *labels]
    command += ["-R", pattern] if pattern else ["--no-tests=error"]
    code, _ = console.execute(console.as_root(command) if root else command,
                              limit_seconds=LIMIT_SECONDS[this.name],
                              env={"GTEST_OUTPUT": f"xml:{folder}/", **(env or {})})
    if report.is_file():
        this.tests = results.read_ctest(report, folder)
    this.ran = bool(this.tests)
    if code != 0 and not this.count(results.FAILED):
        raise Failure(f"ctest failed with code {code}")


def run_pytest(this, paths, *, pattern=None, extra=(), env=None, root=False):
    """Runs pytest below some folders."""
    report = _fresh(this.name) / "pytest.xml"
    command = [PYTHON, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", f"--rootdir={ROOT}",
               "-o", "junit_family=xunit1", f"--junitxml={report}", *extra, *paths]
    if pattern:
        command += ["-k", pattern]
    code, _ = console.execute(console.as_root(command) if root else command, env=env,
                              limit_seconds=LIMIT_SECONDS[this.name])
    if report.is_file():
        this.tests = results.read_pytest(report)
    this.ran = bool(this.tests)
    nothing_matches = code == 5 and pattern
    if code != 0 and not nothing_matches and not this.count(results.FAILED):
        raise Failure(f"pytest failed with code {code}")


def run_scripts(into, pattern=None):
    """The tests of our own scripts."""
    with tier("scripts", into) as this:
        run_pytest(this, [ROOT / "tests" / "scripts"], pattern=pattern)


def run_unit(into, pattern):
    """The programs of unit tests that match, without sanitizers."""
    with tier("unit", into) as this:
        build.build("release", ["csidelta_unit_tests"])
        run_ctest(this, "release", labels=["-L", "^unit$"], pattern=pattern)


def run_sanitized(into, preset, pattern=None):
    """The same tests under a sanitizer; for threads only those that have some."""
    with tier(preset, into) as this:
        build.build(preset)
        labels = ["-L", "^threads$" if preset == "tsan" else "^unit$"]
        run_ctest(this, preset, labels=labels, pattern=pattern)


def _plugin_manager(versions):
    """The command that runs it over these versions of Velero, or over all."""
    return [PYTHON, ROOT / "tests" / "pluginmanager" / "run.py",
            *(f"--version={version}" for version in versions)]


def run_plugin_manager(into, preset="release", versions=()):
    """Velero's own plugin manager, in several versions, against the release binary."""
    with tier("plugin manager", into) as this:
        runner = [*_plugin_manager(versions), "--scripted", build.folder(preset) / "bin" / "plugin_under_test"]
        build.build_release()
        build.build(preset, REAL_TESTS)
        with console.stage("plugin manager programs"):
            console.run([*runner, "--build-only"], limit_seconds=GO_BUILD_SECONDS_MAX)
        code, lines = console.execute(runner, keep=True, limit_seconds=LIMIT_SECONDS[this.name])
        this.tests = results.read_lines("pluginmanager", lines)
        this.ran = bool(this.tests)
        if code != 0 and not this.count(results.FAILED):
            raise Failure(f"the runner failed with code {code}")


def _bed_build(modules=()):
    return [PYTHON, ROOT / "tests" / "e2e" / "build.py", *modules]


def build_bed(modules=()):
    """The programs of the test bed; built once per state of their sources."""
    console.run(_bed_build(modules), limit_seconds=GO_BUILD_SECONDS_MAX)


def real_programs_built_beside(versions=()):
    """A context in which Velero's and the bed's programs are built with what its body leaves of the cores."""
    commands = [[*_plugin_manager(versions), "--build-only"],
                _bed_build(["csi", "s3"]),  # The first that are asked for.
                _bed_build()]
    return console.beside(["sh", "-c", "; ".join(shlex.join(map(str, command)) for command in commands)])


def run_sanity(into, preset="release"):
    """Upstream csi-sanity against the CSI driver of the test bed, and what else is for root."""
    with tier("sanity", into) as this:
        build_bed(["csi"])
        debian.ensure_restics(newest=True)
        build.build_release()
        build.build(preset, [*REAL_TESTS, "csidelta_root_tests", "csidelta_restic_tests"])
        run_ctest(this, preset, labels=["-L", "^(root|restic)$", "-V"], root=True, env=bed_environment(preset))


def run_s3(into, preset="release"):
    """Repositories in a real S3 server: the suite of object stores, and a whole story, also with faults and TLS."""
    with tier("s3", into) as this:
        build_bed(["s3", "helm", "kube"])  # The chart needs Helm's code and kubectl, and no bed.
        build.build_release()
        build.build(preset, REAL_TESTS)
        run_pytest(this, [ROOT / "tests" / "s3", ROOT / "tests" / "chart"], env=bed_environment(preset))


def run_image(into):
    """The image that `./dev image` builds, unpacked and run."""
    with tier("image", into) as this:
        build.build_release()
        run_pytest(this, [ROOT / "tests" / "image"], root=True)


def bed_environment(preset="release"):
    """Which programs, tests and CSI driver the bed uses, unless the caller chose."""
    tests = build.folder(preset) / "bin"
    defaults = {"CSI_DELTA_PLUGIN": build.folder("release") / "bin" / build.PLUGIN,
                "CSI_DELTA_PROGRAM": build.folder("release") / "bin" / build.PROGRAM,
                "CSI_DELTA_TESTS": tests,
                "CSI_DELTA_CSI_DRIVER": tests / "csi-delta-test-driver"}
    return {key: os.environ.get(key) or str(value) for key, value in defaults.items()}


def prepare_bed(preset="release"):
    """Everything a bed is made of."""
    packages.require_root()
    build.build_release()
    build.build(preset, REAL_TESTS)
    with console.stage("bed programs"):
        build_bed()


def e2e_matches(pattern):
    """Is there a scenario of this name? Asked before anything is built for it."""
    command = [PYTHON, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-k", pattern,
               ROOT / "tests" / "e2e"]
    code, _ = console.execute(command, quiet=True)
    if code not in (0, 5):
        raise Failure(f"pytest cannot collect the scenarios: {console.shorten(command)}")
    return code == 0


def run_groups(into, extra=()):
    """The scenarios of volume groups, with those that CI has no time for, and every kill point."""
    with tier("e2e group", into) as this:
        prepare_bed()
        run_pytest(this, [ROOT / "tests" / "e2e"], extra=["-m", "group", *extra], root=True,
                   env={**bed_environment(), "CSI_DELTA_SWEEP": "all"})


def run_e2e(into, pattern=None, extra=(), preset="release", beside=()):
    """The scenarios, on the real stack, in two beds at a time: those that move volumes in one of their own.

    They wait more than they compute: what is `beside` (functions without parameters) runs meanwhile, with what they
    leave of the cores.
    """
    def run(this, *words):
        run_pytest(this, [ROOT / "tests" / "e2e"], pattern=pattern, extra=[*words, *extra], env=bed_environment(preset),
                   root=True)

    def run_moves():
        with tier("e2e moves", into) as this:
            run(this, "-m", "moves")

    def run_beside():
        os.nice(console.BESIDE_NICE)  # This thread, and all that it starts.
        for step in beside:
            step()

    with tier("e2e", into) as this:
        prepare_bed(preset)
        if extra:  # They may choose among the scenarios.
            run(this)
            return
        with concurrent.futures.ThreadPoolExecutor(2) as lanes:
            others = [lanes.submit(run_moves), lanes.submit(run_beside)]
            run(this, "-m", "not moves")
            for lane in others:
                lane.result()
