"""The cgroups of a bed with a node: one of the bed's name in every hierarchy, and the kubelet's below it. And what limits
the memory of one program, and tells how much it took."""

import contextlib
import errno
import itertools
import os
import pathlib
import re
import subprocess
import threading

import processes

STEP_BYTES = 256 << 10
MEMORY_LIMITS = ("memory.limit_in_bytes", "memory.max")  # In both versions.
LOOK_SECONDS = 0.005
EMPTY_SECONDS_MAX = 10
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def _roots():
    """Where the hierarchies of cgroups are mounted, of both versions."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] in ("cgroup", "cgroup2"):
            yield pathlib.Path(before.split()[4])


def make(name):
    """Creates the bed's cgroup everywhere."""
    for root in _roots():
        (root / name).mkdir()


def tree(name):
    """All folders of the bed's cgroups, the innermost first. Those of Pods may go while they are looked at."""
    return [pathlib.Path(folder) for root in _roots() for folder, _, _ in os.walk(root / name, topdown=False)]


def pids(name):
    """The processes in the bed's cgroups: its Pods, which are in network namespaces of their own."""
    found = set()
    for folder in tree(name):
        with contextlib.suppress(OSError):
            found.update(map(int, (folder / "cgroup.procs").read_text().split()))
    return found


def _tighten(limit):
    """Sets the limit as low as the kernel allows now; returns it in steps."""
    for steps in itertools.count(1):
        try:
            limit.write_text(str(steps * STEP_BYTES))
            return steps
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise


def starve(name, pid):
    """Takes from the container of a process all memory that the kernel can do without now; nothing if it is gone."""
    for folder in tree(name):
        limit = next((folder / file for file in MEMORY_LIMITS if (folder / file).exists()), None)
        with contextlib.suppress(OSError):  # The kernel may have ended it meanwhile.
            if limit and str(pid) in (folder / "cgroup.procs").read_text().split():
                _tighten(limit)


def remove(name):
    """Removes the bed's cgroups; False while the kernel says that something is in one of them."""
    try:
        for folder in tree(name):
            folder.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
    return not tree(name)


@contextlib.contextmanager
def memory_limit(name, limit_bytes):
    """A cgroup whose programs have so much memory at most. Yields what starts a command line that runs in it."""
    root = next(root for root in _roots() if root.name == "memory" or "memory" in _controllers(root))
    folder = root / name
    folder.mkdir(exist_ok=True)
    limit = next(folder / file for file in MEMORY_LIMITS if (folder / file).exists())
    try:
        limit.write_text(str(limit_bytes))
        yield ["/bin/sh", "-c", ENTER, str(folder)]
    finally:
        processes.wait_until(lambda: not (folder / "cgroup.procs").read_text(), EMPTY_SECONDS_MAX, "an empty cgroup")
        folder.rmdir()


def _controllers(root):
    listed = root / "cgroup.controllers"
    return listed.read_text().split() if listed.exists() else []


@contextlib.contextmanager
def running(command, name, limit_bytes, output=subprocess.PIPE):
    """Starts a program with so much memory at most. Yields it, and what tells once it has ended how much it took."""
    with memory_limit(name, limit_bytes) as enter, subprocess.Popen(
            [*enter, *map(str, command)], stdout=output, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run, PeakMemory(run.pid)
        finally:
            run.kill()


def memory_bytes(pid, field):
    """What /proc says of a process: VmRSS is what it has in memory now, VmHWM the most of it. 0 once it has ended."""
    try:
        found = re.search(rf"^{field}:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0  # A zombie has no memory.


def forget_peak(pid):
    """From now on VmHWM is the most since now."""
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


class PeakMemory:
    """The most memory that a process has had (VmHWM), looked at until it ends."""

    def __init__(self, pid):
        self._pid = pid
        self._peak = 0
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def bytes(self):
        """Once the process has ended."""
        self._thread.join()
        return self._peak

    def _look(self):
        ended = threading.Event()
        while not ended.wait(LOOK_SECONDS):
            found = memory_bytes(self._pid, "VmHWM")
            if not found:
                return
            self._peak = max(self._peak, found)
