"""What a person does with `csi-delta snapshot`, and an application with a lock whose volume is looked at."""

import contextlib
import json
import os
import threading
import time

import components

BLOCK_BYTES = 4096
STEP_SECONDS = 0.002  # Between the two writes of a transaction.


def run(bed, namespace, *words, check=True, **kwargs):
    """`csi-delta snapshot WORDS` with the administrator's kubeconfig."""
    return bed.run([components.program_path(), "snapshot", *words, "-n", namespace], check=check, **kwargs)


def ask(bed, namespace, *words):
    """The same; what it answers with -o json."""
    return json.loads(run(bed, namespace, *words, "-o", "json").stdout)


class Ledger:
    """An application that keeps one number in two blocks of a volume, and raises it in transactions.

    Between the two writes the blocks differ: only while the lock is held is what the volume holds one transaction's.
    """

    def __init__(self, path):
        self._path = path
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.number = 0

    def __enter__(self):
        self._write(0)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _write(self, number):
        block = number.to_bytes(8, "little") * (BLOCK_BYTES // 8)
        with open(self._path, "r+b", buffering=0) as volume:
            for at in (0, 1):
                os.pwrite(volume.fileno(), block, at * BLOCK_BYTES)
                self._ended.wait(STEP_SECONDS)

    def _work(self):
        while not self._ended.is_set():
            with self._lock:
                self._write(self.number + 1)
                self.number += 1
            self._ended.wait(STEP_SECONDS)

    @contextlib.contextmanager
    def locked(self):
        """No transaction is begun meanwhile. Yields what tells, afterwards, how long that was, in milliseconds."""
        with self._lock:
            start, took = time.monotonic(), []
            yield lambda: took[0]
            took.append((time.monotonic() - start) * 1000)


def numbers(path):
    """What the two blocks of a ledger's volume hold."""
    with open(path, "rb") as volume:
        return [int.from_bytes(volume.read(BLOCK_BYTES)[:8], "little") for _ in range(2)]
