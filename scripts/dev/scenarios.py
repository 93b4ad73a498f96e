"""tests/scenarios.txt: what the project promises, and the test that proves each promise."""

import dataclasses
import re

import report
from console import ROOT, Failure

FILE = ROOT / "tests" / "scenarios.txt"


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One line of the file: `id | text | test`."""

    id: str
    text: str
    test: str  # Of a unit test Suite.Case, else its id; all instances of a parametrised one count.


def parse(text):
    """The scenarios of the file's text, in order."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts):
            raise Failure(f"scenarios.txt:{number}: wants `id | text | test`")
        if any(scenario.id == parts[0] for scenario in found):
            raise Failure(f"scenarios.txt:{number}: {parts[0]} is there twice")
        found.append(Scenario(*parts))
    return found


def read():
    if not FILE.is_file():
        raise Failure("tests/scenarios.txt is missing")
    return parse(FILE.read_text())


def is_named(test, ran):
    """Whether the id of a test that ran is that of the named one, or of one of its instances."""
    where, _, name = test.rpartition("::")
    ran_where, _, ran_name = ran.rpartition("::")
    if where and where != ran_where:
        return False
    return ran_name == name or ran_name.startswith(f"{name}[") or f"/{name}/" in f"/{ran_name}/"


def compare(scenarios, tests):
    """What is wrong between the promises and the tests that ran: lines, none if all is well."""
    wrong = []
    for scenario in scenarios:
        mine = [test for test in tests if is_named(scenario.test, test.id)]
        if not any(test.outcome == report.PASSED for test in mine):
            action = mine[0].outcome if mine else "is not among the tests that ran"
            wrong.append(f"{scenario.id}: {scenario.test}: {action}")
        elif any(test.outcome == report.FAILED for test in mine):
            wrong.append(f"{scenario.id}: {scenario.test}: failed for some parameters")
    return wrong


def is_declared(test):
    """Is a test written down? By its id, or by Suite.Case or file::test alone. Cheaper to know before it is built."""
    where, _, name = test.rpartition("::")
    if where.endswith(".py"):
        path = next((path for path in (ROOT / where, ROOT / "tests" / "e2e" / where) if path.is_file()), None)
        return path is not None and f"def {name.split('[')[0]}(" in path.read_text()
    # "Kinds/SuiteTest.Case/Parameter", the first and the last only where there are parameters.
    suite, case = next(part for part in name.split("/") if "." in part).split(".")
    folders = [listing.parent for listing in (ROOT / "tests").glob("*/CMakeLists.txt")
               if not where or re.search(rf"\bNAME {where}\b", listing.read_text())]
    return any(re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{case}\)", source.read_text())
               for folder in folders for source in folder.glob("*.cc"))
