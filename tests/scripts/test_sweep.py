"""What ./dev sweep runs, and when it has failed."""

import console
import manifest
import pytest
import results
import seeds
import sweep
from results import PASSED, SKIPPED, Test, Tier

LINE = Test("slow_line scaled::4 Mbit/s", PASSED)
SOURCE = "TEST_P(KillTest, One) {}\nINSTANTIATE_TEST_SUITE_P(All, KillTest, x);\n"
CASE = "<testcase name='One' status='run'><properties><property name='points' value='12'/></properties></testcase>"
REPORT = "<testsuites><testsuite name='KillTest'>{cases}</testsuite></testsuites>"
PROGRAM = """#!/bin/sh
for word; do case $word in --gtest_output=xml:*) cat > "${{word#*:}}" <<'END'
{report}
END
;; esac; done
echo "sweeps $CSI_DELTA_SWEEP"
exit {code}
"""


@pytest.fixture(name="program")
def fixture_program(tmp_path, monkeypatch):
    (tmp_path / "kill_test.cc").write_text(SOURCE)
    monkeypatch.setattr(manifest, "ROOT", tmp_path)
    manifest.tests_of_source.cache_clear()
    yield manifest.Program("p", "tests/p", sources=("kill_test.cc", "other_test.cc"), sweeps=("kill_test.cc",),
                           command=(str(tmp_path / "p"),), shards=4)
    manifest.tests_of_source.cache_clear()


def test_only_the_sources_that_sweep_are_run(program):
    assert sweep.patterns_of(program) == ["KillTest.*", "KillTest/*.*", "*/KillTest.*", "*/KillTest/*.*"]


@pytest.fixture(name="run")
def fixture_run(program, tmp_path, monkeypatch):
    """A function that sweeps with one program that reports some cases, and one scenario."""
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(results, "results_folder", lambda: tmp_path / "results")
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setenv(seeds.VARIABLE, "20261125")
    monkeypatch.setattr(manifest, "read", lambda: {"p": program, "q": manifest.Program("q", "tests/q")})
    monkeypatch.setattr(sweep.build, "build", lambda *_: None)
    monkeypatch.setattr(sweep.prepare, "for_scenarios", lambda: None)

    def run(seed=None, cases=CASE, code=0, scenario=Test("tests/e2e/a.py::test_a", PASSED, points=3), row=lambda _: None):
        monkeypatch.setattr(sweep.benches, "run", row)
        path = tmp_path / "p"
        path.write_text(PROGRAM.format(report=REPORT.format(cases=cases), code=code))
        path.chmod(0o755)
        monkeypatch.setattr(sweep, "run_slow_lines", lambda into: into.append(Tier("slow lines", [LINE], ran=True)))
        monkeypatch.setattr(sweep.tiers, "run_e2e", lambda into, name, extra: into.append(Tier(name, [scenario], ran=True)))
        return sweep.run(seed)
    return run


def test_points_are_counted_and_the_seed_is_that_of_all(run, tmp_path, capsys):
    assert run()
    assert "sweep: all points: 15\n" in capsys.readouterr().out
    assert "sweeps all" in (tmp_path / "results" / "sweep" / "p.log").read_text()
    assert run("7")
    assert "sweep: seed 7: 15\n" in capsys.readouterr().out
    assert "sweeps 7" in (tmp_path / "results" / "sweep" / "p.log").read_text()


def test_all_points_come_with_the_rows_of_large_repositories(run, capsys):
    rows = []
    assert run(row=rows.append)
    assert rows == list(sweep.benches.OTHER_ROWS)
    assert run("7", row=rows.append) and len(rows) == len(sweep.benches.OTHER_ROWS)

    def killed(row):
        raise console.Failure("killed")
    assert not run(row=killed)
    assert "failed: rows::verbs" in capsys.readouterr().out


@pytest.mark.parametrize("how,words", [
    ({"code": 1}, "failed: p\n"), ({"cases": ""}, "no test that sweeps ran of p"),
    ({"cases": "<testcase name='One' status='run'><failure/></testcase>"}, "failed: p::KillTest.One"),
    ({"cases": "<testcase name='One' status='run'><skipped message='why'/></testcase>"}, "skipped: p::KillTest.One: why"),
    ({"scenario": Test("tests/e2e/a.py::test_a", SKIPPED, "no tool")}, "skipped: tests/e2e/a.py::test_a: no tool"),
])
def test_a_failed_skipped_or_empty_test_fails_the_sweep(run, capsys, how, words):
    assert not run(**how)
    assert words in capsys.readouterr().out


def test_a_ledger_is_what_the_storm_printed():
    printed = "noise\nstorm: faults 12345\nstorm: faults: answer lost 7\n"
    assert sweep.ledger(printed, "abc") == ["storm of revision abc:", "      12,345  faults", "           7  faults: answer lost"]
    assert not sweep.ledger("noise\n", "abc")
