"""What a run needs of the machine, said before it begins."""

import os
import pathlib
import subprocess

import console
import psutil
from console import ROOT, Failure

GIB = 1 << 30


def _there(path):
    """The path itself, or the closest folder above it that exists."""
    return next(one for one in (path, *path.parents) if one.exists())


def _used_bytes(path):
    """What lies below a folder already."""
    done = subprocess.run(["du", "-s", "-B1", path], check=False, capture_output=True, text=True)
    return int(done.stdout.split()[0]) if done.stdout else 0


def folders(build_gib, cache_gib, go_gib):
    """What grows, and how large it gets: {path: GiB}."""
    home = pathlib.Path.home()
    modules = os.environ.get("GOMODCACHE") or pathlib.Path(os.environ.get("GOPATH") or home / "go") / "pkg" / "mod"
    return {ROOT / "build": build_gib, console.cache_dir(): cache_gib,
            pathlib.Path(os.environ.get("GOCACHE") or home / ".cache" / "go-build"): go_gib * 2 / 3,
            pathlib.Path(modules): go_gib / 3}


def require(build_gib, cache_gib, go_gib, memory_gib, free_bytes=lambda path: psutil.disk_usage(_there(path)).free,
            device=lambda path: os.stat(_there(path)).st_dev, memory=lambda: psutil.virtual_memory().available):
    """A Failure that says what is needed and what is there, unless there is enough.

    What earlier runs left counts: it is used again.
    """
    by_device = {}
    for path, gib in folders(build_gib, cache_gib, go_gib).items():
        by_device.setdefault(device(path), {})[path] = gib
    wrong = []
    for paths in by_device.values():
        free, needed = free_bytes(next(iter(paths))) / GIB, sum(paths.values())
        if free < needed:  # Only now is it worth a look at many files.
            needed = sum(max(0.5, gib - _used_bytes(path) / GIB) for path, gib in paths.items())
        if free < needed:
            wrong.append(f"{needed:.1f} GiB more of disk for {', '.join(map(str, paths))}, there are {free:.1f}")
    available = memory() / GIB
    if available < memory_gib:
        wrong.append(f"{memory_gib} GiB of memory, there are {available:.1f}")
    if wrong:
        raise Failure(f"this needs {'; and '.join(wrong)}")
