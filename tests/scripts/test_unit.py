"""The runner of test programs: what it counts, what it shows, and when it ends a program."""

import console
import manifest
import pytest
import results
import tiers
import unit
from results import FAILED, PASSED, SKIPPED, Tier

# Stands for a GoogleTest program: it prints and reports as those do.
PROGRAM = """#!/usr/bin/python3
import os, sys, time
options = dict(word[2:].split("=", 1) for word in sys.argv[1:])
index, count = int(os.environ.get("GTEST_SHARD_INDEX", 0)), int(os.environ.get("GTEST_TOTAL_SHARDS", 1))
tests = {tests!r}
mine = [name for number, name in enumerate(tests) if number % count == index]
body = ""
for name in mine:
    suite, case = name.split(".")
    print(f"[ RUN      ] {{name}}", flush=True)
    print(f"words of {{name}}", flush=True)
    if "Hangs" in name:
        time.sleep(600)
    if "Crashes" in name:
        os.abort()
    failed = "Fails" in name
    print(f"[  FAILED  ] {{name}} (7 ms)" if failed else f"[       OK ] {{name}} (7 ms)", flush=True)
    inner = "<failure message='x'/>" if failed else ""
    body += f"<testsuite name='{{suite}}'><testcase name='{{case}}' status='run' time='0.007'>{{inner}}</testcase></testsuite>"
open(options["gtest_output"].removeprefix("xml:"), "w").write(f"<testsuites>{{body}}</testsuites>")
print(options["gtest_filter"])
sys.exit({code} or any("Fails" in name for name in mine))
"""


@pytest.fixture(name="run")
def fixture_run(tmp_path, monkeypatch, capsys):
    """A function that runs programs of these tests; returns (tests by id, what was printed)."""
    monkeypatch.setattr(results, "results_folder", lambda: tmp_path)
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    (tmp_path / "logs").mkdir()

    def run(*tests, code=0, shards=1, timeout_seconds=20, **how):
        path = tmp_path / "x_test"
        path.write_text(PROGRAM.format(tests=tests, code=code))
        path.chmod(0o755)
        tier = Tier("unit")
        program = manifest.Program("x_test", "tests/x", command=(str(path),), shards=shards, timeout_seconds=timeout_seconds)
        unit.run_programs(tier, [program], unit.Run(**how))
        assert tier.ran
        return {test.id: test for test in tier.tests}, capsys.readouterr().out
    return run


def test_only_what_failed_is_shown(run):
    tests, shown = run("A.Works", "A.Fails", "B.Works")
    assert {name: test.outcome for name, test in tests.items()} == {
        "x_test::A.Works": PASSED, "x_test::A.Fails": FAILED, "x_test::B.Works": PASSED}
    assert "words of A.Fails" in shown and "x_test::A.Fails" in shown
    assert "Works" not in shown
    assert tests["x_test::B.Works"].seconds == 0.007


def test_shards_run_each_test_once(run):
    tests, _ = run("A.A", "A.B", "A.C", "A.D", "A.E", shards=2)
    assert len(tests) == 5 and all(test.outcome == PASSED for test in tests.values())


def test_a_crash_names_the_test_it_was_in(run):
    tests, shown = run("A.Works", "A.Crashes", "A.Never")
    assert tests["x_test::A.Crashes"].outcome == FAILED
    assert tests["x_test::A.Works"].outcome == PASSED
    assert "x_test::A.Never" not in tests
    assert "the program ended here" in shown


def test_a_test_that_hangs_is_ended_and_named(run):
    tests, shown = run("A.Works", "A.Hangs", timeout_seconds=3)
    assert tests["x_test::A.Hangs"].outcome == FAILED
    assert "did not end within 3 s" in tests["x_test::A.Hangs"].reason and "did not end within" in shown


def test_a_program_that_fails_without_a_failing_test_has_failed(run):
    tests, _ = run("A.Works", code=3)
    assert tests["x_test"].outcome == FAILED and "code 3" in tests["x_test"].reason


def test_a_filter_and_what_is_left_out_reach_the_program(run, tmp_path):
    run("A.Works", only={"x_test": ["A.W*", "B.*"]}, left_out=("*/Sid*",))
    assert "A.W*:B.*-*/Sid*" in (tmp_path / "unit" / "x_test.log").read_text()


def test_nothing_to_run_is_a_failure():
    with pytest.raises(console.Failure, match="no test program"):
        unit.run_programs(Tier("unit"), [], unit.Run())


def test_a_command_counts_as_one_test(run):
    run("A.Works")
    tier = Tier("root")
    programs = [manifest.Program(name, "tests/x", kind="command", command=("sh", "-c", f"exit {code}"))
                for name, code in (("good", 0), ("bad", 3))]
    unit.run_programs(tier, programs, unit.Run())
    assert {test.id: test.outcome for test in tier.tests} == {"good": PASSED, "bad": FAILED}


def test_a_promise_that_a_program_left_out_is_a_note(run):
    run("A.Works")
    words = "echo left out under asan: 32 MiB; echo left out beside other work: 2 s; echo left out: x"
    program = manifest.Program("y_test", "tests/y", command=("sh", "-c", words), kind="command")
    tier = Tier("asan")
    unit.run_programs(tier, [program], unit.Run())
    assert tier.notes == ["y_test: left out under asan: 32 MiB", "y_test: left out beside other work: 2 s"]


def test_skipped_cases_are_no_failures():
    job = unit.Job(manifest.Program("x_test", "tests/x"))
    lines = ["[ RUN      ] A.Skips", "why", "[  SKIPPED ] A.Skips (0 ms)"]
    tests = unit.judge(job, 0, lines, console.ROOT / "no-report.xml")
    assert [(test.id, test.outcome) for test in tests] == [("x_test::A.Skips", SKIPPED)]


def test_a_sanitizer_runs_one_test_of_one_program(monkeypatch):
    programs = {name: manifest.Program(name, "tests/x", labels=frozenset({"unit", "threads"})) for name in ("a_test", "b_test")}
    monkeypatch.setattr(manifest, "read", lambda preset: programs)
    ran = []
    monkeypatch.setattr(unit, "run_programs", lambda this, chosen, run: ran.append(([one.name for one in chosen], run.only)))
    for pattern in (None, "a_", "a_test::A.B"):
        tiers.run_sanitized([], "tsan", pattern)
    assert ran == [(["a_test", "b_test"], {}), (["a_test"], {}), (["a_test"], {"a_test": manifest.gtest_patterns("A.B")})]
