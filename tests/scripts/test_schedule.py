"""The order of steps, what a failure keeps from running, and what the progress line says."""

import collections
import os
import sys
import threading
import time

import console
import progress
import pytest
from console import Failure
from schedule import Schedule, Step

NOTHING_KNOWN = {"steps": {}, "tests": {}, "runs": []}


def run(steps, stop_when=lambda: False, known=None):
    schedule = Schedule(steps, progress.Board(say=lambda line: None), known or NOTHING_KNOWN)
    return schedule, schedule.run(stop_when)


def fail():
    raise Failure("no")


def test_a_step_begins_when_what_it_needs_has_ended():
    order = []
    _, is_good = run([Step("c", lambda: order.append("c"), ("a", "b")), Step("a", lambda: order.append("a")),
                      Step("b", lambda: order.append("b"), ("a",))])
    assert is_good and order == ["a", "b", "c"]


def test_steps_that_do_not_need_each_other_run_at_once():
    meet = threading.Barrier(2, timeout=10)
    assert run([Step("a", meet.wait), Step("b", meet.wait)])[1]


def test_a_failure_keeps_from_running_only_what_needs_it():
    ran = []
    schedule, is_good = run([Step("bad", fail), Step("needs", lambda: ran.append("needs"), ("bad",)),
                             Step("needs it, too", lambda: ran.append("too"), ("needs",)),
                             Step("after", lambda: ran.append("after"), after=("bad", "needs it, too")),
                             Step("other", lambda: ran.append("other"))])
    assert not is_good and sorted(ran) == ["after", "other"]
    assert schedule.failed == {"bad": "no", "needs": "bad failed", "needs it, too": "bad failed"}


def test_a_fault_of_the_script_itself_is_a_failed_step(capsys):
    schedule, is_good = run([Step("odd", lambda: 1 / 0)])
    assert not is_good and "ZeroDivisionError" in schedule.failed["odd"]
    assert "Traceback" in capsys.readouterr().out


def test_once_the_run_stops_nothing_begins_and_what_is_only_made_for_it_ends():
    stop = threading.Event()
    schedule, _ = run([Step("go", lambda: console.execute(["sleep", "600"]), makes=True), Step("test", stop.set),
                       Step("later", fail, ("go",))], stop.is_set)
    assert "was ended" in schedule.failed["go"] and "later" in schedule.failed
    assert not console.STOPPING.is_set()


def test_an_interruption_ends_what_runs(monkeypatch):
    monkeypatch.setattr(console, "INTERRUPTED", threading.Event())
    begun, told = threading.Event(), []

    def long():
        try:
            console.execute(["sh", "-c", "echo begun; exec sleep 600"], quiet=True, limit_seconds=60, watch=lambda line: begun.set())
        except Failure as error:
            told.append(type(error))

    def interrupt():
        if begun.is_set():
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        run([Step("long", long)], interrupt)
    assert told == [console.Stopped]


def test_a_step_has_its_own_nice():
    told = []
    run([Step("a", lambda: told.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())), nice=5)])
    assert told == [min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)]


def test_needs_are_steps():
    with pytest.raises(ValueError, match="which is no step"):
        Schedule([Step("a", fail, ("b",))], known=NOTHING_KNOWN)


def test_the_line_names_what_runs_how_far_it_is_and_how_long_it_will_take():
    board = progress.Board()
    board.forecast = lambda parts: 600 if set(parts) == {"build"} else None
    assert board.line() == ""
    with board.part("build") as part:
        part.edge("[12/340] Building CXX object x.o")
        assert board.line() == "[00:00] build 12 of 340; about 10 min still"


STEPS = [Step("a", fail), Step("b", fail, ("a",)), Step("c", fail, ("a",))]


@pytest.mark.parametrize("finished,steps,want", [
    ({}, {"a": [10], "b": [20], "c": [5]}, 30), ({"a": 9}, {"a": [10], "b": [20], "c": [5]}, 20),
    ({}, {"a": [99, 10], "b": [20]}, None),
])
def test_the_forecast_is_the_longest_way_by_the_last_run(finished, steps, want):
    assert progress.forecast(STEPS, finished, {}, {**NOTHING_KNOWN, "steps": steps}) == want


def test_the_forecast_waits_for_what_a_step_comes_after_wherever_that_stands():
    steps = [Step("late", fail, after=("early",)), Step("early", fail, ("first",)), Step("first", fail)]
    assert progress.forecast(steps, {}, {}, {**NOTHING_KNOWN, "steps": {"late": [10], "early": [20], "first": [5]}}) == 35


def test_a_step_s_own_pace_tells_more_than_an_earlier_run():
    part = progress.Part("a")
    part.start, part.done, part.total = time.monotonic() - 10, 50, 100
    assert 9 < part.still_seconds(500) < 12
    part.done = 1
    assert 485 < part.still_seconds(500) < 495
    assert 1 < part.still_seconds(5) < 4  # It is late: longer the longer it takes.


def test_processor_time_is_counted_for_the_step_that_took_it(monkeypatch):
    monkeypatch.setattr(console, "PROCESSOR_SECONDS", collections.Counter())
    burn = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"]

    def in_a_pool():
        with progress.pool() as pool:
            list(pool.map(lambda _: console.execute(burn, quiet=True), range(2)))
    steps = [Step("alone", lambda: console.execute(burn, quiet=True)), Step("pool", in_a_pool), Step("idle", lambda: None)]
    assert run(steps)[1]
    assert set(console.PROCESSOR_SECONDS) == {"alone", "pool"}
    assert 0.3 <= console.PROCESSOR_SECONDS["alone"] < console.PROCESSOR_SECONDS["pool"]
