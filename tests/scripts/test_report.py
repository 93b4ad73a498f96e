"""What counts as a passed run: nothing that did not run is called passed, and what is told of it."""

import json

import console
import pytest
import report
from report import FAILED, PASSED, SKIPPED, Entry, Run, Test

BAD, SKIP = "><failure message='x'/></testcase>", "><skipped message='no ipv6'/></testcase>"
DOWN, OFF = "><error message='failed on teardown with x'/></testcase>", "status='notrun'/>"
RUN, LATE = "[ RUN      ] A.A\n[       OK ] A.A (7 ms)\n[ RUN      ] A.B\nwords\n", "it did not end within 3 s"


@pytest.fixture(name="kept", autouse=True)
def fixture_kept(tmp_path, monkeypatch):
    """A cache and a folder of reports of this test's own."""
    (tmp_path / "results/t").mkdir(parents=True)
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(report, "folder", lambda: tmp_path / "results")
    return tmp_path


# `told`: an exit code, why the entry was ended, or None. `printed`: its output, or the cases of its report, with what is in them.
@pytest.mark.parametrize("kind,told,printed,passed,complaints", [
    ("gtest", 0, ["A"], "x::A.A 0.5", ""), ("gtest", 3, ["A"], "x::A.A 0.5", "x.1: ended with code 3"),
    ("gtest", 1, ["A", f"B{BAD}"], "x::A.A 0.5", "failed: x::A.B"), ("gtest", 0, [], "", "x.1: it ran no test"),
    ("gtest", 0, [f"B{SKIP}"], "", "required test skipped: x::A.B: no ipv6"),
    ("gtest", 0, [f"B{OFF}"], "", "required test skipped: x::A.B: disabled"),
    ("gtest", LATE, RUN, "x::A.A 0.007", f"x.1: {LATE}; failed: x::A.B"),
    ("gtest", 0, RUN[:44], "x::A.A 0.007", "x.1: it left no report"), ("pytest", 0, ["a"], "t.py::a 0.5", ""),
    ("pytest", 1, ["a", f"b{DOWN}"], "t.py::a 0.5", "failed: t.py::b"),
    ("pytest", 1, [f"b{BAD}", f"b{DOWN}"], "", "failed: t.py::b"), ("pytest", 1, ["b", f"b{DOWN}"], "", "failed: t.py::b"),
    ("pytest", 0, [f"b{SKIP}"], "", "required test skipped: t.py::b: no ipv6"),
    ("pytest", 2, ["a", f"b{BAD}"], "t.py::a 0.5", "x.1: ended with code 2; failed: t.py::b"),
    ("pytest", 0, "", "", "x.1: it ran no test"), ("pytest", 5, "", "", "x.1: ended with code 5"),
    ("pytest, perhaps empty", 5, "", "", ""), ("pytest, perhaps empty", 4, "", "", "x.1: ended with code 4"),
    ("pytest", 0, ["torn"], "", "x.1: cannot read the report"),
    ("lines", 1, "PASS 1.18 a: 250 ms\nFAIL: 1.13 b\nnoise\nSKIP c: no proxy\n", "x::1.18 a 0.25",
     "failed: x::1.13 b; required test skipped: x::c: no proxy"), ("lines", 1, "PASS a", "x::a 0.0", "x.1: ended with code 1"),
    ("lines", 0, "noise", "", "x.1: it ran no test"), ("command", 0, "", "t::x.1 9.0", ""),
    ("command", 3, "", "", "failed: t::x.1"), ("lines", None, "", "", "required x.1 did not run: an earlier one failed")])
def test_an_entry_is_judged_by_its_report_or_for_the_want_of_one(kept, kind, told, printed, passed, complaints):
    entry = Entry("x.1", "t", kind.split(",")[0], may_be_empty="," in kind)
    (kept / "results/t/x.1.log").write_text(printed if isinstance(printed, str) else "")
    if not isinstance(printed, str):
        cases = [f"<testcase file='t.py' name='{one[0]}' time='0.5' {one[1:] or '/>'}" for one in printed]
        text = f"<testsuites><testsuite name='A'>{''.join(cases)}</testsuite></testsuites>"
        (kept / "results/t/x.1.xml").write_text(text)
    if told is not None:
        code, why = (1, LATE) if told == LATE else (told, "")
        result = {"code": code, "why": why, "left": [], "seconds": 9.0, "processor_seconds": 1}
        (kept / "results/t/x.1.json").write_text(json.dumps(result))
    report.read_entry(entry)
    found, wanted = report.complaints([entry], {}), [*filter(None, complaints.split("; "))]
    assert [line[:len(want)] for line, want in zip(found, wanted, strict=True)] == wanted
    assert " ".join(f"{test.id} {test.seconds}" for test in entry.tests if test.outcome == PASSED) == passed
    assert all(("never_retry" in test.properties) == (DOWN in str(printed)) for test in entry.tests if test.outcome == FAILED)
    assert len({test.id for test in entry.tests}) == len(entry.tests)


REASONLESS = "required test skipped: t.py::a: it gave no reason"


@pytest.mark.parametrize("optional,complaints", [
    ("", ["required y did not run: no compiler", "required test skipped: t.py::z[1]: no tool", REASONLESS]),
    ("t.py::z[1] y", [REASONLESS]), ("t.py::* *", [])])
def test_only_what_is_named_as_optional_with_a_reason_may_be_skipped_and_all_of_it_is_told(kept, optional, complaints):
    skipped = [Test("t.py::z[1]", SKIPPED, "no tool"), Test("t.py::a", SKIPPED)]
    entries = [Entry("y", "u", error="no compiler"), Entry("x", "t", ran=True, tests=skipped)]
    (kept / "optional.txt").write_text("# a comment\n\n" + "".join(f"{name} | why\n" for name in optional.split()))
    assert report.complaints(entries, report.read_optional(kept / "optional.txt")) == complaints
    assert report.table(entries)[-3:] == [
        "y did not run: no compiler", "skipped: t.py::z[1]: no tool", "skipped: t.py::a: it gave no reason"]
    (kept / "optional.txt").write_text("e2e\n")
    with pytest.raises(console.Failure, match="optional.txt:1: wants"):
        report.read_optional(kept / "optional.txt")


def test_the_slowest_come_first_and_a_failure_is_repeated_by_the_verb_that_had_it(capsys):
    entry = Entry("unit.1of2", "unit", ran=True, tests=[Test(f"a::A.T{number}", PASSED, seconds=number) for number in range(40)])
    assert [line.split() for line in report.slowest([entry])[::24]] == [[f"{n}.0", "s", f"a::A.T{n}", "(unit)"] for n in (39, 15)]
    assert report.replay("a::A.B", "7", "asan") == "CSI_DELTA_SWEEP=7 ./dev asan a::A.B"
    assert report.replay("a::A.B", "7", "unit") == "CSI_DELTA_SWEEP=7 ./dev test a::A.B"
    assert not Run("test", "7").account() and "dev: nothing ran\n" in capsys.readouterr().out


def test_more_than_three_flaky_names_in_ten_runs_with_journeys_are_too_many():
    for names in ("aa", "bc", "c", "d"):
        assert report.flaky_complaint() == ""
        report.remember_flaky("xyz", had_journeys=False)
        report.remember_flaky(names, had_journeys=True)
    assert report.flaky_complaint() == "4 flaky names in 10 runs, at most 3 are fine: a b c d"
    for _ in range(7):
        report.remember_flaky("", had_journeys=True)
    assert report.flaky_complaint() == ""  # The first run is the eleventh now.


def _journeys(names, outcome=FAILED, **properties):
    return [Test(name, outcome, properties={"journey": "True", **properties}) for name in names]


@pytest.mark.parametrize("tests,retried,note", [
    (_journeys("ab"), "ab", ""), (_journeys("abcde"), "abcde", ""), (_journeys("abcdef"), "", "not run again: 6 journeys failed"),
    ([Test("a", FAILED)], "", ""), (_journeys("a", PASSED), "", ""),
    (_journeys("a") + _journeys("b", never_retry="lost data"), "", "not run again, for its clean-up failed or data were lost: b")])
def test_only_a_few_journeys_that_lost_nothing_run_again(tests, retried, note):
    found, notes = report.to_retry([Entry("e", "e2e", ran=True, tests=tests)])
    assert [test.id for test in found] == [*retried] and [line[:len(note)] for line in notes] == [note] * bool(note)


def test_what_is_not_written_to_its_end_leaves_what_was_there(kept):
    report.write_state(kept / "a/state", "old")
    (kept / "a/state.new").mkdir()  # It cannot be written.
    with pytest.raises(OSError):
        report.write_state(kept / "a/state", "new")
    assert (kept / "a/state").read_text() == "old"
