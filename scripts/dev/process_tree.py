"""The processes that a process started, with all that those started, and their end.

A process counts only together with its start time, because process ids are given out again.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_SECONDS = 0.05
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans():
    """Descendants whose parent has ended become children of this process, wherever their session is."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(sig):
    """The calling process gets the signal when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, sig, 0, 0, 0)


def _stat(pid):
    """(state, parent, start time) of a process, or None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # The name before it may hold blanks.
    return fields[0], int(fields[1]), int(fields[19])


def descendants(ancestor):
    """{pid: start time} of everything below a process; zombies hold nothing any more and are left out."""
    children, found = {}, {}
    for entry in os.listdir("/proc"):
        stat = _stat(entry) if entry.isdigit() else None
        if stat:
            children.setdefault(stat[1], []).append((int(entry), stat))
    pending = [ancestor]
    while pending:
        for pid, (state, _, start) in children.get(pending.pop(), ()):
            pending.append(pid)
            if state not in "ZX":
                found[pid] = start
    return found


def of_group(group):
    """{pid: start time} of a process group, whose leader may have ended."""
    found = {}
    for entry in os.listdir("/proc"):
        stat = _stat(entry) if entry.isdigit() else None
        with contextlib.suppress(ProcessLookupError):
            if stat and stat[0] not in "ZX" and os.getpgid(int(entry)) == group:
                found[int(entry)] = stat[2]
    return found


def alive(processes):
    """Those of {pid: start time} that still run."""
    still = {}
    for pid, start in processes.items():
        stat = _stat(pid)
        if stat and stat[0] not in "ZX" and stat[2] == start:
            still[pid] = start
    return still


def names(processes):
    """How people know them: the beginnings of their command lines."""
    found = []
    for pid in processes:
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            found.append(f"{pid} {words.strip()[:60]}")
    return found


def send(pid, sig):
    """Signals a process, or with a negative number a process group, also one that belongs to root."""
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass
    except PermissionError:
        subprocess.run(["sudo", "-n", "kill", f"-{int(sig)}", "--", str(pid)], check=False,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end(look, grace_seconds, reap=False):
    """Ends what look() finds, politely first, until it finds nothing. With `reap` this process has no other children."""
    deadline = time.monotonic() + grace_seconds
    asked = set()
    while found := look():
        hard = time.monotonic() >= deadline
        for pid, start in found.items():
            if hard or (pid, start) not in asked:
                asked.add((pid, start))
                send(pid, signal.SIGKILL if hard else signal.SIGTERM)
        if time.monotonic() >= deadline + grace_seconds:
            return  # The kernel does not end them.
        time.sleep(_POLL_SECONDS)
        if reap:
            _reap()
