"""What ./dev sweep makes of reports and listings."""

import json

import results
import sweep

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="A">
 <testcase name="One" status="run" time="1.5" classname="A"><properties><property name="points" value="12"/></properties></testcase>
 <testcase name="Two" status="run" time="0.1" classname="A"><failure message="no"/></testcase>
 <testcase name="Three" status="run" time="0" classname="A"><skipped message="why"/></testcase>
 <testcase name="Four" status="notrun" time="0" classname="A"/>
</testsuite></testsuites>"""


SCENARIOS = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest">
 <testcase name="test_one[worker-3]" file="tests/e2e/a.py" time="9.5"><properties><property name="points" value="1"/></properties></testcase>
 <testcase name="test_one[worker-4]" file="tests/e2e/a.py" time="2"><failure message="no"/></testcase>
 <testcase name="test_two" file="tests/e2e/a.py" time="0"><error message="no bed"/></testcase>
</testsuite></testsuites>"""


def test_reports_of_scenarios_are_read():
    assert sweep.read_scenarios(SCENARIOS) == [
        sweep.Swept("tests/e2e/a.py::test_one[worker-3]", 1, results.PASSED, 9.5),
        sweep.Swept("tests/e2e/a.py::test_one[worker-4]", 0, results.FAILED, 2.0),
        sweep.Swept("tests/e2e/a.py::test_two", 0, results.FAILED, 0.0),
    ]


def test_reports_are_read():
    assert sweep.read(REPORT, "p") == [
        sweep.Swept("p::A.One", 12, results.PASSED, 1.5),
        sweep.Swept("p::A.Two", 0, results.FAILED, 0.1),
        sweep.Swept("p::A.Three", 0, results.SKIPPED, 0.0),
    ]


def test_programs_are_those_that_ctest_lists():
    listing = json.dumps({"tests": [{"name": "a_test", "command": ["/bin/a_test"]}]})
    assert sweep.programs(listing) == {"a_test": ["/bin/a_test"]}
