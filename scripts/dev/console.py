"""What a person sees: stages with seconds, throttled build progress, one clear line when it fails."""

import collections
import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import threading
import time
import traceback

import process_tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRESS_EVERY_SECONDS = 10
_NINJA_EDGE = re.compile(r"^\[\d+/\d+\]")


class Failure(Exception):
    """A failure that a user can act on; its text is the one line that is shown."""


class OutOfTime(Failure):
    """A command that did not end within its limit, or left programs behind that hold its output."""


class Stopped(Failure):
    """The run ends: it was interrupted, or what this was made for will not run."""


INTERRUPTED = threading.Event()  # Every command ends.
STOPPING = threading.Event()  # Commands of threads that said so end: `here.is_abandoned`.
here = threading.local()


def _is_stopped():
    return INTERRUPTED.is_set() or (STOPPING.is_set() and getattr(here, "is_abandoned", False))


class Stages:
    """The stages of this run and how long each took, for the last lines."""

    def __init__(self):
        self.seconds = []  # (name, seconds), in order.

    @contextlib.contextmanager
    def stage(self, name):
        """Prints when a stage begins and how long it took, whether it fails or not."""
        say(f"== {name}")
        start = time.monotonic()
        outcome = "failed"
        try:
            yield
            outcome = "done"
        finally:
            took = time.monotonic() - start
            self.seconds.append((name, took))
            say(f"== {name}: {outcome}, {took:.1f} s")

    def summary(self):
        """The stages in one paragraph."""
        return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.seconds)


STAGES = Stages()
stage = STAGES.stage
PROCESSOR_SECONDS = collections.Counter()  # By step: of the commands that ended in it, with all that they waited for.
_COUNTING = threading.Lock()


def say(text):
    print(text, flush=True)


def say_trace():
    """Prints the stack of the exception at hand: an unexpected fault of the program."""
    say(traceback.format_exc())


def cache_dir():
    """Where build products live that outlast a checkout."""
    return pathlib.Path(os.environ.get("CSI_DELTA_CACHE") or os.path.expanduser("~/.cache/csi-delta"))


GO_BIN = cache_dir() / "go" / "bin"  # Holds a Go toolchain only if setup had to bring one.


def jobs():
    """How many things may be compiled at once."""
    return int(os.environ.get("CSI_DELTA_JOBS") or len(os.sched_getaffinity(0)))


def environment(extra=None):
    """The environment of every command: caches outside the checkout, Go where setup put it."""
    env = dict(os.environ)
    cache = cache_dir()
    env.setdefault("CCACHE_DIR", str(cache / "ccache"))
    env.setdefault("CCACHE_MAXSIZE", "5G")
    env["CCACHE_BASEDIR"] = str(ROOT)
    env["CCACHE_NOHASHDIR"] = "1"
    env["CCACHE_SLOPPINESS"] = "pch_defines,time_macros"  # What precompiled headers ask for: cmake/Precompiled.cmake.
    env["CCACHE_PCH_EXTSUM"] = "1"
    env["CSI_DELTA_CACHE"] = str(cache)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["PATH"] = f"{GO_BIN}:{env.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
    env.update({key: str(value) for key, value in (extra or {}).items()})
    return env


def as_root(command):
    """The command as root: network namespaces, mounts and loop devices need it."""
    if os.geteuid() == 0:
        return list(command)
    return ["sudo", "-n", "--preserve-env", f"PATH={environment()['PATH']}", *command]


def _stop(process, first=signal.SIGTERM, grace_seconds=20):
    """Ends a command with everything below it, also what has a session of its own."""
    tree = process_tree.descendants(process.pid) | process_tree.of_group(process.pid)
    for sig in (first, signal.SIGTERM, signal.SIGKILL):
        process_tree.send(-process.pid, sig)
        try:
            process.wait(timeout=grace_seconds)
            break
        except subprocess.TimeoutExpired:
            tree |= process_tree.descendants(process.pid)
    process_tree.end(lambda: process_tree.alive(tree), grace_seconds)


def _give_priority(process, nice):
    """A session of its own is scheduled as a group of its own, which does not follow nice."""
    with contextlib.suppress(OSError):  # A kernel without such groups, or a command that has ended.
        pathlib.Path(f"/proc/{process.pid}/autogroup").write_text(str(nice))


class _Lines:
    """Takes a command's output apart: to the screen, to a file, to a list, to a function.

    Of a build's edges the screen gets one every few seconds.
    """

    def __init__(self, keep, quiet, log, watch):
        self._quiet, self._log, self._watch = quiet, log, watch
        self._shown = time.monotonic()
        self._partial = b""
        self.kept = [] if keep else None

    def feed(self, data):
        if self._log:
            self._log.write(data)
            self._log.flush()
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._line(line.decode("utf-8", "replace"))

    def close(self):
        if self._partial:
            self._line(self._partial.decode("utf-8", "replace"))

    def _line(self, line):
        if self.kept is not None:
            self.kept.append(line)
        if self._watch:
            self._watch(line)
        if self._quiet:
            return
        now = time.monotonic()
        if _NINJA_EDGE.match(line) and now - self._shown < PROGRESS_EVERY_SECONDS:
            return
        self._shown = now
        say(line)


_DRAIN_SECONDS_MAX = 5
_HELD_SECONDS_MAX = 10  # Between a command's end and that of its output.


def _has_ended(process):
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _drain(stream, lines):
    while data := os.read(stream.fileno(), 1 << 16):
        lines.feed(data)


def execute(command, *, limit_seconds=None, env=None, cwd=ROOT, keep=False, quiet=False, log=None, watch=None,
            ends_by=signal.SIGTERM, grace_seconds=20):
    """Runs one command and shows its output, unless `quiet`. Returns (exit code, lines or None).

    `log`: a file for all of the output. `watch`: a function that gets each line. `ends_by`: the signal by which the
    command tidies up when it has to end before its time, within `grace_seconds`.
    """
    command = [str(part) for part in command]
    deadline = time.monotonic() + limit_seconds if limit_seconds else None
    if _is_stopped():
        raise Stopped(f"`{shorten(command)}` was not begun")
    with contextlib.ExitStack() as stack:
        lines = _Lines(keep, quiet, stack.enter_context(open(log, "wb")) if log else None, watch)
        process = stack.enter_context(subprocess.Popen(
            command, cwd=cwd, env=environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True))
        _give_priority(process, os.getpriority(os.PRIO_PROCESS, 0))  # This thread's.
        ended = None
        try:
            while True:
                wait = 0.5 if deadline is None else min(0.5, max(0.0, deadline - time.monotonic()))
                if select.select([process.stdout], [], [], wait)[0]:
                    data = os.read(process.stdout.fileno(), 1 << 16)
                    if not data:
                        break
                    lines.feed(data)
                elif _has_ended(process):
                    ended = ended or time.monotonic()
                    if time.monotonic() - ended > _HELD_SECONDS_MAX:
                        raise OutOfTime(f"`{shorten(command)}` ended, but not what it began and what holds its output")
                if deadline is not None and time.monotonic() >= deadline:
                    raise OutOfTime(f"`{shorten(command)}` did not end within {limit_seconds:.0f} s")
                if _is_stopped():
                    raise Stopped(f"`{shorten(command)}` was ended")
        except BaseException:
            # What it says while it tidies up counts, too, and must not fill the pipe.
            reader = threading.Thread(target=_drain, args=(process.stdout, lines), daemon=True)
            reader.start()
            _stop(process, ends_by, grace_seconds)
            reader.join(_DRAIN_SECONDS_MAX)
            lines.close()
            raise
        lines.close()
        return _wait(process), lines.kept


def _wait(process):
    """The exit code of a command whose output has ended; counts the processor time that it took."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    with _COUNTING:
        PROCESSOR_SECONDS[getattr(getattr(here, "part", None), "name", "")] += usage.ru_utime + usage.ru_stime
    return process.returncode


def shorten(command):
    text = " ".join(map(str, command)).replace(f"{ROOT}/", "")
    return text if len(text) <= 100 else text[:97] + "..."


def run(command, **kwargs):
    """As execute(), but a non-zero exit is a Failure."""
    code, lines = execute(command, **kwargs)
    if code != 0:
        raise Failure(f"`{shorten(command)}` failed with code {code}")
    return lines


def output(command, *, cwd=ROOT, env=None, quiet=False):
    """The standard output of a short command; a Failure if it fails, and its errors on the screen unless `quiet`."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment(env), check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        if not quiet:
            sys.stderr.write(done.stderr)
        raise Failure(f"`{shorten(command)}` failed with code {done.returncode}")
    return done.stdout
