"""One line every ten seconds: what runs, how far it is, and about how long it will still take."""

import concurrent.futures
import contextlib
import functools
import re
import threading
import time

import console
import durations

_EDGE = re.compile(r"^\[(\d+)/(\d+)\]")
_LATE_SHARE = 0.25  # Of the time that a step has taken, once that is more than it ever took.
_SURE_SHARE = 0.1  # Of its parts; from then on a step's own pace tells more than an earlier run's.


def _clock(seconds):
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


class Part:
    """How far one step is. Its functions may be called from any thread."""

    def __init__(self, name):
        self.name, self.done, self.total, self.note = name, 0, 0, ""
        self.start = time.monotonic()

    def edge(self, line):
        """Takes a line of ninja's."""
        found = _EDGE.match(line)
        if found:
            self.done, self.total = int(found[1]), int(found[2])

    def step(self):
        self.done += 1

    def text(self):
        far = f" {self.done} of {self.total}" if self.total else ""
        return f"{self.name}{far}{f' ({self.note})' if self.note else ''}"

    def still_seconds(self, before):
        """About how long it will still take; `before`: what it took in all, earlier, or None."""
        elapsed = time.monotonic() - self.start
        if self.total and self.done >= _SURE_SHARE * self.total and self.done:
            return elapsed * (self.total - self.done) / self.done
        return None if before is None else max(before - elapsed, _LATE_SHARE * elapsed if elapsed > before else 0.0)


class Board:
    """The parts that run now, and the thread that prints the line."""

    def __init__(self, say=console.say, every_seconds=console.PROGRESS_EVERY_SECONDS):
        self._say, self._every_seconds = say, every_seconds
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._parts = []
        self._ended = threading.Event()
        self.forecast = lambda still_of: None  # Set by the scheduler; gets a function {name: seconds still}.

    @contextlib.contextmanager
    def part(self, name):
        """While the body runs, the line names this part; console.here.part is this thread's."""
        part = Part(name)
        with self._lock:
            self._parts.append(part)
        console.here.part = part
        try:
            yield part
        finally:
            console.here.part = None
            with self._lock:
                self._parts.remove(part)

    def line(self):
        """The line, or "" while nothing runs."""
        with self._lock:
            parts = list(self._parts)
        if not parts:
            return ""
        still = self.forecast({part.name: part for part in parts})
        words = "" if still is None else f"; about {max(1, round(still / 60))} min still"
        return f"[{_clock(time.monotonic() - self._start)}] {' · '.join(part.text() for part in parts)}{words}"

    @contextlib.contextmanager
    def shown(self):
        """Prints the line now and then until the body ends."""
        def run():
            while not self._ended.wait(self._every_seconds):
                line = self.line()
                if line:
                    self._say(line)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()


def part():
    """The part of the calling thread's step; an invisible one where none exists."""
    return getattr(console.here, "part", None) or Part("")


def pool(at_once=0):
    """Threads that work for the calling thread's step: as many as there are cores, unless told."""
    mine = part()
    return concurrent.futures.ThreadPoolExecutor(at_once or console.jobs(),
                                                 initializer=lambda: setattr(console.here, "part", mine))


def forecast(steps, finished, running, known):
    """Seconds until the last of the steps ends, by earlier runs; None if one of them was never seen.

    `running`: {name: Part}.
    """
    guesses = [(took, durations.expected(name, {"steps": {}})) for name, took in finished.items()
               if name not in known["steps"]]
    guesses = [(took, guess) for took, guess in guesses if guess]
    scale = sum(took for took, _ in guesses) / sum(guess for _, guess in guesses) if guesses else 1.0
    own = {}
    for step in steps:
        took = 0.0 if step.name in finished else durations.expected(step.name, known)
        if took is not None and step.name not in known["steps"]:
            took *= scale
        own[step.name] = running[step.name].still_seconds(took) if step.name in running else took
        if own[step.name] is None:
            return None
    before = {step.name: (*step.needs, *step.after) for step in steps}

    @functools.cache
    def end(name):
        return 0.0 if name in finished else own[name] + max(map(end, before[name]), default=0.0)
    return max(map(end, before), default=0.0)
