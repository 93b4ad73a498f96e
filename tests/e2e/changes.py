"""What becomes of objects and files, write by write: for tests that act at a place of a sequence, not at a time."""

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import socket
import threading
import time

import processes

MTIME_TICK_NANOSECONDS = 50_000_000


@dataclasses.dataclass(frozen=True)
class Change:
    """One write: of an object ("MODIFIED", with its phase) or of a file ("put" or "removed")."""

    verb: str
    kind: str  # The plural name; "file".
    name: str
    phase: str = ""


class Changes:
    """What is written while the body of `with` runs, in the order in which it is seen. Thread-safe."""

    def __init__(self, bed, kinds, folder=None):
        self._bed = bed
        self._kinds = kinds  # Each a plural name, a namespace, and what narrows a list.
        self._folder = folder  # Whose files are looked at, if any.
        self._read = {}  # Folder -> its time of change when it was read, its files, its folders.
        self._seen = []
        self._more = threading.Condition()
        self._ended = threading.Event()
        self._connections = []
        self._threads = []

    def __enter__(self):
        for plural, namespace, query in self._kinds:
            connection = self._bed.api.watch(plural, namespace, **query)
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._follow, args=(plural, connection), daemon=True))
        if self._folder:
            self._threads.append(threading.Thread(target=self._look, args=(self._files(),), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # A reader gets an end.
        for thread in self._threads:
            thread.join()

    def seen(self, since=lambda change: True):
        """What was seen, from the first change on of which `since` is true."""
        with self._more:
            return self._after(since)

    def await_count(self, count, since, ended, timeout_seconds):
        """Waits for the count-th change as `seen` counts. False if `ended` says first that there will be none."""
        deadline = time.monotonic() + timeout_seconds
        with self._more:
            while len(self._after(since)) < count:
                if ended(self._seen):
                    return False
                if time.monotonic() > deadline:
                    raise processes.BedError(f"not within {timeout_seconds} s: change {count} of {self._seen}")
                self._more.wait(1)
        return True

    def _after(self, since):
        return next((self._seen[place:] for place, change in enumerate(self._seen) if since(change)), [])

    def _add(self, change):
        with self._more:
            self._seen.append(change)
            self._more.notify_all()

    def _follow(self, plural, connection):
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            for line in connection.getresponse():
                event = json.loads(line)
                obj = event["object"]
                self._add(Change(event["type"], plural, obj["metadata"]["name"], (obj.get("status") or {}).get("phase", "")))

    def _files(self):
        """The files below the folder. Reads only those folders again that changed since they were read."""
        found, pending = set(), [str(self._folder)]
        while pending:
            folder = pending.pop()
            changed = os.stat(folder).st_mtime_ns
            if folder not in self._read or self._read[folder][0] != changed:
                entries = list(os.scandir(folder))
                files = {pathlib.Path(entry.path) for entry in entries if entry.is_file()}
                folders = [entry.path for entry in entries if entry.is_dir()]
                # Of a change in the moment of reading the time tells nothing: it counts in ticks of the kernel.
                settled = time.time_ns() - changed > MTIME_TICK_NANOSECONDS
                self._read[folder] = (changed if settled else None, files, folders)
            _, files, folders = self._read[folder]
            found |= files
            pending += folders
        return found

    def _look(self, known):
        while not self._ended.wait(processes.POLL_SECONDS / 4):
            with contextlib.suppress(OSError):  # Folders come and go while they are read.
                now = self._files()
                for path in sorted(now ^ known):
                    self._add(Change("put" if path in now else "removed", "file", str(path.relative_to(self._folder))))
                known = now
