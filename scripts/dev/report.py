"""What a run did: read from the reports of the runners and of ctest, judged, and told in the last lines.

build/results/<tier>/<entry>.{log,xml,json} are of an entry, build/results/all/<N>.json of a part of `--all`.
"""

import contextlib
import dataclasses
import fnmatch
import json
import re
import time
import xml.etree.ElementTree

import console
from console import ROOT, Failure, say, shown

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
OPTIONAL = ROOT / "tests" / "e2e" / "optional.txt"
SLOWEST, SHOWN_REPLAYS = 25, 10
FLAKY_RUNS, FLAKY_NAMES_MAX = 10, 3
SEED = "CSI_DELTA_SWEEP"  # Samples of sweeps are drawn by it.
_TIDY_UP_FAILED = "failed on teardown"  # How pytest begins what it says of it.
_BEGIN = re.compile(r"^\[ RUN      \] (\S+)$")
_END = re.compile(r"^\[(       OK |  FAILED  |  SKIPPED )\] ([^\s,]+).* \((\d+) ms\)$")
_LINE = re.compile(r"^(PASS|FAIL|SKIP):?\s+(\S.*?)(?:: ([\d.]+) ms)?$")
_NOTE = re.compile(r"^(?:left out (?:under|beside)|not asserted) .+: .+$")  # Of tests/support, tests/e2e/conftest.py.


@dataclasses.dataclass(frozen=True)
class Test:
    """One test that ran, or said why it did not."""

    __test__ = False  # For pytest: not a class of tests.

    id: str  # "json_test::JsonTest.Parses", "tests/e2e/test_stock.py::test_x[1]", ...
    outcome: str
    reason: str = ""  # Of a skip, or of a failure outside the test itself.
    seconds: float = dataclasses.field(default=0.0, compare=False)
    properties: dict = dataclasses.field(default_factory=dict, compare=False)  # journey, never_retry, points, unused_rights.


@dataclasses.dataclass
class Entry:
    """One entry of ctest, with its tests."""

    name: str
    tier: str
    kind: str = "gtest"
    may_be_empty: bool = False
    ran: bool = False
    error: str = ""  # Why it did not run, or not to its end.
    seconds: float = 0.0
    processor_seconds: float = 0.0
    limit_seconds: float = 0.0  # What ends it.
    tests: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)  # What it left out, and why.

    @property
    def makes(self):
        """Does it only make what others need?"""
        return self.tier == "build"


def folder():
    """Where reports go: build/results."""
    found = ROOT / "build" / "results"
    found.mkdir(parents=True, exist_ok=True)
    return found


def write_state(path, text):
    """Writes what a later run reads: who is interrupted leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


def cases(path):
    """The <testcase> elements of a JUnit file, each with its suite's name."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        raise Failure(f"cannot read the report {path}: {error}") from error
    for suite in root.iter("testsuite"):
        for case in suite.findall("testcase"):
            yield suite.get("name", ""), case


def _outcome(case):
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            return FAILED, (found.get("message") or "") if kind == "error" else ""
    skipped = case.find("skipped")
    if skipped is not None or case.get("status") in ("notrun", "disabled"):
        return SKIPPED, (skipped.get("message") or "") if skipped is not None else "disabled"
    return PASSED, ""


def _test(name, case):
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    return Test(name, *_outcome(case), float(case.get("time") or 0), properties)


def sections(lines):
    """(test, outcome or "", its lines, seconds) as a GoogleTest program printed them; no outcome: it ended in that one."""
    name, words = None, []
    for line in lines:
        begin, end = _BEGIN.match(line), _END.match(line)
        if begin:
            name, words = begin[1], []
        elif end and end[2] == name:
            yield name, end[1].strip(), words, int(end[3]) / 1000
            name = None
        elif name:
            words.append(line)
    if name:
        yield name, "", words, 0.0


def read_pytest(path):
    """The cases of a pytest run (junit_family=xunit1, which names the file); a test and its tear-down are one."""
    found = {}
    for _, case in cases(path):
        test = _test(f"{case.get('file')}::{case.get('name')}", case)
        if any((error.get("message") or "").startswith(_TIDY_UP_FAILED) for error in case.findall("error")):
            test.properties["never_retry"] = "a failed clean-up"
        before = found.get(test.id)
        if before:
            worse = before if before.outcome == FAILED else test
            test = dataclasses.replace(worse, seconds=before.seconds + test.seconds, properties=before.properties | test.properties)
        found[test.id] = test
    return list(found.values())


def read_lines(prefix, lines):
    """The cases of a runner that prints PASS, FAIL or SKIP and a name, one per line, perhaps with ": 120 ms" behind."""
    words = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
    tests = []
    for line in lines:
        if found := _LINE.match(line):
            name, _, reason = found[2].partition(": ")
            tests.append(Test(f"{prefix}::{name}", words[found[1]], reason, float(found[3] or 0) / 1000))
    return tests


def read_entry(entry, case=None):
    """Fills an entry from its files; `case`: what ctest reports of it, None if it did not come to it."""
    base = folder() / entry.tier / entry.name
    result = base.with_name(f"{entry.name}.json")
    told = json.loads(result.read_text()) if result.is_file() else None
    prefix = entry.name.partition(".")[0]  # Behind it stands a shard, or which of its tests.
    if told is None:
        entry.error = "" if case is None else _outcome(case)[1]
        if case is not None and case.get("status") == "fail":
            entry.ran, entry.error = True, "ctest ended it, and it left no report"
        return entry
    entry.ran, entry.seconds, entry.processor_seconds = True, told["seconds"], told["processor_seconds"]
    entry.limit_seconds = told.get("limit", 0.0)
    lines = base.with_name(f"{entry.name}.log").read_text(errors="replace").splitlines()
    entry.notes = sorted({f"{prefix}: {line}" for line in lines if _NOTE.match(line)})
    entry.notes += [f"{entry.name}: ended what was left: {name}" for name in told.get("left", ())]
    why = told["why"] or (f"ended with code {told['code']}" if told["code"] else "")
    path = base.with_name(f"{entry.name}.xml")
    try:
        if entry.kind == "gtest":
            why = why or ("" if path.is_file() else "it left no report")
            if path.is_file():
                entry.tests = [_test(f"{prefix}::{suite}.{case.get('name')}", case) for suite, case in cases(path)]
            else:  # Of a program that crashed or was ended.
                entry.tests = [Test(f"{prefix}::{test}", {"OK": PASSED, "SKIPPED": SKIPPED}.get(word, FAILED), "" if word else why,
                                    seconds) for test, word, _, seconds in sections(lines)]
        elif entry.kind == "pytest":
            entry.tests = read_pytest(path) if path.is_file() else []
            why = "" if told["code"] == 5 and entry.may_be_empty else why
        elif entry.kind == "lines":
            entry.tests = read_lines(prefix, lines)
        elif not entry.makes:
            entry.tests = [Test(f"{entry.tier}::{entry.name}", FAILED if why else PASSED, "", entry.seconds)]
    except Failure as error:
        why = str(error)
    was_cut_short = entry.kind == "pytest" and told["code"] not in (0, 1)  # A failed test is no reason for more.
    if told["why"] or (why and (was_cut_short or all(test.outcome != FAILED for test in entry.tests))):
        entry.error = why
    return entry


def read_optional(path=OPTIONAL):
    """{pattern: reason}: what need not run, of lines "pattern | reason". Patterns are the shell's; [ is literal."""
    found = {}
    for number, line in enumerate(path.read_text().splitlines() if path.is_file() else (), 1):
        if line.strip() and not line.startswith("#"):
            pattern, separator, reason = (part.strip() for part in line.partition("|"))
            if not (pattern and separator and reason):
                raise Failure(f"{path.name}:{number}: wants `test or entry | reason`")
            found[pattern] = reason
    return found


def complaints(entries, optional):
    """Everything that makes a run of these entries a failed one, in words."""
    def allows(name):
        return any(fnmatch.fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in optional)
    found = []
    for entry in entries:
        if not entry.ran:
            if not allows(entry.name):
                found.append(f"required {entry.name} did not run: {entry.error or 'an earlier one failed'}")
            continue
        if entry.error:
            found.append(f"{entry.name}: {entry.error}")
        elif not (entry.tests or entry.makes or entry.may_be_empty):
            found.append(f"{entry.name}: it ran no test")
        for test in entry.tests:
            if test.outcome == FAILED:
                found.append(f"failed: {test.id}")
            elif test.outcome == SKIPPED and not allows(test.id):
                found.append(f"required test skipped: {test.id}: {test.reason or 'it gave no reason'}")
    return found


def tests_of(entries):
    return [test for entry in entries for test in entry.tests]


def counts(tests):
    """(passed, failed, skipped)."""
    return tuple(sum(test.outcome == outcome for test in tests) for outcome in (PASSED, FAILED, SKIPPED))


def table(entries):
    """Tests run and skipped per tier, with seconds that its entries took, as lines."""
    tiers = list(dict.fromkeys(entry.tier for entry in entries))
    width = max(len(tier) for tier in [*tiers, "tier"])
    lines = [f"{'tier':<{width}}  {'ran':>5}  {'passed':>6}  {'failed':>6}  {'skipped':>7}  seconds  of processors"]
    for tier in tiers:
        mine = [entry for entry in entries if entry.tier == tier]
        passed, failed, skipped = counts(tests_of(mine))
        lines.append(f"{tier:<{width}}  {passed + failed:>5}  {passed:>6}  {failed:>6}  {skipped:>7}  "
                     f"{sum(entry.seconds for entry in mine):>7.0f}  {sum(entry.processor_seconds for entry in mine):>13.0f}")
    lines += [f"{entry.name} did not run: {entry.error or 'an earlier one failed'}" for entry in entries if not entry.ran]
    lines += [f"skipped: {test.id}: {test.reason or 'it gave no reason'}"
              for test in tests_of(entries) if test.outcome == SKIPPED]
    return lines


def slowest(entries, count=SLOWEST):
    """The tests that took longest, as lines."""
    timed = sorted(((test.seconds, test.id, entry.tier) for entry in entries for test in entry.tests), reverse=True)
    return [f"{seconds:>8.1f} s  {name}  ({tier})" for seconds, name, tier in timed[:count] if seconds >= 0.05]


def commit():
    """The commit of the checkout, with "+" if files differ from it; "" outside a repository."""
    with contextlib.suppress(Failure):
        changed = console.output(["git", "status", "--porcelain", "--untracked-files=no"], quiet=True).strip()
        return console.output(["git", "rev-parse", "HEAD"], quiet=True).strip() + ("+" if changed else "")
    return ""


def replay(test_id, seed, tier):
    """The command that runs one failed test again with the same seed."""
    quoted = f"'{test_id}'" if set(test_id) & set("[]*()$&;| ") else test_id
    return f"{SEED}={seed} ./dev {tier if tier in ('asan', 'tsan') else 'test'} {quoted}"


def to_retry(entries):
    """(failed journeys that may run once more, each alone; why the others may not)."""
    failed = [test for test in tests_of(entries) if test.outcome == FAILED and "journey" in test.properties]
    lost = [test for test in failed if "never_retry" in test.properties]
    if lost:
        return [], [f"not run again, for its clean-up failed or data were lost: {test.id}" for test in lost]
    if len(failed) > 5:
        return [], [f"not run again: {len(failed)} journeys failed, which does not happen by chance"]
    return failed, []


def remember_flaky(names, had_journeys):
    """Writes down a run with journeys, and the names of those that failed and then passed; never a verdict."""
    if had_journeys:
        path = console.cache_dir() / "flaky.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {' '.join(names)}\n")


def flaky_complaint():
    """What is wrong when too many were flaky in the last runs, or ""."""
    path = console.cache_dir() / "flaky.txt"
    runs = path.read_text(encoding="utf-8").splitlines()[-FLAKY_RUNS:] if path.is_file() else []
    names = sorted({name for run in runs for name in run.split()[1:]})
    if len(names) <= FLAKY_NAMES_MAX:
        return ""
    return f"{len(names)} flaky names in {FLAKY_RUNS} runs, at most {FLAKY_NAMES_MAX} are fine: {' '.join(names)}"


class Run:
    """Everything that one call of ./dev ran, and what is known of it beside that."""

    def __init__(self, verb, seed, budget_seconds=None):
        self.verb, self.seed, self.budget_seconds = verb, seed, budget_seconds
        self.entries, self.flaky, self.notes, self.wrong = [], [], [], []
        self.start = time.monotonic()

    def tests(self):
        return tests_of(self.entries)

    def complaints(self, skips_allowed=False):
        """What is wrong so far. With `skips_allowed`, a skip with a reason is fine."""
        return [*self.wrong, *complaints(self.entries, {"*": "the caller chose"} if skips_allowed else read_optional())]

    def account(self, skips_allowed=False):
        """Prints it all; True if all is well."""
        found = self.complaints(skips_allowed)
        if not self.entries:
            found.append("nothing ran")
        seconds = time.monotonic() - self.start
        remember_flaky(self.flaky, any(one.tier in ("journeys", "scenarios") for one in self.entries))
        for line in ["", *table(self.entries)]:
            say(line)
        longest = sorted(self.entries, key=lambda one: -one.seconds)[:SLOWEST]
        say("stages: " + ", ".join(f"{one.name} {one.seconds:.0f} s" for one in longest))
        slow = slowest(self.entries)
        if len(slow) > 1:
            say(f"the {len(slow)} slowest:")
        for line in [*(slow if len(slow) > 1 else ()), *self.notes, *sorted({note for one in self.entries for note in one.notes})]:
            say(line)
        for line in found:
            say(line if line.startswith("failed: ") else f"dev: {line}")
        failed = [(test, one.tier) for one in self.entries if one.kind != "command" for test in one.tests if test.outcome == FAILED]
        for line in dict.fromkeys(replay(test.id, self.seed, tier) for test, tier in failed[:SHOWN_REPLAYS]):
            say(f"again: {line}")
        for name in self.flaky:
            say(f"flaky: {name}: failed, and passed when it ran again alone in a new bed")
        left = (self.budget_seconds or 0) - seconds
        budget = f"; its budget is {self.budget_seconds} s, {left:.0f} s are left" if self.budget_seconds else ""
        say(f"./dev {self.verb}: {seconds:.0f} s in all{budget}; whole outputs: {shown(folder())}/")
        passed, bad, skipped = counts(self.tests())
        say(f"{passed} passed, {max(bad, len(found))} failed, {skipped} skipped")
        return not found
