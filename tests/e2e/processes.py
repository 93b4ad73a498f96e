"""What a bed owns on the machine, and how all of it goes away again.

A bed owns one network namespace, a state folder, a scratch folder in memory and the processes in
the namespace. All of that is written to a record below /run/csi-delta-bed/ *before* it is made, so
the run after a killed one can clean up by identity: a process id counts only together with
the start time of the process, because ids are given out again.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time

import cgroups

RECORDS = pathlib.Path("/run/csi-delta-bed")
NAMESPACES = pathlib.Path("/run/netns")
CLONE_NEWNET = 0x40000000
POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.1  # Of a long wait: who asks all the time takes the cores from what it waits for.
STOP_SECONDS_MAX = 60
LOOP_GET_STATUS64, LOOP_STATUS_BYTES = 0x4C05, 232  # linux/loop.h
FITHAW = 0xC0045878  # linux/fs.h

_libc = ctypes.CDLL(None, use_errno=True)


class BedError(Exception):
    """The bed could not do what it was told; the message says what and where to look."""


class LeftBehind(BedError):
    """Something that had to go is there. A test that fails so is never run again: it would find a clean bed, and pass."""


def start_ticks(pid):
    """The start time of a process in clock ticks since boot, or None when there is no such process.

    A zombie counts as gone: it holds nothing any more.
    """
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # The name before it may hold blanks.
    return None if fields[0] in "ZX" else int(fields[19])


@dataclasses.dataclass(frozen=True)
class ProcessId:
    """One process, told apart from a later one with the same pid."""

    pid: int
    start_ticks: int

    @staticmethod
    def of(pid):
        ticks = start_ticks(pid)
        return None if ticks is None else ProcessId(pid, ticks)

    def alive(self):
        return start_ticks(self.pid) == self.start_ticks

    def signal(self, number):
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def wait_until(condition, timeout_seconds, what, failure=BedError):
    """Returns the first truthy value of `condition`; a `failure` that names `what` after the deadline."""
    start = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - start
        if waited > timeout_seconds:
            text = what() if callable(what) else what
            raise failure(f"not within {timeout_seconds:g} s: {text}")
        time.sleep(min(POLL_SECONDS + waited / 20, POLL_SECONDS_MAX))


def end_all(ids, grace_seconds=0.0, folders=()):
    """Ends processes, politely for `grace_seconds`, then with SIGKILL; waits for their end.

    File systems that a killed process left frozen below `folders` are thawed: who writes there cannot be ended.
    """
    def ended():
        for folder in folders:
            thaw(folder)
        return not any(p.alive() for p in ids)
    if grace_seconds:
        for process in ids:
            process.signal(signal.SIGTERM)
        with contextlib.suppress(BedError):
            wait_until(ended, grace_seconds, "")
    for process in ids:
        process.signal(signal.SIGKILL)
    wait_until(ended, STOP_SECONDS_MAX, lambda: f"end of processes {[p.pid for p in ids if p.alive()]}")


# --------------------------------------------------------------------------------------------------
# Network namespaces

def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


@contextlib.contextmanager
def inside(netns):
    """Runs the body with this thread in the namespace. A socket made there stays there for good."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(NAMESPACES / netns, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(target)
        finally:
            os.close(target)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


def add_netns(netns):
    subprocess.run(["ip", "netns", "add", netns], check=True)
    subprocess.run(["ip", "-n", netns, "link", "set", "lo", "up"], check=True)


def processes_in(netns):
    """Every process whose main thread is in the namespace, this one excepted."""
    try:
        wanted = os.stat(NAMESPACES / netns)
    except FileNotFoundError:
        return []
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            there = os.stat(f"/proc/{entry.name}/ns/net")
        except OSError:
            continue
        if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
            process = ProcessId.of(int(entry.name))
            if process:
                found.append(process)
    return found


def members_of(name):
    """Every process of a bed: those in its network namespace, and those of its Pods."""
    pods = [p for p in map(ProcessId.of, cgroups.pids(name)) if p]
    return processes_in(name) + pods


# --------------------------------------------------------------------------------------------------
# Mounts and loop devices below a folder

def mounts_below(folder):
    """Mount points at or below a folder, the innermost first."""
    prefix = str(folder)
    points = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        point = line.split()[4].replace("\\040", " ")
        if point == prefix or point.startswith(prefix + "/"):
            points.append(point)
    return list(reversed(points))


def thaw(folder):
    """Ends the freeze of every file system that is mounted below a folder."""
    for point in mounts_below(folder):
        with contextlib.suppress(OSError):  # It is not frozen.
            fd = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(fd, FITHAW, 0)
            finally:
                os.close(fd)


def loops_below(folder):
    """Loop devices whose backing file is below a folder, also when the file is already deleted.

    Before each comes what stands on it: a kubelet's, which holds it, and those of files on a file system on it, whose path
    only the mount namespace knows that mounted it.
    """
    layers, known, numbers = [], set(), set()
    while True:
        layer = []
        for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
            device = "/dev/" + backing.parts[3]
            with contextlib.suppress(OSError):
                if device not in known and (backing.read_text(encoding="utf-8").startswith(f"{folder}/")
                                            or numbers & set(loop_targets(device))):
                    layer.append(device)
        if not layer:
            return [device for layer in reversed(layers) for device in layer]
        layers.append(layer)
        known |= set(layer)
        numbers |= {os.stat(device).st_rdev for device in layer}


def loop_targets(device):
    """Numbers of the devices below a loop device: of its file's file system, and of itself if it stands for a device."""
    status = bytearray(LOOP_STATUS_BYTES)
    try:
        with open(device, "rb") as loop:
            fcntl.ioctl(loop, LOOP_GET_STATUS64, status)
    except OSError:
        return ()
    file_system, _, target = struct.unpack_from("=QQQ", status)
    return tuple(number for number in (file_system, target) if number)


def _detach_loops(folder):
    for device in loops_below(folder):
        subprocess.run(["losetup", "--detach", device], check=False)


def release_folder(folder):
    """Unmounts and detaches all that keeps a folder busy, then deletes it."""
    _detach_loops(folder)  # First: of a file on a file system that was unmounted the path below the folder is not known.
    for point in mounts_below(folder):
        subprocess.run(["umount", "--lazy", point], check=True)
    _detach_loops(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if pathlib.Path(folder).exists():
        shutil.rmtree(folder)  # Once more, for the message.


# --------------------------------------------------------------------------------------------------
# Records

@dataclasses.dataclass
class Record:
    """What one bed owns. The end of `owner`, if there is one, makes the bed an orphan."""

    name: str
    folders: list
    owner: ProcessId | None = None
    processes: dict = dataclasses.field(default_factory=dict)  # Component name to ProcessId.

    @property
    def path(self):
        return RECORDS / f"{self.name}.json"

    def save(self):
        RECORDS.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(dataclasses.asdict(self), indent=1))
        scratch.rename(self.path)

    @staticmethod
    def load(path):
        data = json.loads(pathlib.Path(path).read_text())
        data["owner"] = ProcessId(**data["owner"]) if data["owner"] else None
        data["processes"] = {k: ProcessId(**v) for k, v in data["processes"].items()}
        return Record(**data)

    def orphaned(self):
        return self.owner is not None and not self.owner.alive()

    def wipe(self):
        """Ends and deletes everything the bed owns, then the record itself. May be called again."""
        # Twice: what was in the middle of a fork while we looked is found the second time.
        end_all([p for p in self.processes.values() if p.alive()] + members_of(self.name), folders=self.folders)
        end_all(members_of(self.name), folders=self.folders)
        wait_until(lambda: cgroups.remove(self.name), STOP_SECONDS_MAX, f"end of the cgroups of {self.name}")
        if (NAMESPACES / self.name).exists():
            subprocess.run(["ip", "netns", "del", self.name], check=True)
        for folder in self.folders:
            release_folder(folder)
        self.path.unlink(missing_ok=True)


def records():
    """The records of all beds on this machine."""
    found = []
    for path in sorted(RECORDS.glob("*.json")):
        with contextlib.suppress(FileNotFoundError):  # Another run was quicker.
            found.append(Record.load(path))
    return found


def traces(name, folders=()):
    """Everything on the machine that still belongs to a bed: for the tests of the cleaning up."""
    shared = pathlib.Path("/dev/shm") / name
    places = [*map(pathlib.Path, folders), shared, NAMESPACES / name, RECORDS / f"{name}.json"]
    found = [str(p) for p in places if p.exists()] + [f"cgroup {c}" for c in cgroups.tree(name)]
    for folder in {*map(str, folders), str(shared)}:
        found += [f"mount {m}" for m in mounts_below(folder)]
        found += [f"loop device {d}" for d in loops_below(folder)]
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                command = pathlib.Path(f"/proc/{entry.name}/cmdline").read_bytes()
                if name.encode() in command:
                    found.append(f"process {entry.name} {command.replace(bytes(1), b' ').decode()}")
    return found


def wipe_orphans():
    """Cleans up after runs that were killed; returns the names of the beds that were left."""
    RECORDS.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(RECORDS / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Two runs that start together clean up one by one.
        orphans = [r for r in records() if r.orphaned()]
        for record in orphans:
            record.wipe()
    return [r.name for r in orphans]
