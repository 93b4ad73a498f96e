"""tests/scenarios.txt, and the docs, name tests that are there."""

import re

import console
import pytest
import report
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
    assert all(report.read_optional().values())


NONE = "is not among the tests that ran"


@pytest.mark.parametrize("test,passed,others,wrong", [
    ("A.B", "a_test::A.B", {}, ""), ("A.B", "a_test::Kinds/A.B/0", {}, ""), ("A.B", "a_test::A.BC", {}, NONE),
    ("A.B", "", {}, NONE), ("Kinds/A.B/0", "a_test::Kinds/A.B/0", {}, ""), ("Kinds/A.B/0", "a_test::Kinds/A.B/1", {}, NONE),
    ("a_test::A.B", "b_test::A.B", {}, NONE), ("t.py::a", "t.py::a[1]", {}, ""), ("t.py::a", "u.py::a", {}, NONE),
    ("A.B", "b_test::A.C", {"a_test::A.B": "skipped"}, "skipped"),
    ("t.py::a", "t.py::a[1]", {"t.py::a[2]": "failed"}, "failed for some parameters")])
def test_which_tests_prove_a_scenario(test, passed, others, wrong):
    tests = [report.Test(name, outcome) for name, outcome in ({passed: report.PASSED} | others).items()]
    assert scenarios.compare([scenarios.Scenario("1", "text", test)], tests) == ([f"1: {test}: {wrong}"] if wrong else [])


@pytest.mark.parametrize("text", ["1 | no test\n", "1 | | t\n", "1 | a | t\n1 | b | u\n"])
def test_a_scenario_line_is_whole_and_unique(text):
    assert scenarios.parse("# comment\n\n1 | a | t\n") == [scenarios.Scenario("1", "a", "t")]
    with pytest.raises(console.Failure):
        scenarios.parse(text)
