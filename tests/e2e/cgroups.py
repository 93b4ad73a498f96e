"""The cgroups of a bed with a node: one of the bed's name in every hierarchy, and the kubelet's below it."""

import contextlib
import errno
import pathlib


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
    """All folders of the bed's cgroups, the innermost first."""
    found = []
    for root in _roots():
        own = root / name
        if own.is_dir():
            found += sorted((p for p in own.rglob("*") if p.is_dir()), reverse=True) + [own]
    return found


def pids(name):
    """The processes in the bed's cgroups: its Pods, which are in network namespaces of their own."""
    found = set()
    for folder in tree(name):
        with contextlib.suppress(OSError):
            found.update(map(int, (folder / "cgroup.procs").read_text().split()))
    return found


def remove(name):
    """Removes the bed's cgroups; False while the kernel says that something is in one of them."""
    try:
        for folder in tree(name):
            folder.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
    return not tree(name)
