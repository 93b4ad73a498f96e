"""Measures one program at a time: wall clock, processor, memory under a limit, local scratch space.

A Lab owns a scratch folder, and for each measurement a memory cgroup of either version, which it removes. What a
killed lab left behind, the next one removes: a name holds the process id of its owner.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import cgroups  # noqa: E402
import processes  # noqa: E402

MIB = 1 << 20
PREFIX = "csi-delta-bench-"
SAMPLE_SECONDS = 0.02
CGROUP_V1 = pathlib.Path("/sys/fs/cgroup/memory")
CGROUP_V2 = pathlib.Path("/sys/fs/cgroup")
IN_NAMESPACES = "CSI_DELTA_BENCH_NAMESPACES"  # Set in them.

_libc = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """A measured program failed; the message has its last lines."""


@dataclasses.dataclass
class Sample:
    """One run of one program, until its result is durable."""

    seconds: float
    processor_seconds: float
    peak_bytes: int  # VmHWM, of the largest process that was seen.
    scratch_bytes: int  # Left in TMPDIR, the cache and HOME.
    output: str

    def raw(self):
        return {key: value for key, value in dataclasses.asdict(self).items() if key != "output"}


def median(samples, key="seconds"):
    return statistics.median(getattr(sample, key) for sample in samples)


def spread(samples):
    """Median and range of the seconds, as the tables show them."""
    values = [sample.seconds for sample in samples]
    return f"{statistics.median(values):.2f} s ({min(values):.2f}-{max(values):.2f})"


def disk_bytes(folder):
    """What the files below a folder occupy."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total


def make_durable(path):
    """Waits until everything on the file system of `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if _libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), f"syncfs {path}")
    finally:
        os.close(descriptor)


def _owner_is_gone(name):
    found = re.match(rf"{PREFIX}(\d+)", name)
    return bool(found) and processes.ProcessId.of(int(found[1])) is None


class Lab:
    """Where programs are measured. Use it with `with`. One measurement at a time."""

    def __init__(self, scratch=None):
        self.notes = []  # What could not be done as promised, once each.
        self._kept = scratch is not None
        self._given = scratch
        self._running = 0

    def __enter__(self):
        self._clean_up_after_others()
        if self._kept:
            self.folder = pathlib.Path(self._given).absolute()
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            parent = pathlib.Path(os.environ.get("TMPDIR") or "/var/tmp")
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
        return self

    def __exit__(self, *_):
        if self._kept:
            for point in processes.mounts_below(self.folder):
                subprocess.run(["umount", "--lazy", point], check=True)
            for device in processes.loops_below(self.folder):
                subprocess.run(["losetup", "--detach", device], check=False)
        else:
            processes.release_folder(self.folder)

    @staticmethod
    def _clean_up_after_others():
        parent = pathlib.Path(os.environ.get("TMPDIR") or "/var/tmp")
        for folder in parent.glob(f"{PREFIX}*"):
            if _owner_is_gone(folder.name):
                processes.release_folder(folder)
        for base in (CGROUP_V1, CGROUP_V2):
            for folder in base.glob(f"{PREFIX}*"):
                if _owner_is_gone(folder.name):
                    with contextlib.suppress(OSError):
                        folder.rmdir()

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    @staticmethod
    def environment(home, extra=None):
        """What a measured program sees: a home, a cache and a TMPDIR of its own."""
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home / "tmp"),
                "XDG_CACHE_HOME": str(home / "cache"), **(extra or {})}

    def drop_caches(self):
        """Cold caches, and no dirty pages left to be written inside the measured window."""
        os.sync()
        try:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
        except OSError as error:
            self.note(f"caches were not dropped: {error.strerror}")

    @contextlib.contextmanager
    def _limited(self, limit_bytes):
        """Starts a command line in a memory cgroup with a limit; of no words where the machine does not allow one."""
        with contextlib.ExitStack() as stack:
            enter = []
            if limit_bytes:
                try:
                    enter = stack.enter_context(cgroups.memory_limit(f"{PREFIX}{os.getpid()}", limit_bytes))
                except (OSError, RuntimeError) as error:  # The latter is a machine without such cgroups.
                    self.note(f"memory was not limited: {error}")
            yield enter

    def _watch(self, process, peak, done):
        while not done.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], cgroups.memory_bytes(process.pid, "VmHWM"))

    def _run(self, command, env, output, errors, stdin):
        process = subprocess.Popen(command, env=env, stdin=stdin or subprocess.DEVNULL, stdout=output, stderr=errors,
                                   start_new_session=True)
        peak, done = [0], threading.Event()
        watcher = threading.Thread(target=self._watch, args=(process, peak, done))
        watcher.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            done.set()
            watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime, peak[0]

    def measure(self, command, env=None, *, home=None, durable=None, limit_bytes=0, codes=(0,), stdin=None, cold=True):
        """Runs a command from cold caches until what it wrote on the file system of `durable` is on the disk."""
        if cold:
            self.drop_caches()
        home = home or self.folder / "home"
        env = self.environment(home, env)
        words = [str(word) for word in command]
        with tempfile.TemporaryFile(dir=self.folder) as output, tempfile.TemporaryFile(dir=self.folder) as errors, \
                self._limited(limit_bytes) as enter:
            start = time.monotonic()
            code, processor, peak = self._run([*enter, *words], env, output, errors, stdin)
            if durable is not None:
                make_durable(durable)
            seconds = time.monotonic() - start
            output.seek(0)
            errors.seek(0)
            said, complained = output.read().decode(), errors.read().decode()
        if code not in codes:
            raise BenchError(f"`{' '.join(words)}` ended with {code}: {(complained or said)[-2000:]}")
        return Sample(seconds, processor, peak, disk_bytes(home), said)


def options(doc, defaults):
    """Of the command line: integers, by default or not (int), those that come again ([]), flags (False), and texts (None)."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        how = {"action": "store_true"} if default is False else {"action": "append", "type": int} if default == [] else {
            "type": int} if default is int else {"type": int, "default": default} if default else {}
        parser.add_argument(name, **how)
    return parser.parse_args()


def enter_namespaces(*kinds):
    """Runs this program again, in namespaces that end with it; the network's has nothing but its loopback."""
    if IN_NAMESPACES not in os.environ:
        os.environ[IN_NAMESPACES] = "yes"
        os.execvp("unshare", ["unshare", *kinds, sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def machine():
    """What a table was measured on, in a line."""
    processor = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*:\s*(.*)", processor, re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (f"{platform.machine()}, {model[1] if model else 'unknown processor'}, {os.cpu_count()} processors, "
            f"{memory:.0f} GiB, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")
