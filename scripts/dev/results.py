"""What tests did: read from the reports that the runners write, added up per tier."""

import contextlib
import dataclasses
import fnmatch
import json
import pathlib
import re
import shutil
import xml.etree.ElementTree

from console import ROOT, Failure

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
OPTIONAL = ROOT / "tests" / "e2e" / "optional.txt"


@dataclasses.dataclass(frozen=True)
class Test:
    """One test that ran, or said why it did not."""

    __test__ = False  # For pytest: not a class of tests.

    id: str  # "json_test::JsonTest.Parses", "tests/e2e/test_stock.py::test_x[1]", ...
    outcome: str
    reason: str = ""  # Of a skip, or of a failure outside the test itself.
    seconds: float = dataclasses.field(default=0.0, compare=False)
    never_retry: bool = dataclasses.field(default=False, compare=False)  # What failed does not happen by chance.
    points: int = dataclasses.field(default=0, compare=False)  # That it swept.
    unused: tuple | None = dataclasses.field(default=None, compare=False)  # Rights that no test of its run used, if it tells.


@dataclasses.dataclass
class Tier:
    """A group of tests that is run together."""

    name: str
    tests: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    error: str = ""  # Why it did not run, or not to its end.
    ran: bool = False
    notes: list = dataclasses.field(default_factory=list)  # What it left out, and why.

    def count(self, outcome):
        return sum(test.outcome == outcome for test in self.tests)


def _cases(path):
    """The <testcase> elements of a JUnit file, each with its suite's name."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        raise Failure(f"cannot read the report {path}: {error}") from error
    for suite in root.iter("testsuite"):
        for case in suite.findall("testcase"):
            yield suite.get("name", ""), case


def _outcome(case):
    if case.find("failure") is not None or case.get("status") == "fail":
        return FAILED, ""
    error = case.find("error")
    if error is not None:
        return FAILED, error.get("message") or ""
    skipped = case.find("skipped")
    if skipped is not None or case.get("status") in ("notrun", "disabled"):
        return SKIPPED, (skipped.get("message") or "") if skipped is not None else "disabled"
    return PASSED, ""


def _seconds(case):
    try:
        return float(case.get("time") or 0)
    except ValueError:
        return 0.0


def _property(case, name, default):
    return next((one.get("value") for one in case.iter("property") if one.get("name") == name), default)


def _points(case):
    return int(_property(case, "points", 0))


def _unused(case):
    text = _property(case, "unused_rights", None)
    return None if text is None else tuple(json.loads(text))


def read_gtest(path, program=None):
    """The cases of one GoogleTest program, from the file that --gtest_output made."""
    return [Test(f"{program or path.stem}::{suite}.{case.get('name')}", *_outcome(case), _seconds(case), points=_points(case))
            for suite, case in _cases(path)]


_TIDY_UP_FAILED = "failed on teardown"  # How pytest begins what it says of it.


def read_pytest(path):
    """The cases of a pytest run (junit_family=xunit1, which names the file); a test and its tear-down are one."""
    found = {}
    for _, case in _cases(path):
        outcome, reason = _outcome(case)
        errors = [error.get("message") or "" for error in case.findall("error")]
        final = any(message.startswith(_TIDY_UP_FAILED) for message in errors) or _property(case, "never_retry", None) is not None
        test = Test(f"{case.get('file')}::{case.get('name')}", outcome, reason, _seconds(case), final, _points(case), _unused(case))
        before = found.get(test.id)
        if before:
            worse = before if before.outcome == FAILED else test
            test = dataclasses.replace(worse, seconds=before.seconds + test.seconds,
                                       never_retry=before.never_retry or test.never_retry)
        found[test.id] = test
    return list(found.values())


_LINE = re.compile(r"^(PASS|FAIL|SKIP):?\s+(\S.*?)(?:: ([\d.]+) ms)?$")


def read_lines(tier, lines):
    """The cases of a runner that prints PASS, FAIL or SKIP and a name, one per line, perhaps with ": 120 ms" behind."""
    words = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
    tests = []
    for line in lines:
        found = _LINE.match(line)
        if found:
            name, _, reason = found[2].partition(": ")
            tests.append(Test(f"{tier}::{name}", words[found[1]], reason, float(found[3] or 0) / 1000))
    return tests


@dataclasses.dataclass(frozen=True)
class OptionalTests:
    """What need not run, each with a reason: lines "pattern | reason" of tests/e2e/optional.txt."""

    reasons: dict

    @staticmethod
    def read(path=OPTIONAL):
        reasons = {}
        if not path.is_file():
            return OptionalTests(reasons)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            pattern, separator, reason = (part.strip() for part in text.partition("|"))
            if not (pattern and separator and reason):
                raise Failure(f"{path.name}:{number}: wants `test or tier | reason`")
            reasons[pattern] = reason
        return OptionalTests(reasons)

    def allows(self, name):
        """May the test or tier of this name be skipped? Patterns are the shell's; [ is literal."""
        escaped = [pattern.replace("[", "[[]") for pattern in self.reasons]
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in escaped)


def complaints(tiers, optional):
    """Everything that makes a run of these tiers a failed one, in words."""
    found = []
    for tier in tiers:
        if not tier.ran:
            if not optional.allows(tier.name):
                found.append(f"required tier {tier.name} did not run: {tier.error or 'an earlier stage failed'}")
            continue
        if tier.error:
            found.append(f"{tier.name}: {tier.error}")
        for test in tier.tests:
            if test.outcome == FAILED:
                found.append(f"failed: {test.id}")
            elif test.outcome == SKIPPED and not optional.allows(test.id):
                found.append(f"required test skipped: {test.id}: {test.reason or 'it gave no reason'}")
    return found


def table(tiers):
    """Tests run and skipped per tier, as lines."""
    width = max([len(tier.name) for tier in tiers] + [4])
    lines = [f"{'tier':<{width}}  {'ran':>5}  {'passed':>6}  {'failed':>6}  {'skipped':>7}  seconds"]
    for tier in tiers:
        if not tier.ran:
            lines.append(f"{tier.name:<{width}}  did not run: {tier.error or 'an earlier stage failed'}")
            continue
        passed, failed, skipped = (tier.count(outcome) for outcome in (PASSED, FAILED, SKIPPED))
        lines.append(f"{tier.name:<{width}}  {passed + failed:>5}  {passed:>6}  {failed:>6}  {skipped:>7}  "
                     f"{tier.seconds:>7.0f}")
    for tier in tiers:
        lines += [f"skipped: {test.id}: {test.reason or 'it gave no reason'}"
                  for test in tier.tests if test.outcome == SKIPPED]
    return lines


def last_line(tiers, complaint_count):
    """The line that a test runner prints last. A failure that is no test's still counts as one."""
    passed, failed, skipped = (sum(tier.count(outcome) for tier in tiers)
                               for outcome in (PASSED, FAILED, SKIPPED))
    return f"{passed} passed, {max(failed, complaint_count)} failed, {skipped} skipped"


def shown(path):
    """How a path is printed: short, where it lies below the checkout."""
    return str(path).removeprefix(f"{ROOT}/")


def log_file(name):
    """Where the whole output of something goes; what of it matters is printed."""
    folder = results_folder() / "logs"
    folder.mkdir(exist_ok=True)
    return folder / f"{name.replace(' ', '-').replace('/', '-')}.log"


def write_state(path, text):
    """Writes what a later run reads: who is interrupted leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


def fresh_folder(name):
    """An empty folder for the reports of a tier."""
    folder = results_folder() / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


_BELOW = []


@contextlib.contextmanager
def below(name):
    """While the body runs, reports go into an empty folder below the others, and these stay."""
    shutil.rmtree(results_folder() / name, ignore_errors=True)
    _BELOW.append(name)
    try:
        yield
    finally:
        _BELOW.pop()


def results_folder():
    """Where the reports of the last run are; they are never reused."""
    folder = pathlib.Path(ROOT / "build" / "results").joinpath(*_BELOW)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
