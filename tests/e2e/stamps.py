#!/usr/bin/python3
"""Stamps: one increasing number, written into several volumes in turn, tells whether copies are of one instant.

    stamps.py [--offset N] PATH...

writes 1 into the first file or device, then into the second and so on, then 2, around O_DIRECT, until SIGTERM; then
it prints the last number. A line "writing" says that every path has its first stamp. It knows nothing of drivers.
`spread` says how far copies lie apart: of one instant means 0 or 1, because the writer was within one round.
"""

import argparse
import contextlib
import mmap
import os
import select
import signal
import subprocess
import sys

BLOCK_BYTES = 4096
NUMBER_BYTES = 8
BEGIN_SECONDS_MAX = END_SECONDS_MAX = 60


def write(paths, offset_bytes, ended, report):
    """Stamps until `ended()`; calls `report()` after the first round. Returns the last number of a whole round."""
    with contextlib.ExitStack() as opened:
        block = opened.enter_context(mmap.mmap(-1, BLOCK_BYTES))  # A page is as aligned as O_DIRECT wants it.
        fds = []
        for path in paths:
            fds.append(os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC))
            opened.callback(os.close, fds[-1])
        number = 0
        while not ended():
            number += 1
            block[:] = number.to_bytes(NUMBER_BYTES, "little") * (BLOCK_BYTES // NUMBER_BYTES)
            for fd in fds:
                if os.pwritev(fd, [block], offset_bytes) != BLOCK_BYTES:
                    raise OSError("a stamp was not written whole")
            if number == 1:
                report()
        return number


def read(path, offset_bytes=0):
    """The stamp in a file; ValueError when it is torn."""
    with open(path, "rb") as file:
        file.seek(offset_bytes)
        block = file.read(BLOCK_BYTES)
    numbers = {block[i:i + NUMBER_BYTES] for i in range(0, BLOCK_BYTES, NUMBER_BYTES)}
    if len(numbers) != 1:
        raise ValueError(f"{path}: {len(numbers)} stamps in one block")
    return int.from_bytes(numbers.pop(), "little")


def spread(paths, offset_bytes=0):
    """How many writes lie between the first and the last of copies, in the order in which they are stamped.

    0 or 1: they are of one instant. ValueError when a later one is ahead of an earlier one, which no instant is.
    """
    found = [read(path, offset_bytes) for path in paths]
    if 0 in found:
        raise ValueError(f"not stamped: {found}")
    if found != sorted(found, reverse=True):
        raise ValueError(f"stamps of no instant: {found}")
    return found[0] - found[-1]


class Writer:
    """The writer as a process in a bed's network, so that it ends with the bed. Use `with`."""

    def __init__(self, bed, paths, offset_bytes=0):
        # pylint: disable-next=consider-using-with
        self._process = subprocess.Popen(
            bed.inside([sys.executable, os.path.abspath(__file__), "--offset", offset_bytes, *paths]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if not select.select([self._process.stdout], [], [], BEGIN_SECONDS_MAX)[0]:
            self._process.kill()
            raise OSError(f"no stamp in every one of {paths} within {BEGIN_SECONDS_MAX} s: a file system is frozen?")
        if self._process.stdout.readline() != "writing\n":
            raise OSError(f"the writer of stamps ended with {self._process.wait(END_SECONDS_MAX)}")

    def end(self):
        """Ends it; returns the last number that all have."""
        self._process.send_signal(signal.SIGTERM)
        told = self._process.communicate(timeout=END_SECONDS_MAX)[0]
        if self._process.returncode != 0:
            raise OSError(f"the writer of stamps ended with {self._process.returncode}")
        return int(told)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.returncode is None:
            self.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offset", type=int, default=0, help="where in each, in bytes; a multiple of 4096")
    parser.add_argument("path", nargs="+")
    given = parser.parse_args()
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    print(write(given.path, given.offset, lambda: ended, lambda: print("writing", flush=True)))


if __name__ == "__main__":
    main()
