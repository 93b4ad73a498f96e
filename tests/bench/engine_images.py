"""Images to back up, the same ones every time, and changes to them with the list of what changed."""

import json
import os
import random
import subprocess

MIB = 1 << 20
CHUNK_BYTES = 512 * 1024
PAGE_BYTES = 4096
WORDS = 3000
POOL_BYTES = 64 * MIB
SLICE_BYTES_MAX = 4096


def make_random(path, size_bytes):
    """No byte of it can be compressed: a key stream."""
    with open(path, "wb") as file:
        zeros = subprocess.Popen(["head", "-c", str(size_bytes), "/dev/zero"], stdout=subprocess.PIPE)
        subprocess.run(["openssl", "enc", "-aes-128-ctr", "-K", "00" * 16, "-iv", "01" * 16], stdin=zeros.stdout,
                       stdout=file, check=True)
        zeros.stdout.close()
        zeros.wait()


def _pool(numbers):
    """Lines of a log, of words that are frequent and rare as in a language."""
    letters = "etaoinshrdlcumwfgypbvkjxqz"
    words = ["".join(numbers.choices(letters, range(26, 0, -1), k=numbers.randint(3, 11))) for _ in range(WORDS)]
    weights = [1 / (rank + 3) for rank in range(WORDS)]
    lines, size = [], 0
    while size < POOL_BYTES:
        chosen = numbers.choices(words, weights, k=40)
        line = (f'{{"time":"2026-11-{numbers.randint(1, 30):02}T{numbers.randint(0, 86399):05}","id":'
                f'"{numbers.getrandbits(48):012x}","level":"info","text":"{" ".join(chosen[:numbers.randint(8, 40)])}"}}\n')
        lines.append(line)
        size += len(line)
    return "".join(lines).encode()


def make_words(path, size_bytes):
    """Text that zstd makes about a third of."""
    numbers = random.Random(4)
    pool = _pool(numbers)
    with open(path, "wb") as file:
        left = size_bytes
        while left > 0:
            slices = []
            for _ in range(min(4096, left // SLICE_BYTES_MAX + 1)):
                start = int(numbers.random() * (len(pool) - SLICE_BYTES_MAX))
                slices.append(pool[start:start + 512 + int(numbers.random() * (SLICE_BYTES_MAX - 512))])
            piece = b"".join(slices)[:left]
            file.write(piece)
            left -= len(piece)


def make_sparse(path, size_bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        os.truncate(file.fileno(), size_bytes)


def uniform_chunks(size_bytes, fraction, seed):
    """Extents of whole chunks, drawn uniformly."""
    count = size_bytes // CHUNK_BYTES
    drawn = random.Random(seed).sample(range(count), round(count * fraction))
    return [(chunk * CHUNK_BYTES, CHUNK_BYTES) for chunk in sorted(drawn)]


def uniform_pages(size_bytes, fraction, seed):
    """Extents of 4 KiB, drawn uniformly, until they are a fraction of all bytes."""
    count = size_bytes // PAGE_BYTES
    drawn = random.Random(seed).sample(range(count), round(count * fraction))
    return [(page * PAGE_BYTES, PAGE_BYTES) for page in sorted(drawn)]


def touched_chunks(extents):
    return len({offset // CHUNK_BYTES for offset, _ in extents})


def write_list(path, extents):
    """A list of changes, but for its first line: who uses it knows since when."""
    with open(path, "w", encoding="ascii") as file:
        for offset, length in extents:
            file.write(f'{{"offset":{offset},"length":{length}}}\n')
        file.write(json.dumps({"end": True}) + "\n")


class Changed:
    """An image with other bytes in some extents, as long as the `with` lasts."""

    def __init__(self, path, extents, seed):
        self._path, self._extents, self._numbers = path, extents, random.Random(seed)

    def __enter__(self):
        self._before = []
        with open(self._path, "r+b") as file:
            for offset, length in self._extents:
                self._before.append(os.pread(file.fileno(), length, offset))
                os.pwrite(file.fileno(), self._numbers.randbytes(length), offset)
            os.fsync(file.fileno())
        return self

    def __exit__(self, *_):
        with open(self._path, "r+b") as file:
            for (offset, _), data in zip(self._extents, self._before):
                os.pwrite(file.fileno(), data, offset)
            os.fsync(file.fileno())
