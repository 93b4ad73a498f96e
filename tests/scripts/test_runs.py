"""Whole runs: of entries that ctest really runs in a small checkout, and of some that only say what they would have found."""

import contextlib
import json
import re
import time

import capacity
import console
import pytest
import report
import runs
from conftest import PROJECT, PYTHON, Checkout, write
from report import FAILED, PASSED, SKIPPED, Entry, Test
from scenarios import Scenario

ENTRIES = PROJECT + f"""
csidelta_entry(NAME build-unit-tests TIER build KIND command MAKES unit-tests COMMAND true)
csidelta_program_entries(NAME x_test LABELS unit SOURCES tests/x/a_test.cc tests/x/b_test.cc SWEEPS tests/x/a_test.cc
                         SHARDS 2 SECONDS 20)
csidelta_entry(NAME broken TIER build KIND command MAKES nothing COMMAND false)
set(checks TIER checks KIND lines LABELS in-test)
csidelta_entry(NAME needs ${{checks}} NEEDS nothing COMMAND echo PASS x)
csidelta_entry(NAME gone ${{checks}} SOURCES no/file COMMAND echo PASS x)
csidelta_entry(NAME late ${{checks}} SECONDS 3 COST 9 COMMAND sh tree.sh)
csidelta_entry(NAME ended ${{checks}} COMMAND sleep 600)
set_tests_properties(ended PROPERTIES TIMEOUT 2)
csidelta_entry(NAME says ${{checks}} COMMAND sh -c "printf 'PASS x\\nFAIL y\\nleft out under asan: z' && exit 1")
csidelta_entry(NAME leaves ${{checks}} COMMAND sh -c "setsid sleep 600 & echo PASS x")
set(journeys KIND pytest COMMAND {PYTHON} -m pytest CHOICE)
csidelta_entry(NAME journeys TIER journeys LABELS in-test ${{journeys}} tests/e2e -m "not last")
csidelta_entry(NAME last TIER last LABELS in-ci ${{journeys}} tests/e2e -m last)
csidelta_entry(NAME e2e TIER e2e ${{journeys}} tests/e2e)
"""
# Stands for a GoogleTest program: it prints and reports as those do.
PROGRAM = """#!/usr/bin/python3
import os, sys
options = dict(word[2:].split("=", 1) for word in sys.argv[1:])
index, count, body = int(os.environ.get("GTEST_SHARD_INDEX", 0)), int(os.environ.get("GTEST_TOTAL_SHARDS", 1)), ""
for name in (["Good", "Fails", "C", "D", "E", "Crashes"] if count > 1 else ["Good"])[index::count]:
    print(f"[ RUN      ] A.{name}\\nwords of {name}", flush=True)
    if name == "Crashes":
        os.abort()
    print(f"[  FAILED  ] A.{name} (7 ms)" if name == "Fails" else f"[       OK ] A.{name} (7 ms)")
    body += f"<testcase name='{name}'/>"
print(options.get("gtest_filter"), os.environ.get("CSI_DELTA_QUIET"))
with open(options["gtest_output"].removeprefix("xml:"), "w") as file:
    file.write(f"<testsuites><testsuite name='A'>{body}</testsuite></testsuites>")
"""
JOURNEYS = """import pathlib, pytest
@pytest.fixture(autouse=True)
def journey(record_property, request):
    record_property("journey", True)
    yield
    assert "left" not in request.node.name, "words of what is left"
def test_flaky(seen=pathlib.Path("seen")):
    if not seen.exists():
        seen.touch()
        assert False
def test_good():
    print("words of the good one")
@pytest.mark.parametrize("x", ["a b"])
def test_bad(x):
    assert False, "words of the bad one"
def test_skipped():
    pytest.skip("no tool")
@pytest.mark.last
def test_left():
    assert False
"""
DRIVER = """import console, runs
console.PROGRESS_EVERY_SECONDS = 0.2
run = runs.new_run("test", 600)
for name, *words in (("test", "-L", "^in-test$"), ("ci", "-L", "^in-ci$"), ("sweep", "-L", "^in-sweep$"), ("quiet", "-R", "quiet")):
    runs.stage(run, name, *words)
run.account()
"""
J = "tests/e2e/test_j.py::test_"


@pytest.fixture(name="ran", scope="module")
def fixture_ran(tmp_path_factory):
    """(the folder, what a run of all this printed)."""
    checkout = Checkout(tmp_path_factory.mktemp("checkout"))
    write(checkout.folder, {"CMakeLists.txt": ENTRIES, "tests/x/a_test.cc": "TEST(A, A) {\n}\n", "tests/e2e/test_j.py": JOURNEYS,
                            "tests/x/b_test.cc": 'TEST(B, A) {\n}\n\nTEST_P(B, B) {\n  if (support::AssertsSeconds("2 s")) {\n',
                            "build/release/bin/x_test": PROGRAM})
    (checkout.folder / "build/release/bin/x_test").chmod(0o755)
    return checkout.folder, checkout.run(PYTHON, "-c", DRIVER)[0]


@pytest.mark.parametrize("line", [
    "random seed of the day: CSI_DELTA_SWEEP=7", "dev: broken: ended with code 1", "dev: late: it did not end within 3 s",
    "dev: required needs did not run: Fixture dependency failed", "dev: required gone did not run: Required Files Missing",
    "dev: ended: ctest ended it, and it left no report", r"leaves: ended what was left: \d+ .*sleep 600",
    "says: left out under asan: z", "failed: x_test::A.Crashes", "again: CSI_DELTA_SWEEP=7 ./dev test x_test::A.Crashes",
    "---- A.Crashes", "words of Crashes", "FAIL y", rf"failed: {J}bad\[a b\]", rf"again, alone: {J}bad\[a b\]",
    rf"again: CSI_DELTA_SWEEP=7 ./dev test '{J}bad\[a b\]'", f"again, alone: {J}flaky",
    f"flaky: {J}flaky: failed, and passed when it ran again alone in a new bed", f"failed: {J}left",
    f"not run again, for its clean-up failed or data were lost: {J}left", "E       AssertionError: words of the bad one",
    "E       AssertionError: words of what is left", "it did not end within 3 s", f"skipped: {J}skipped: no tool",
    f"dev: required test skipped: {J}skipped: no tool", "tier +ran +passed +failed +skipped +seconds", r"unit +6 +4 +2 +0 +\d",
    r"journeys +3 +2 +1 +1 +\d", r"stages: .*\blate \d+ s\b",
    r"./dev test: \d+ s in all; its budget is 600 s, \d+ s are left; whole", "10 passed, 11 failed, 1 skipped$"])
def test_what_a_run_prints(ran, line):
    assert [one for one in ran[1].splitlines() if re.match(line, one)]
    assert (ran[0] / "tidy").exists()  # By what took too long.


def test_what_passed_is_not_shown_and_shares_sweeps_and_promises_of_seconds_run_what_they_are_for(ran):
    # A line of output: "PASS x" is also in the command of the shell that "leaves" may still be when it is named.
    assert not re.search(r"(?m)words of (the good one|Good|C\b)|^PASS x|failed: \S+test_(flaky|good)|again, alone: \S+_left", ran[1])
    logs = [(ran[0] / f"build/results/unit/x_test.{number}of2.log").read_text() for number in (1, 2)]
    assert sorted(re.findall(r"RUN      \] A\.(\S+)", "".join(logs))) == ["C", "Crashes", "D", "E", "Fails", "Good"]
    logs = [ran[0] / f"build/results/{name}.log" for name in ("sweep/x_test.sweep", "unit-quiet/x_test.quiet")]
    assert [log.read_text().splitlines()[-1] for log in logs] == [
        f"--gtest_filter={':'.join(runs.selection.gtest_patterns(name))} {quiet}"[15:] for name, quiet in (("A", None), ("B.B", 1))]


def test_progress_tells_what_runs_and_how_far_and_what_is_left_only_if_it_was_measured(ran, monkeypatch):
    assert re.search(r"^\[\d\d:\d\d\] test: \d of 11 · .*\blate\b", ran[1], re.MULTILINE)
    assert set(json.loads((ran[0] / "cache/stage-seconds.json").read_text())) == {"ci", "sweep", "quiet"}  # Not all of "test" ran.
    monkeypatch.setattr(report, "folder", lambda: ran[0] / "build/results")
    monkeypatch.setattr(runs, "say", lambda line: None)
    progress = runs.Progress("test", {"journeys": Entry("journeys", "journeys", "pytest")})
    progress.line_of_ctest("    Start 12: journeys")
    assert {text[7:] for text in (progress.text(), progress.text(50))} == {" test: 0 of 1 · journeys 100%"}
    assert progress.text(600).endswith("journeys 100%; about 10 min left if it takes as long as the last time")
    for line in (ran[0] / "build/results/ctest-test.log").read_text().splitlines():
        progress.line_of_ctest(line)
    assert progress.text().endswith("test: 11 of 1 · journeys 100%")  # The one that was begun here.


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    """({stage: what it finds}, what was asked of ctest)."""
    finds = {name: [Entry(name, "unit", ran=True, tests=[Test(f"{name}::one", PASSED)])] for name in ("test", "ci", "asan", "tsan")}
    asked = []

    def ctest(name, *words, **how):
        asked.append((name, words, how))
        if isinstance(finds[name], Exception):
            raise finds[name]
        return [Entry(**{**vars(entry), "tests": list(entry.tests)}) for entry in finds[name]]
    for module, name, value in (
            (runs, "ctest", ctest), (report, "folder", lambda: tmp_path), (console, "cache_dir", lambda: tmp_path / "cache"),
            (report, "commit", lambda: "abc"), (runs.capacity, "require", lambda **_: None), (runs.build, "build", lambda *_: None),
            (runs.packages, "require_root", lambda: None), (runs.scenarios, "read", lambda: []),
            (runs.selection, "programs", lambda: {}), (runs.selection, "bed_changed", lambda: (False, "x")),
            (runs.debian, "ensure_restics", lambda **_: None)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setenv(runs.SEED, "7")
    return finds, asked


def _of(test_id, outcome=FAILED, name="journeys", **properties):
    return [Entry(name, "journeys", "pytest", ran=True, tests=[Test(test_id, outcome, properties=properties)])]


def _again(again, name="journeys", **properties):
    """A journey that failed, and what its second run finds."""
    second = again if isinstance(again, list) else _of("t.py::j", again)
    return {"test": _of("t.py::j", name=name, journey="True", **properties), "again": second}


POINTS = {"sweep": [*_of("t::a", PASSED, points="12"), *_of("t::b", PASSED, points="3")]}
TEST, CI, ASAN, TSAN = "test -L ^in-test$", "ci -L ^in-ci$", "asan -L ^unit$ asan", "tsan -L ^threads$ tsan"
AGAIN, FLAKY, STILL = "again -R ^(e2e)$ {'e2e': ['t.py::j']}", "flaky: t.py::j: failed, and passed", "failed: t.py::j"
ONLY, BAD = {"a_test": [f"--gtest_filter={':'.join(runs.selection.gtest_patterns('A.B'))}"]}, {"test": _of("a::A.A")}


@pytest.mark.parametrize("call,finds,asked,good,line", [
    (runs.test, {}, [TEST], True, "1 passed, 0 failed"), (runs.test, {"test": _of("t.py::j")}, [TEST], False, STILL),
    (runs.test, _again(FAILED), [TEST, AGAIN], False, STILL), (runs.test, _again([]), [TEST, AGAIN], False, STILL),
    (runs.test, _again(PASSED, "scenarios-quiet-1"), [TEST, f"{AGAIN} quiet"], True, FLAKY),
    (runs.test, _again(SKIPPED), [TEST, AGAIN], False, STILL),
    (runs.test, _again([Entry("e2e", "e2e")]), [TEST, AGAIN], False, STILL),
    (runs.test, _again(PASSED, never_retry="lost data"), [TEST], False,
     "not run again, for its clean-up failed or data were lost: t.py::j"),
    (runs.ci, {}, [TEST, CI, ASAN, TSAN], True, "4 passed, 0 failed"),
    (runs.ci, BAD, [TEST], False, "dev: tsan did not run: an earlier stage failed"),
    (lambda: runs.ci(True), BAD | {"asan": console.Failure("none")}, [TEST, CI, ASAN, TSAN], False, "dev: asan: none"),
    (lambda: runs.sanitized("tsan"), {}, [TSAN], True, "1 passed"),
    (lambda: runs.sanitized("tsan", "a_"), {}, ["tsan -L ^threads$ -R a_ tsan"], True, "1 passed"),
    (lambda: runs.sanitized("tsan", "a_test::A.B"), {}, [f"tsan -L ^threads$ -R ^(a_test)$ tsan {ONLY}"], True, "1 passed"),
    (runs.sweep, POINTS, ["sweep -L ^in-sweep-all$"], True, "sweep: all points: 15"),
    (lambda: runs.sweep("9"), POINTS, ["sweep -L ^in-sweep$"], True, "sweep: seed 9: 15"),
    (runs.sweep, {"sweep": _again(PASSED)["test"]}, ["sweep -L ^in-sweep-all$"], False, STILL),
    (lambda: runs.sweep("storm"), {"sweep storm": POINTS["sweep"]},
     [r"sweep storm -R ^(storm_test\.sweep)$ {'build-unit-tests': ['storm_test']}"], True, "           7  faults: answer lost")])
def test_what_a_verb_asks_of_ctest_and_makes_of_it(world, monkeypatch, tmp_path, capsys, call, finds, asked, good, line):
    world[0].update(finds)
    monkeypatch.setattr(runs, "entries_of", lambda *words, preset: {"a_test": None})
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep/storm_test.sweep.log").write_text("noise\nstorm: faults 12345\nstorm: faults: answer lost 7\n")
    assert call() == good
    told = [[name, *words, how.get("preset"), how.get("only"), how.get("env") == {"CSI_DELTA_QUIET": "1"} and "quiet"]
            for name, words, how in world[1]]
    assert [" ".join(str(word) for word in words if word) for words in told] == asked
    printed = capsys.readouterr().out.splitlines()
    assert [one for one in printed if one.startswith(line)] and any(one.startswith("flaky: ") for one in printed) == (line == FLAKY)


@pytest.mark.parametrize("outcome", [PASSED, SKIPPED, FAILED])
def test_tests_of_the_bed_are_remembered_if_they_passed_as_the_files_were_before(world, monkeypatch, outcome):
    finds, asked = world
    states = iter(["before", "after"])
    monkeypatch.setattr(runs.selection, "bed_changed", lambda: (True, "it has changed"))
    monkeypatch.setattr(runs.selection, "bed_digest", lambda: next(states))
    finds["test"] = _of("t.py::j", outcome)
    assert runs.test() == (outcome == PASSED) and asked[0][2]["env"] == {"CSI_DELTA_BED_TESTS": "1"}
    file = runs.selection.bed_file()
    assert (file.read_text() if file.exists() else None) == ("before\n" if outcome == PASSED else None)


def test_promises_of_unit_tests_are_proven_by_every_run_and_others_where_they_ran():
    promises = [Scenario(name, "text", test) for name, test in (("1", "A.A"), ("2", "a.py::x"), ("3", "a.py::y"), ("4", "R.B"))]
    ran = [Test("a.py::x[1]", PASSED), Test("restic_test::All/R.B/bookworm", PASSED)]
    assert [one.id for one in runs.promised_here(promises, ran, {"A.A"})] == ["1", "2", "4"]


@pytest.mark.parametrize("change,words", [
    ({}, None), ({2: None}, "part 2/4 has no report"), ({1: {"passed": False}}, "part 1/4 failed"),
    ({3: {"commit": "abc+"}}, "no commit has"), ({3: {"commit": ""}}, "no commit has"),
    (dict.fromkeys(range(1, 5), {"entries": ["x"]}), "1 entries are in no report: y"),
    ({1: {"unused": [["get a", "get b"], ["get a"]]}, 2: {"unused": [["get a"]]}}, "used in no part: get a"),
    ({1: {"unused": [["get a", "get b"], ["get a"]]}, 2: {"unused": [["get b"]]}}, None),
    (dict.fromkeys(range(1, 5), {"tests": {"f.py::s": SKIPPED}}), "scenarios: 1: f.py::s: skipped")])
def test_four_reports_of_one_commit_are_one_whole(change, words):
    plain = {"commit": "abc", "passed": True, "entries": ["x", "y"], "unused": [], "tests": {"f.py::s[1]": PASSED}}
    found = {number: {**plain, "part": f"{number}/4", **change.get(number, {})} for number in range(1, 5) if change.get(number, 1)}
    wrong = runs.judge_parts(found, ["x", "y"], [Scenario("1", "text", "f.py::s")])
    assert (not wrong) if words is None else any(words in line for line in wrong)


def test_all_is_four_parts_of_one_commit_with_one_seed(world, monkeypatch, capsys):
    finds, _ = world
    for number in range(1, 5):
        tests = [Test(f"t.py::{number}", PASSED, properties={"unused_rights": "[]"})]
        finds[f"all-{number}"] = [Entry(f"e{number}", "unit", "pytest", ran=True, tests=tests)]
    monkeypatch.setattr(runs, "entries_of", lambda *words: [f"e{words[1][-2]}"])
    monkeypatch.setattr(runs.selection, "bed_digest", lambda: "digest")
    assert runs.test_all() and runs.selection.bed_file().read_text() == "digest\n"
    assert "--all: four parts passed at commit abc: 4 tests" in capsys.readouterr().out
    monkeypatch.setattr(report, "commit", lambda: "def")
    for day, parts in (("20261125", ["3/4"]), ("20261126", ["1/4", "2/4"])):
        monkeypatch.delenv(runs.SEED)
        monkeypatch.setattr(time, "strftime", lambda *_, day=day: day)
        assert all(map(runs.test_all, parts)) and runs.os.environ[runs.SEED] == "20261125"
    assert "--all:" not in capsys.readouterr().out  # The report of part 4 is another commit's.
    for name in "abc":
        report.remember_flaky([name], had_journeys=True)
    finds |= {"all-4": _again(PASSED)["test"], "again": _of("t.py::j", PASSED)}
    assert not runs.test_all("4/4")
    told = capsys.readouterr().out
    assert "dev: 4 flaky names in 10 runs, at most 3 are fine: a b c t.py::j" in told and "part 4/4 of commit def: FAILED" in told
    for text in ("0/4", "5/4", "1/3", "x"):
        with pytest.raises(console.Failure, match="not a part"):
            runs.test_all(text)
    monkeypatch.setattr(runs, "run_part", lambda number: monkeypatch.setattr(report, "commit", lambda: "ghi") or True)
    with pytest.raises(console.Failure, match="the checkout changed while its parts ran"):
        runs.test_all()


@pytest.mark.parametrize("free,device,memory,words", [
    (15, lambda path: 1, 8, ""), (5, str, 8, r"6\.0 GiB more of disk for \S*build, there are 5\.0$"),
    (3, lambda path: 1, 2, r"15\.0 GiB more of disk for .*cache, .*go-mod, there are 3\.0; and 4 GiB of memory, there are 2\.0")])
def test_too_little_disk_or_memory_is_said_with_what_there_is(tmp_path, monkeypatch, free, device, memory, words):
    monkeypatch.setattr(capacity, "ROOT", write(tmp_path, {"build/object": "x" * (3 << 20)}))
    for name, folder in (("CSI_DELTA_CACHE", "cache"), ("GOCACHE", "go-build"), ("GOMODCACHE", "go-mod")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    assert capacity._used_bytes(tmp_path / "build") >= 3 << 20  # What is there already is used again.
    with pytest.raises(console.Failure, match=words) if words else contextlib.nullcontext():
        capacity.require(6, 3, 6, 4, lambda path: free << 30, device, lambda: memory << 30)
