"""The cgroups of a bed with a node: one of the bed's name in every hierarchy, and the kubelet's below it."""

import contextlib
import errno
import itertools
import os
import pathlib

STEP_BYTES = 256 << 10


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
        limit = next((folder / file for file in ("memory.limit_in_bytes", "memory.max") if (folder / file).exists()), None)
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
