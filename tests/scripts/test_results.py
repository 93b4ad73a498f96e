"""What counts as a passed run: reports are read, and nothing that did not run is called passed."""

import console
import pytest
import results
import scenarios
from results import FAILED, PASSED, SKIPPED, OptionalTests, Test, Tier

NOTHING = OptionalTests({})

GTEST = """<testsuites><testsuite name="JsonTest">
<testcase name="Parses" status="run" result="completed" time="1.25"/>
<testcase name="Fails" status="run"><failure message="x"/></testcase>
<testcase name="Needs6" status="run" result="skipped"><skipped message="no ipv6"/></testcase>
<testcase name="DISABLED_Old" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""

PYTEST = """<testsuites><testsuite name="pytest">
<testcase file="tests/e2e/test_a.py" name="test_x[1]"/>
<testcase file="tests/e2e/test_a.py" name="test_y"><error message="fixture"/></testcase>
<testcase file="tests/e2e/test_a.py" name="test_z"><skipped message="why"/></testcase>
</testsuite></testsuites>"""


def test_gtest_cases_are_counted_one_by_one(tmp_path):
    (tmp_path / "json_test.1of2.xml").write_text(GTEST)
    tests = {test.id: test for test in results.read_gtest(tmp_path / "json_test.1of2.xml", "json_test")}
    assert tests["json_test::JsonTest.Parses"].outcome == PASSED
    assert tests["json_test::JsonTest.Parses"].seconds == 1.25
    assert tests["json_test::JsonTest.Fails"].outcome == FAILED
    assert tests["json_test::JsonTest.Needs6"] == Test("json_test::JsonTest.Needs6", SKIPPED, "no ipv6")
    assert tests["json_test::JsonTest.DISABLED_Old"].outcome == SKIPPED


def test_pytest_errors_are_failures(tmp_path):
    (tmp_path / "pytest.xml").write_text(PYTEST)
    outcomes = {test.id: test.outcome for test in results.read_pytest(tmp_path / "pytest.xml")}
    assert outcomes == {"tests/e2e/test_a.py::test_x[1]": PASSED, "tests/e2e/test_a.py::test_y": FAILED,
                        "tests/e2e/test_a.py::test_z": SKIPPED}


def test_unused_rights_are_told_by_one_test(tmp_path):
    (tmp_path / "pytest.xml").write_text("""<testsuites><testsuite name="pytest">
<testcase file="t.py" name="test_tells"><properties><property name="unused_rights" value='["get a"]'/></properties></testcase>
<testcase file="t.py" name="test_none"><properties><property name="unused_rights" value="[]"/></properties></testcase>
<testcase file="t.py" name="test_other"/></testsuite></testsuites>""")
    assert [test.unused for test in results.read_pytest(tmp_path / "pytest.xml")] == [("get a",), (), None]


TEAR_DOWN = """<testsuites><testsuite name="pytest">
<testcase file="t.py" name="test_x" time="2"><failure message="no"/></testcase>
<testcase file="t.py" name="test_x" time="1"><error message="failed on teardown with &quot;BedError&quot;"/></testcase>
<testcase file="t.py" name="test_y"><error message="failed on teardown with &quot;BedError&quot;"/></testcase>
<testcase file="t.py" name="test_z"><properties><property name="never_retry" value="lost"/></properties>
<failure message="no"/></testcase>
<testcase file="t.py" name="test_bed"><error message="failed on setup with &quot;BedError&quot;"/></testcase>
<testcase file="t.py" name="test_plain"><failure message="no"/></testcase>
</testsuite></testsuites>"""


def test_a_failed_clean_up_or_lost_data_is_marked_and_one_test_stays_one(tmp_path):
    (tmp_path / "pytest.xml").write_text(TEAR_DOWN)
    tests = {test.id: test for test in results.read_pytest(tmp_path / "pytest.xml")}
    assert {name: test.never_retry for name, test in tests.items()} == {
        "t.py::test_x": True, "t.py::test_y": True, "t.py::test_z": True, "t.py::test_bed": False, "t.py::test_plain": False}
    assert all(test.outcome == FAILED for test in tests.values())
    assert tests["t.py::test_x"].seconds == 3.0


def test_a_torn_report_is_a_failure(tmp_path):
    (tmp_path / "pytest.xml").write_text(PYTEST[:100])
    with pytest.raises(console.Failure, match="cannot read the report"):
        results.read_pytest(tmp_path / "pytest.xml")


def test_lines_of_a_plain_runner():
    lines = ["PASS 1.18.1 lists every action: 250 ms", "FAIL: 1.13.1 cancels", "noise", "SKIP x: no proxy"]
    assert [(t.id, t.outcome, t.reason, t.seconds) for t in results.read_lines("m", lines)] == [
        ("m::1.18.1 lists every action", PASSED, "", 0.25), ("m::1.13.1 cancels", FAILED, "", 0.0),
        ("m::x", SKIPPED, "no proxy", 0.0)]


@pytest.mark.parametrize("tier,words", [
    (Tier("e2e"), "required tier e2e did not run"),
    (Tier("e2e", error="ran out of time"), "ran out of time"),
    (Tier("e2e", ran=True, error="ran out of time", tests=[Test("a", PASSED)]), "e2e: ran out of time"),
    (Tier("e2e", ran=True, tests=[Test("a", FAILED)]), "failed: a"),
    (Tier("e2e", ran=True, tests=[Test("a", SKIPPED, "no tool")]), "required test skipped: a: no tool"),
    (Tier("e2e", ran=True, tests=[Test("a", SKIPPED)]), "it gave no reason"),
])
def test_a_run_fails_when(tier, words):
    wrong = results.complaints([tier], NOTHING)
    assert len(wrong) == 1 and words in wrong[0]
    assert results.last_line([tier], len(wrong)).split(", ")[1] == "1 failed"


def test_a_test_named_as_optional_may_be_skipped(tmp_path):
    path = tmp_path / "optional.txt"
    path.write_text("# a comment\n\ntests/e2e/test_a.py::test_z* | the driver is only given by path\n")
    optional = OptionalTests.read(path)
    skipped = Tier("e2e", ran=True, tests=[Test("tests/e2e/test_a.py::test_z[1]", SKIPPED, "why")])
    assert results.complaints([skipped], optional) == []
    assert results.last_line([skipped], 0) == "0 passed, 0 failed, 1 skipped"
    assert results.complaints([Tier("e2e", ran=True, tests=[Test("other", SKIPPED, "why")])], optional)


def test_optional_wants_a_reason(tmp_path):
    path = tmp_path / "optional.txt"
    path.write_text("e2e\n")
    with pytest.raises(console.Failure, match="wants"):
        OptionalTests.read(path)


def test_skips_are_told_with_their_reason():
    text = "\n".join(results.table([Tier("e2e", ran=True, tests=[Test("a", SKIPPED, "no tool")])]))
    assert "skipped: a: no tool" in text


SCENARIOS = scenarios.parse("# comment\n1 | backs up | t.py::test_a\n2a | by a unit test | b_test::B.Works\n")


@pytest.mark.parametrize("tests,words", [
    ([], ["1: t.py::test_a: is not among", "2a: b_test::B.Works: is not among"]),
    ([Test("t.py::test_a", SKIPPED), Test("b_test::B.Works", PASSED)], ["1: t.py::test_a: skipped"]),
    ([Test("t.py::test_ab", PASSED), Test("b_test::B.Works", PASSED)], ["1: t.py::test_a: is not among"]),
    ([Test("t.py::test_a[1]", PASSED), Test("t.py::test_a[2]", FAILED), Test("b_test::B.Works", PASSED)],
     ["1: t.py::test_a: failed for some"]),
    ([Test("t.py::test_a[1]", PASSED), Test("b_test::B.Works", PASSED)], []),
])
def test_scenarios_are_compared_with_the_tests_that_ran(tests, words):
    wrong = scenarios.compare(SCENARIOS, tests)
    assert len(wrong) == len(words)
    assert all(text in line for text, line in zip(words, wrong))


@pytest.mark.parametrize("text", ["1 | no test\n", "1 | | t\n", "1 | a | t\n1 | b | u\n"])
def test_a_scenario_line_is_whole_and_unique(text):
    with pytest.raises(console.Failure):
        scenarios.parse(text)
