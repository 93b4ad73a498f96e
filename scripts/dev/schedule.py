"""Runs steps that need each other: each begins when what it needs has ended, and gets the cores by its nice.

Two cores are not shared out: what has to be ready first runs at nice 0, what is needed later at more, and takes
what the first leaves.
"""

import dataclasses
import os
import threading
import time
import typing

import console
import durations
import progress
from console import Failure, say


@dataclasses.dataclass(frozen=True)
class Step:
    """Something to do once. A failed need keeps it from running."""

    name: str
    run: typing.Callable  # () -> None; raises Failure.
    needs: tuple = ()  # Names of steps that have to have ended well.
    after: tuple = ()  # Names of steps that have to have ended, well or not.
    nice: int = 0
    makes: bool = False  # Only makes what others need: ended at once when the run stops.


class Schedule:
    """One run of some steps."""

    def __init__(self, steps, board=None, known=None):
        self._steps = list(steps)
        self._names = {step.name for step in self._steps}
        self._board = board or progress.Board()
        self._known = known or durations.history()
        self._changed = threading.Condition()
        self._running = {}
        self.seconds = {}  # Of the steps that ended, by name.
        self.failed = {}  # name: why; of a step that did not run, what it needed.
        self._board.forecast = lambda parts: progress.forecast(self._steps, self.seconds, parts, self._known)
        for step in self._steps:
            unknown = {*step.needs, *step.after} - self._names
            if unknown:
                raise ValueError(f"{step.name} needs {' '.join(sorted(unknown))}, which is no step")

    def _is_over(self, name):
        return name in self.seconds or name in self.failed

    def _work(self, step):
        os.nice(step.nice)  # This thread, and all that it starts.
        console.here.is_abandoned = step.makes
        start, why = time.monotonic(), None
        try:
            with self._board.part(step.name):
                step.run()
        except Failure as error:
            why = str(error)
        except BaseException as error:  # pylint: disable=broad-except
            why = f"{type(error).__name__}: {error}"
            if not isinstance(error, KeyboardInterrupt):
                console.say_trace()
        with self._changed:
            del self._running[step.name]
            self.seconds[step.name] = time.monotonic() - start
            if why:
                self.failed[step.name] = why
            self._changed.notify_all()
        if why:
            say(f"dev: {step.name}: {why}")

    def _begin(self, stopping):
        """Starts what can start; says of the rest why it never will."""
        for step in self._steps:
            if self._is_over(step.name) or step.name in self._running:
                continue
            broken = next((need for need in step.needs if need in self.failed), None)
            if broken:  # One that did not run either has the reason of the one that did.
                self.failed[step.name] = f"{broken} failed" if broken in self.seconds else self.failed[broken]
                continue
            if stopping:
                self.failed[step.name] = "an earlier step failed"
                continue
            if all(self._is_over(name) for name in (*step.needs, *step.after)):
                thread = threading.Thread(target=self._work, args=(step,), name=step.name)
                self._running[step.name] = thread
                thread.start()

    def run(self, stop_when=lambda: False):
        """Runs all; nothing begins any more once stop_when() is true. True if each step ended well."""
        try:
            with self._board.shown():
                self._loop(stop_when)
        except BaseException:
            console.INTERRUPTED.set()
            raise
        finally:
            for thread in list(self._running.values()):
                thread.join()
            console.STOPPING.clear()
        return not self.failed

    def _loop(self, stop_when):
        while True:
            stopping = stop_when()
            if stopping:
                console.STOPPING.set()
            with self._changed:
                left = len(self.failed)
                self._begin(stopping)
                if not self._running:
                    if len(self.failed) == left:
                        return
                    continue  # What was given up may be the last that others wait for.
                self._changed.wait(0.5)
