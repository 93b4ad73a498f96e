"""What the disk takes for plain direct reads and writes, with nothing else to do: about the wall of every program."""

import mmap
import os
import statistics
import threading
import time

READ_BYTES = 512 << 10
READERS = 8
WRITE_BYTES = 4 << 20
WRITERS = 4
ROUNDS = 3


def _copy(transfer, descriptor, step_bytes, offsets):
    with mmap.mmap(-1, step_bytes) as memory:
        memory.write(os.urandom(4096) * (step_bytes // 4096))
        for offset in offsets:
            transfer(descriptor, [memory], offset)


def _once(lab, source, read_bytes, write_bytes):
    target = lab.folder / "wall"
    lab.drop_caches()
    reading = os.open(source, os.O_RDONLY | os.O_DIRECT)
    writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)
    try:
        threads = []
        for transfer, descriptor, step, count, total in (
                (os.preadv, reading, READ_BYTES, READERS, read_bytes),
                (os.pwritev, writing, WRITE_BYTES, WRITERS, write_bytes)):
            threads += [threading.Thread(target=_copy, args=(transfer, descriptor, step,
                                                             range(first * step, total, count * step)))
                        for first in range(count)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.fsync(writing)
        return time.monotonic() - start
    finally:
        os.close(writing)
        os.close(reading)
        target.unlink()


def wall_seconds(lab, source, read_bytes, write_bytes):
    """Median seconds for so many bytes both ways at the same time, past the page cache, until durable.

    Reads `source` from its beginning, which must be that large.
    """
    return statistics.median(_once(lab, source, read_bytes, write_bytes) for _ in range(ROUNDS))
