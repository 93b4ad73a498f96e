"""tests/scenarios.txt, and the docs, name tests that are there."""

import re

import pytest
import results
import scenarios
from console import ROOT


def test_each_scenario_names_a_test_that_is_there():
    assert [scenario for scenario in scenarios.read() if not scenarios.is_declared(scenario.test)] == []


PAGES = sorted(path for folder in ("docs", "tests") for path in (ROOT / folder).rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_test_that_a_page_names_is_there(page):
    text = page.read_text()
    cases = re.findall(r"`(?:\w+/)?(\w+(?:Test|Contract)\.\w+)(?:/\w+)?`", text)
    assert [case for case in cases if not scenarios.is_declared(case)] == []
    files = re.findall(r"`(tests/[\w/]+\.(?:py|cc|h|md|txt))(?:::\w+)?`", text)
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_each_optional_test_has_a_reason():
    assert all(results.OptionalTests.read().reasons.values())


@pytest.mark.parametrize("test,ran,proves", [
    ("A.B", "a_test::A.B", True), ("A.B", "a_test::Kinds/A.B/0", True), ("A.B", "a_test::A.BC", False),
    ("Kinds/A.B/0", "a_test::Kinds/A.B/0", True), ("Kinds/A.B/0", "a_test::Kinds/A.B/1", False),
    ("a_test::A.B", "b_test::A.B", False), ("t.py::test_a", "t.py::test_a[1]", True), ("t.py::test_a", "u.py::test_a", False),
])
def test_which_tests_prove_a_scenario(test, ran, proves):
    scenario = scenarios.Scenario("1", "text", test)
    wrong = scenarios.compare([scenario], [results.Test(ran, results.PASSED)])
    assert wrong == ([] if proves else [f"1: {test}: is not among the tests that ran"])
