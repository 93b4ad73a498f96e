"""What ./dev sweep makes of reports and listings."""

import manifest
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


def test_only_the_sources_that_sweep_are_run(tmp_path, monkeypatch):
    (tmp_path / "kill_test.cc").write_text("TEST_P(KillTest, One) {}\nINSTANTIATE_TEST_SUITE_P(All, KillTest, x);\n")
    monkeypatch.setattr(manifest, "ROOT", tmp_path)
    manifest.tests_of_source.cache_clear()
    program = manifest.Program("p", "tests/p", sources=("kill_test.cc", "other_test.cc"), sweeps=("kill_test.cc",))
    assert sweep.patterns_of(program) == ["KillTest.*", "KillTest/*.*", "*/KillTest.*", "*/KillTest/*.*"]
