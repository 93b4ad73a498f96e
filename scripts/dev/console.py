"""How commands are run and what a person sees of them: stages with seconds, one clear line when something fails."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import process_tree
import psutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRESS_EVERY_SECONDS = 10
NINJA_EDGE = re.compile(r"^\[\d+/\d+\]")


class Failure(Exception):
    """A failure that a user can act on; its text is the one line that is shown."""


class OutOfTime(Failure):
    """A command that did not end within its limit."""


def say(text):
    print(text, flush=True)


@contextlib.contextmanager
def stage(name):
    """Prints when a stage begins and how long it took, whether it fails or not."""
    say(f"== {name}")
    start, outcome = time.monotonic(), "failed"
    try:
        yield
        outcome = "done"
    finally:
        say(f"== {name}: {outcome}, {time.monotonic() - start:.1f} s")


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
    if not env.get("PATH", "").startswith(f"{GO_BIN}:"):
        env["PATH"] = f"{GO_BIN}:{env.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
    env.update({key: str(value) for key, value in (extra or {}).items()})
    return env


def as_root(command):
    """The command as root: network namespaces, mounts and loop devices need it."""
    if os.geteuid() == 0:
        return list(command)
    return ["sudo", "-n", "--preserve-env", f"PATH={environment()['PATH']}", *command]


def shown(path):
    """How a path is printed: short, where it lies below the checkout."""
    return str(path).removeprefix(f"{ROOT}/")


def shorten(command):
    text = shown(" ".join(map(str, command)).replace(f"{ROOT}/", ""))
    return text if len(text) <= 100 else text[:97] + "..."


def execute(command, *, limit_seconds=None, env=None, cwd=ROOT, keep=False, quiet=False, log=None, watch=None):
    """Runs one command and shows its output, unless `quiet`; of a build's edges one every few seconds.

    Returns (exit code, lines or None). `log`: a file for all of the output. `watch`: a function that gets each line. What
    does not end within its limit is killed; what it started is ended when ./dev ends.
    """
    command = [str(part) for part in command]
    kept, last_shown = [], time.monotonic()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(log, "w", encoding="utf-8")) if log else None
        process = stack.enter_context(subprocess.Popen(
            command, cwd=cwd, env=environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", bufsize=1, process_group=0))  # A terminal ends ./dev alone.
        late = threading.Event()

        def kill():
            late.set()
            for one in (*process_tree.descendants(psutil.Process(process.pid)), process):
                one.kill()
        timer = threading.Timer(limit_seconds, kill) if limit_seconds else None
        try:
            if timer:
                timer.start()
            for line in process.stdout:
                if file:
                    file.write(line)
                    file.flush()
                line = line.rstrip("\n")
                if keep:
                    kept.append(line)
                if watch:
                    watch(line)
                if not quiet and not (NINJA_EDGE.match(line) and time.monotonic() - last_shown < PROGRESS_EVERY_SECONDS):
                    last_shown = time.monotonic()
                    say(line)
            process.wait()
        except BaseException:
            process.terminate()
            raise
        finally:
            if timer:
                timer.cancel()
    if late.is_set():
        raise OutOfTime(f"`{shorten(command)}` did not end within {limit_seconds:.0f} s")
    return process.returncode, kept if keep else None


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
