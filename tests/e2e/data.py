"""Known bytes: what tests write to volumes and look for after a restore."""

import hashlib
import os
import random
import subprocess

CHUNK_BYTES = 4 << 20


class LostData(AssertionError):
    """A volume does not hold the bytes that it has to. A test that fails so is never run again."""


def same(found, written, where="what came back"):
    """Fails unless what was found is what was written: bytes, or their SHA-256."""
    if found != written:
        raise LostData(f"{where} is {found!r:.1000}, not {written!r:.1000}, which was written")


def expect(path, written, length_bytes=None):
    """Fails unless the first bytes of a file, by default all, have this SHA-256."""
    same(checksum(path, length_bytes), written, path)


def fill(path, seed, length_bytes, offset_bytes=0):
    """Writes the bytes that `seed` stands for into a file, durably; returns their SHA-256."""
    source = random.Random(seed)
    digest = hashlib.sha256()
    with open(path, "r+b") as target:
        target.seek(offset_bytes)
        for start in range(0, length_bytes, CHUNK_BYTES):
            chunk = source.randbytes(min(CHUNK_BYTES, length_bytes - start))
            digest.update(chunk)
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())
    return digest.hexdigest()


def checksum(path, length_bytes=None, offset_bytes=0):
    """The SHA-256 of a part of a file or device; of all of it by default."""
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        source.seek(offset_bytes)
        left = length_bytes
        while left is None or left > 0:
            chunk = source.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
            if not chunk:
                break
            digest.update(chunk)
            left = None if left is None else left - len(chunk)
    return digest.hexdigest()


def scatter(path, seed, writes, length_bytes):
    """Writes single bytes, none of them zero, all over a file."""
    chance = random.Random(seed)
    with open(path, "r+b") as target:
        for _ in range(writes):
            target.seek(chance.randrange(length_bytes))
            target.write(bytes([chance.randrange(1, 256)]))


def differing_blocks(path, other, length_bytes, block_bytes):
    """The numbers of the blocks in which two files have different bytes, as `cmp -l` says."""
    done = subprocess.run(["cmp", "-l", "-n", str(length_bytes), path, other],
                          capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return sorted({(int(line.split()[0]) - 1) // block_bytes for line in done.stdout.splitlines()})
