"""The end of all that a process started, whatever made sessions of its own meanwhile."""

import contextlib
import ctypes
import signal
import subprocess
import time

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.05
_KILL_SECONDS_MAX = 10  # What the kernel does not end by then stays.


def adopt_orphans():
    """Descendants whose parent has ended become children of this process: none of them is lost."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(process=None):
    """The living processes below one, by default this; psutil knows them by id and start time."""
    found = []
    for one in (process or psutil.Process()).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def names():
    """How people know what runs below this process: the beginnings of their command lines."""
    found = []
    for one in descendants():
        with contextlib.suppress(psutil.Error):
            found.append(f"{one.pid} {' '.join(one.cmdline())[:60]}")
    return found


def send(process, sig):
    """Signals a process, also one that belongs to root."""
    try:
        process.send_signal(sig)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        subprocess.run(["sudo", "-n", "kill", f"-{int(sig)}", str(process.pid)], check=False,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end_all(grace_seconds):
    """Ends all below this process, which adopts orphans: each child is asked, and ends its own in order; later by force."""
    me, asked = psutil.Process(), set()
    deadline = time.monotonic() + grace_seconds
    while left := descendants():
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in me.children():
                if child not in asked:
                    asked.add(child)
                    send(child, signal.SIGTERM)
        if time.monotonic() >= deadline:
            for one in left:
                send(one, signal.SIGKILL)
        if time.monotonic() >= deadline + _KILL_SECONDS_MAX:
            break
        psutil.wait_procs(me.children(), timeout=_POLL_SECONDS)  # Reaps what has ended.
        time.sleep(_POLL_SECONDS)
