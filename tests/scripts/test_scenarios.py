"""The two lists that people write by hand agree with each other."""

import mutants
import results
import scenarios


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
