"""Runs pytest: quietly, with every failure in full, and journeys that failed once more in a bed of their own."""

import re

import console
import progress
import results
from console import ROOT, Failure, say
from results import FAILED

PYTHON = "/usr/bin/python3"
TIDY_UP_SECONDS = 90  # A test bed goes down in order.
RETRIED_MAX = 5  # More than that is no chance.
_COLLECTED = re.compile(r"^(?:collecting \.\.\. )?collected (\d+) items?(?: / (\d+) deselected)?")
_ENDED = re.compile(r"^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED)\b")
_LEFT_OUT = re.compile(r"^not asserted .+: .+$")  # What tests/e2e/conftest.py prints.
_BLOCK = re.compile(r"^=+ (ERRORS|FAILURES) =+$")
_AFTER_BLOCKS = re.compile(r"^=+ (short test summary info|warnings summary|\d.* in [\d.]+s.*) =+$|^- generated xml file")


class _Watch:
    """Counts the tests of a run, says at once which failed, and keeps the failures' own words for the end."""

    def __init__(self, part):
        self._part, self._in_block = part, False
        self._ended = set()
        self.words, self.left_out = [], []

    def __call__(self, line):
        collected, ended = _COLLECTED.match(line), _ENDED.match(line)
        if collected:
            self._part.total = int(collected[1]) - int(collected[2] or 0)
        elif ended and not self._in_block:
            self._ended.add(ended[1])  # An error of the tidying-up comes behind its test.
            self._part.done = len(self._ended)
            if ended[2] in ("FAILED", "ERROR"):
                say(f"{ended[2].lower()}: {ended[1]}")
        elif _LEFT_OUT.match(line):
            self.left_out.append(line)
        elif _BLOCK.match(line):
            self._in_block = True
        elif _AFTER_BLOCKS.match(line):
            self._in_block = False
        if self._in_block:
            self.words.append(line)


def command(paths, *, extra=(), report=None):
    """The command line of a run over files, folders or single tests."""
    words = [PYTHON, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    words += ["-o", "junit_family=xunit1", f"--junitxml={report}"] if report else []
    return [*words, *extra, *paths]


def run(this, paths, *, limit_seconds, extra=(), env=None, root=False, may_be_empty=False):
    """Runs them as the tests of a tier."""
    report = results.fresh_folder(this.name) / "pytest.xml"
    watch = _Watch(progress.part())
    words = command(paths, extra=extra, report=report)
    try:
        code, _ = console.execute(console.as_root(words) if root else words, env=env, quiet=True, watch=watch,
                                  log=report.with_suffix(".log"), limit_seconds=limit_seconds, ends_by=2,
                                  grace_seconds=TIDY_UP_SECONDS)
    finally:
        if watch.words:
            say("\n".join(watch.words))
    this.notes += watch.left_out
    if report.is_file():
        this.tests += results.read_pytest(report)
    this.ran = bool(this.tests) or (code == 5 and may_be_empty)
    if code != 0 and not (code == 5 and may_be_empty) and not this.count(FAILED):
        say(report.with_suffix(".log").read_text(errors="replace")[-4000:])
        raise Failure(f"pytest failed with code {code}; log: {results.shown(report.with_suffix('.log'))}")


def collect(paths, *extra):
    """The ids of the tests there are, without running any."""
    words = [PYTHON, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *extra, *paths]
    code, lines = console.execute(words, keep=True, quiet=True)
    if code not in (0, 5):
        say("\n".join(lines[-40:]))
        raise Failure(f"pytest cannot collect {' '.join(str(path) for path in paths)}")
    return [line for line in lines if "::" in line and not line.startswith(("=", "<", " "))]


def to_retry(tests, journeys):
    """Those failed journeys that may be run once more, and why the others are not."""
    failed = [test for test in tests if test.outcome == FAILED and test.id in journeys]
    lost = [test for test in failed if test.never_retry]
    if lost:
        return [], [f"not run again, for its clean-up failed or data were lost: {test.id}" for test in lost]
    if len(failed) > RETRIED_MAX:
        return [], [f"not run again: {len(failed)} journeys failed, which does not happen by chance"]
    return failed, []
