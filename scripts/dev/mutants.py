"""./dev mutants: breaks one promise at a time and expects the test that guards it to fail.

tests/mutants/NAME.patch begins with three lines and goes on as a diff against the tree:

    Scenario: 4c
    Test: tests/e2e/test_delete.py::test_refusing_driver
    Breaks: the content loses its finalizer although the driver refused

Each patch is applied in a scratch copy of the working tree that lives in the cache, so that only what it
touches is compiled again. The test must pass without the patch and fail with it.
"""

import dataclasses
import fcntl
import pathlib
import shutil
import time

import build
import console
import lint
import results
import scenarios
from console import ROOT, Failure, say, stage

FOLDER = ROOT / "tests" / "mutants"
PYTHON = "/usr/bin/python3"
TEST_SECONDS_MAX = 1200
GTEST_SECONDS_MAX = 300  # A test that hangs has failed.
HEADERS = ("Scenario", "Test", "Breaks")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One patch."""

    name: str
    path: pathlib.Path
    scenario: str
    test: str
    breaks: str


def parse(path, text):
    """A patch's header. Failure if a line of it is missing."""
    head = text.split("\ndiff --git ")[0]
    if head == text:
        raise Failure(f"{path.name}: holds no diff")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    for header in HEADERS:
        if not fields.get(header, "").strip():
            raise Failure(f"{path.name}: wants the line `{header}: ...` before the diff")
    return Mutant(path.stem, path, *(fields[header].strip() for header in HEADERS))


def read_all():
    """Every mutant, by name."""
    paths = sorted(FOLDER.glob("*.patch"))
    return {path.stem: parse(path, path.read_text()) for path in paths}


def without_mutant(promises, mutants):
    """The ids of scenarios that no patch breaks."""
    broken = {mutant.scenario for mutant in mutants}
    return [scenario.id for scenario in promises if scenario.id not in broken]


class Scratch:
    """A copy of the working tree. Its build folder outlasts a run; everything else follows ROOT."""

    def __init__(self):
        self.root = console.cache_dir() / "mutants"
        self.env = {"CCACHE_BASEDIR": self.root}
        self._lock = None

    def claim(self):
        """Makes the copy ours until this process ends; two runs in it would judge each other's patches."""
        self.root.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.root.with_suffix(".lock"), "w", encoding="ascii")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure("another ./dev mutants is running") from None

    def refresh(self):
        """Makes the copy equal to the tree again, touching only files that differ."""
        wanted = {path.relative_to(ROOT) for path in lint.our_files("")}
        present = {path.relative_to(self.root) for path in self.root.rglob("*")
                   if path.is_file() and path.relative_to(self.root).parts[0] != "build"}
        for name in present - wanted:
            (self.root / name).unlink()
        for name in wanted:
            source, target = ROOT / name, self.root / name
            if not target.is_file() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            shutil.copymode(source, target)

    def apply(self, mutant):
        """Applies one patch, or fails in words that name it."""
        # Without GIT_CEILING_DIRECTORIES git would look for a repository above the copy.
        env = {**self.env, "GIT_CEILING_DIRECTORIES": self.root.parent}
        code, _ = console.execute(["git", "apply", "--whitespace=nowarn", mutant.path], cwd=self.root, env=env)
        if code != 0:
            raise Failure(f"{mutant.path.name} does not apply any more: make it anew")

    def build(self, preset, targets=()):
        """Builds some targets in the copy."""
        console.run(["cmake", "--preset", preset], cwd=self.root, env=self.env)
        chosen = ["--target", *targets] if targets else []
        console.run(["cmake", "--build", "--preset", preset, "-j", console.jobs(), *chosen], cwd=self.root,
                    env=self.env)

    def program(self, preset, name):
        return self.root / "build" / preset / "bin" / name


def _run_pytest(scratch, test):
    scratch.build("release")
    scratch.build("dev", ["csidelta_real_tests"])
    report = results.results_folder() / "mutant.xml"
    report.unlink(missing_ok=True)
    env = {"CSI_DELTA_PLUGIN": scratch.program("release", build.PLUGIN),
           "CSI_DELTA_PROGRAM": scratch.program("release", build.PROGRAM),
           "CSI_DELTA_CSI_DRIVER": scratch.program("dev", "csi-delta-test-driver")}
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={scratch.root}",
               "-o", "junit_family=xunit1", f"--junitxml={report}", scratch.root / test]
    console.execute(console.as_root(command), cwd=scratch.root, env={**scratch.env, **env},
                    limit_seconds=TEST_SECONDS_MAX)
    return results.read_pytest(report)


def _run_gtest(scratch, test):
    program, case = test.split("::", 1)
    scratch.build("dev", [program])
    report = results.results_folder() / "mutant" / f"{program}.xml"
    report.parent.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    command = [scratch.program("dev", program), f"--gtest_filter={case}:{case}/*", f"--gtest_output=xml:{report}"]
    try:
        # Whole: a sample need not meet what the patch breaks.
        console.execute(command, cwd=scratch.root, env={"CSI_DELTA_SWEEP": "all"}, limit_seconds=GTEST_SECONDS_MAX)
    except console.OutOfTime:
        return [results.Test(test, results.FAILED)]
    # Without a report the program crashed.
    return results.read_gtest(report) if report.is_file() else [results.Test(test, results.FAILED)]


def _run_manager(scratch):
    scratch.build("release")
    scratch.build("dev", ["plugin_under_test"])
    _, lines = console.execute([PYTHON, scratch.root / "tests" / "pluginmanager" / "run.py"], env=scratch.env,
                               cwd=scratch.root, keep=True, limit_seconds=TEST_SECONDS_MAX)
    return results.read_lines("pluginmanager", lines)


def outcome_of(test, tests):
    """What became of one test among those that ran: passed, failed, skipped, or None if it did not run.

    One whose set-up failed did not run: a bed that does not start says nothing about a promise.
    """
    mine = [one.outcome for one in tests
            if (one.id == test or one.id.startswith(f"{test}[") or one.id.startswith(f"{test}/"))
            and not one.reason.startswith("failed on setup")]
    for outcome in (results.FAILED, results.PASSED, results.SKIPPED):
        if outcome in mine:
            return outcome
    return None


def _run(scratch, test):
    if ".py::" in test:
        tests = _run_pytest(scratch, test)
    elif test.startswith("pluginmanager::"):
        tests = _run_manager(scratch)
    else:
        tests = _run_gtest(scratch, test)
    return outcome_of(test, tests)


def _judge(scratch, mutant, sound):
    """One word for the table; `killed` is the good one. `sound` remembers tests that pass unbroken."""
    scratch.refresh()
    try:
        if mutant.test not in sound:
            sound[mutant.test] = _run(scratch, mutant.test)
        if sound[mutant.test] != results.PASSED:
            return f"test {sound[mutant.test] or 'did not run'} without the patch"
        scratch.apply(mutant)
        with_patch = _run(scratch, mutant.test)
    except Failure as error:
        return f"error: {error}"
    if with_patch == results.FAILED:
        return "killed"
    return "SURVIVED" if with_patch == results.PASSED else f"test {with_patch or 'did not run'} with the patch"


def run(names):
    """Judges the named mutants, or all. False if one is not killed, or a scenario has none."""
    mutants = read_all()
    unknown = [name for name in names if name not in mutants]
    if unknown:
        raise Failure(f"no such mutant: {' '.join(unknown)}; there are {' '.join(mutants) or 'none'}")
    scratch, sound, rows = Scratch(), {}, []
    scratch.claim()
    for mutant in [mutants[name] for name in names] or mutants.values():
        start = time.monotonic()
        with stage(f"mutant {mutant.name}"):
            verdict = _judge(scratch, mutant, sound)
        rows.append((mutant, verdict, time.monotonic() - start))
    width = max([len(mutant.name) for mutant, _, _ in rows] + [6])
    say(f"\n{'mutant':<{width}}  scenario  seconds  verdict; test")
    for mutant, verdict, seconds in rows:
        say(f"{mutant.name:<{width}}  {mutant.scenario:<8}  {seconds:>7.0f}  {verdict}; {mutant.test}")
    missing = [] if names else without_mutant(scenarios.read(), mutants.values())
    if missing:
        say(f"without a mutant: {' '.join(missing)}")
    say(f"{sum(verdict == 'killed' for _, verdict, _ in rows)} of {len(rows)} killed")
    return bool(rows) and not missing and all(verdict == "killed" for _, verdict, _ in rows)
