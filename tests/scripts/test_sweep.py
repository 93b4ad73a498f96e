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


def test_reports_are_read():
    assert sweep.read(REPORT, "p") == [
        sweep.Swept("p::A.One", 12, results.PASSED, 1.5),
        sweep.Swept("p::A.Two", 0, results.FAILED, 0.1),
        sweep.Swept("p::A.Three", 0, results.SKIPPED, 0.0),
    ]


def test_programs_are_those_that_ctest_lists():
    listing = json.dumps({"tests": [{"name": "a_test", "command": ["/bin/a_test"]}]})
    assert sweep.programs(listing) == {"a_test": ["/bin/a_test"]}
