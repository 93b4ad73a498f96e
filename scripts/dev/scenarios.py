"""tests/scenarios.txt: what the project promises, and the test that proves each promise."""

import dataclasses

import results
from console import ROOT, Failure

FILE = ROOT / "tests" / "scenarios.txt"


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One line of the file: `id | text | test`."""

    id: str
    text: str
    test: str  # The id of a test; all instances of a parametrised one count.


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


def compare(scenarios, tests):
    """What is wrong between the promises and the tests that ran: lines, none if all is well."""
    wrong = []
    for scenario in scenarios:
        mine = [test for test in tests
                if test.id == scenario.test or test.id.startswith(f"{scenario.test}[")
                or test.id.startswith(f"{scenario.test}/")]
        if not any(test.outcome == results.PASSED for test in mine):
            fate = mine[0].outcome if mine else "is not among the tests that ran"
            wrong.append(f"{scenario.id}: {scenario.test}: {fate}")
        elif any(test.outcome == results.FAILED for test in mine):
            wrong.append(f"{scenario.id}: {scenario.test}: failed for some parameters")
    return wrong
