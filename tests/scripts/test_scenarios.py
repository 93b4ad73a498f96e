"""The two lists that people write by hand agree with each other."""

import re

import mutants
import pytest
import results
import scenarios
from console import ROOT


def test_the_list_of_scenarios_parses():
    assert scenarios.read()


def test_every_mutant_breaks_a_scenario_by_its_own_test():
    promised = {scenario.id: scenario.test for scenario in scenarios.read()}
    for mutant in mutants.read_all().values():
        assert mutant.scenario in promised, f"{mutant.path.name}: no such scenario"
        assert mutant.test.split("[")[0] == promised[mutant.scenario], mutant.path.name


def test_every_scenario_has_a_mutant():
    assert mutants.without_mutant(scenarios.read(), mutants.read_all().values()) == []


def test_what_is_optional_has_reasons():
    assert all(results.OptionalTests.read().reasons.values())


def _declared(test):
    """Is the test of a scenario written down where its name says? Cheaper to know before anything is built."""
    where, name = test.split("::")
    if where.endswith(".py"):
        return f"def {name.split('[')[0]}(" in (ROOT / where).read_text()
    # "Kinds/SuiteTest.Case/Parameter", the first and the last only where there are parameters.
    suite, case = next(part for part in name.split("/") if "." in part).split(".")
    for listing in (ROOT / "tests").glob("*/CMakeLists.txt"):
        if re.search(rf"csidelta_test\(NAME {where}\b", listing.read_text()):
            return any(re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{case}\)", source.read_text())
                       for source in listing.parent.glob("*.cc"))
    return False


@pytest.mark.parametrize("scenario", scenarios.read(), ids=lambda scenario: scenario.id)
def test_a_scenario_names_a_test_that_is_there(scenario):
    assert _declared(scenario.test), scenario.test
