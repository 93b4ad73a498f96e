#!/usr/bin/python3
"""Check, copy and prune in the workers of the data mover, where the bucket is far away and slow.

    engine_verbs.py [--quick] [--pack-mib N]... [--limit-mib N]... [--keep FOLDER]

A volume of noise is backed up twice, every second chunk changed in between, and the first snapshot forgotten. Then, for
packs of each length and each memory limit, with 50 ms of latency and 4 MB/s for each connection: check --read-data, copy
into another folder of the bucket, prune. Each runs in a cgroup of its own and has to end well: exits with 1 when one is
killed or fails.
"""

import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import engine_lab  # noqa: E402
import engine_memory  # noqa: E402
import engine_s3  # noqa: E402

MIB = 1 << 20
CHUNK = 512 << 10
PACK_MIB, LIMIT_MIB = (8, 32, 128), (256, 128)
VOLUME_MIB, QUICK_VOLUME_MIB = 700, 128
LATENCY_MS, BYTES_PER_SECOND = 50, 4_000_000
ENVIRONMENT = {"RESTIC_PASSWORD": "generated", **dict(engine_s3.ENVIRONMENT)}


class Row:
    """One length of packs, in a bucket of its own."""

    def __init__(self, lab, pack_mib, volume_mib):
        self.lab, self.pack_mib, self.volume_mib = lab, pack_mib, volume_mib
        self.results = []

    def run(self, repository, *words, limit_bytes=0):
        command = [engine_memory.PROGRAMS / "csi-delta", "-r", repository, "--json", *words]
        return self.lab.measure(command, ENVIRONMENT, limit_bytes=limit_bytes, cold=False)

    def make(self, near):
        volume = self.lab.folder / "volume"
        with open(volume, "wb") as image, open("/dev/urandom", "rb") as noise:
            for _ in range(self.volume_mib):
                image.write(noise.read(MIB))
        self.run(near, "init")
        backup = ["backup", volume, "--pack-size", self.pack_mib, "--memory-budget", "2GiB"]
        self.run(near, *backup)
        first = json.loads(self.run(near, "snapshots").output.strip().splitlines()[-1])
        with open(volume, "r+b") as image, open("/dev/urandom", "rb") as noise:
            for chunk in range(0, self.volume_mib * MIB // CHUNK, 2):
                image.seek(chunk * CHUNK)
                image.write(noise.read(CHUNK))
        self.run(near, *backup)
        self.run(near, "forget", first[0]["id"])
        volume.unlink()

    def measure(self, near, far, folder, limit_mib):
        kept = self.lab.folder / "kept"
        shutil.copytree(folder / "from", kept)
        for name, words in (("check", ["check", "--read-data"]),
                            ("copy", ["copy", "--from-repo", f"{far}/from"]),
                            ("prune", ["prune"])):
            place = f"{far}/from"
            if name == "copy":
                place = f"{far}/to-{limit_mib}"
                self.run(f"{near}/to-{limit_mib}", "init")
            try:
                sample = self.run(place, *words, limit_bytes=limit_mib * MIB)
                result = f"{sample.seconds:.0f} s, {sample.peak_bytes / MIB:.0f} MiB"
                raw = sample.raw()
            except engine_lab.BenchError as error:
                result, raw = f"FAILED: {error}", None
            self.results.append({"packs": self.pack_mib, "limit": limit_mib, "verb": name, "sample": raw})
            print(f"  packs of {self.pack_mib} MiB, {limit_mib} MiB: {name}: {result}", file=sys.stderr, flush=True)
        shutil.rmtree(folder / f"to-{limit_mib}")
        shutil.rmtree(folder / "from")
        shutil.move(kept, folder / "from")


def run(lab, quick, packs=PACK_MIB, limits=LIMIT_MIB):
    """The lines of a table, whether a promise was missed, and the raw results."""
    results = []
    with engine_s3.server(lab) as (near, folder), \
            engine_s3.far_away(lab, near, LATENCY_MS, BYTES_PER_SECOND) as far:
        for pack_mib in packs:
            row = Row(lab, pack_mib, QUICK_VOLUME_MIB if quick else VOLUME_MIB)
            row.make(f"{near}/from")
            for limit_mib in limits:
                row.measure(near, far, folder, limit_mib)
            shutil.rmtree(folder / "from")
            results += row.results
    lines = ["| Packs | Limit | Verb | Seconds | VmHWM |", "|---|---|---|---|---|"]
    for result in results:
        sample = result["sample"]
        figures = f"{sample['seconds']:.0f} | {sample['peak_bytes'] / MIB:.0f} MiB" if sample else "failed |"
        lines.append(f"| {result['packs']} MiB | {result['limit']} MiB | {result['verb']} | {figures} |")
    return lines, any(result["sample"] is None for result in results), results


def main():
    options = engine_lab.options(__doc__, {"--quick": False, "--pack-mib": [], "--limit-mib": [], "--keep": None})
    engine_memory.build()
    with engine_lab.Lab(options.keep) as lab:
        lines, missed, _ = run(lab, options.quick, options.pack_mib or PACK_MIB, options.limit_mib or LIMIT_MIB)
        print("\n".join(lines + lab.notes))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
