"""What tests did: read from the reports that the runners write, added up per tier."""

import dataclasses
import fnmatch
import pathlib
import re
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


@dataclasses.dataclass
class Tier:
    """A group of tests that is run together."""

    name: str
    tests: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    error: str = ""  # Why it did not run, or not to its end.
    ran: bool = False

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


def read_gtest(path):
    """The cases of one GoogleTest binary, from the file that GTEST_OUTPUT made."""
    return [Test(f"{path.stem}::{suite}.{case.get('name')}", *_outcome(case)) for suite, case in _cases(path)]


def read_ctest(path, gtest_folder):
    """All cases of a ctest run: GoogleTest's own where a binary reported them, else one per binary.

    A binary that failed without a failing case (it crashed, or ran out of time) counts as failed itself.
    """
    tests = []
    for _, case in _cases(path):
        name = case.get("name")
        report = gtest_folder / f"{name}.xml"
        outcome, reason = _outcome(case)
        inner = read_gtest(report) if report.is_file() else []
        tests += inner
        if not inner or (outcome == FAILED and all(test.outcome != FAILED for test in inner)):
            tests.append(Test(name, outcome, reason))
    return tests


def read_pytest(path):
    """The cases of a pytest run (junit_family=xunit1, which names the file)."""
    return [Test(f"{case.get('file')}::{case.get('name')}", *_outcome(case)) for _, case in _cases(path)]


_LINE = re.compile(r"^(PASS|FAIL|SKIP):?\s+(\S.*)$")


def read_lines(tier, lines):
    """The cases of a runner that prints PASS, FAIL or SKIP and a name, one per line."""
    words = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
    tests = []
    for line in lines:
        found = _LINE.match(line)
        if found:
            name, _, reason = found[2].partition(": ")
            tests.append(Test(f"{tier}::{name}", words[found[1]], reason))
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


def results_folder():
    """Where the reports of the last run are; they are never reused."""
    folder = pathlib.Path(ROOT / "build" / "results")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
