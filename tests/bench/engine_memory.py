#!/usr/bin/python3
"""What csi-delta needs in memory, time and scratch space where the index has tens of millions of entries.

    engine_memory.py [--quick] [--entries N] [--extents N] [--keep FOLDER]

A repository is generated: index, trees and snapshots as backups leave them, packs as long as they should be but
without content. Then, each under a memory limit of the promised size: a backup with two million changed extents,
check, prune (once dry, once for good, of what a forgotten snapshot leaves), restore of a volume that is really there.

Promise, with 67 million entries: the backup in 256 MiB, the others in 1 GiB; aim: half of it. Exits with 1 when
that is missed.
"""

import json
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import engine_lab  # noqa: E402

MIB = 1 << 20
ENTRIES, EXTENTS = 67_000_000, 2_000_000
QUICK_ENTRIES, QUICK_EXTENTS = 1_000_000, 20_000
BACKUP_LIMIT, OTHER_LIMIT = 256 * MIB, 1024 * MIB
CHUNK = 256 << 10
EXTENT = 4096
CHUNKS_PER_EXTENT = 4  # One in so many chunks is touched.
WRITTEN_ONE_IN = 100  # Of the extents, those that really change; the others are listed needlessly.
REAL_VOLUME = 64 * MIB
PASSWORD = {"RESTIC_PASSWORD": "generated"}
PROGRAMS = engine_lab.ROOT / "build" / "release" / "bin"


def build():
    """The program as shipped, and the generator."""
    for step in (["cmake", "--preset", "release"],
                 ["cmake", "--build", "--preset", "release", "--target", "csi-delta", "generate_repository"]):
        subprocess.run(step, cwd=engine_lab.ROOT, check=True, stdout=subprocess.DEVNULL)


class Row:
    """The steps, one after the other, on one repository."""

    def __init__(self, lab, entries, extents):
        self.lab, self.entries, self.extents = lab, entries, extents
        self.repository = lab.folder / "large-repository"
        self.volume = lab.folder / "large-volume"
        self.small = lab.folder / "small-volume"
        self.results = []

    def csi_delta(self, *words, limit=0):
        """One run; returns the sample and its result document."""
        command = [PROGRAMS / "csi-delta", "-r", self.repository, "--json", *words]
        sample = self.lab.measure(command, PASSWORD, limit_bytes=limit, durable=self.lab.folder)
        lines = sample.output.strip().splitlines()
        return sample, json.loads(lines[-1]) if lines else {}

    def step(self, name, limit, *words):
        """One measured run under a limit."""
        sample, result = self.csi_delta(*words, limit=limit)
        self.results.append({"step": name, "limit_bytes": limit, "result": result, **sample.raw(),
                             "scratch_bytes": max(sample.scratch_bytes, result.get("scratch_bytes", 0))})
        print(f"  {name}: {sample.seconds:.0f} s, {sample.peak_bytes / MIB:.0f} MiB", file=sys.stderr, flush=True)
        return result

    def generate(self):
        start = time.monotonic()
        self.csi_delta("init")
        done = subprocess.run([PROGRAMS / "generate_repository", self.repository, str(self.entries)], check=False,
                              env=self.lab.environment(self.lab.folder / "home", PASSWORD), capture_output=True)
        if done.returncode != 0:
            raise engine_lab.BenchError(f"generate_repository: {done.stderr.decode()}")
        made = json.loads(done.stdout)
        print(f"  {made['entries']} entries in {made['packs']} packs, {time.monotonic() - start:.0f} s",
              file=sys.stderr, flush=True)
        return made

    def make_small_volume(self):
        with self.small.open("wb") as file:
            file.write(random.Random(1).randbytes(REAL_VOLUME))
        self.csi_delta("backup", self.small)

    def make_large_volume(self):
        """A sparse volume, its first backup, and what is said to have changed since."""
        stride = CHUNKS_PER_EXTENT * CHUNK
        with self.volume.open("wb") as file:
            file.truncate(self.extents * stride)
        _, base = self.csi_delta("backup", "--chunk-size", str(CHUNK), self.volume)
        draw = random.Random(2)
        listing = self.lab.folder / "extents"
        with self.volume.open("r+b") as file, listing.open("w", encoding="ascii") as lines:
            lines.write(json.dumps({"base": base["snapshot_id"]}) + "\n")
            for number in range(self.extents):
                if number % WRITTEN_ONE_IN == 0:
                    file.seek(number * stride)
                    file.write(draw.randbytes(EXTENT))
                lines.write(f'{{"offset":{number * stride},"length":{EXTENT}}}\n')
            lines.write('{"end":true}\n')
        return listing

    def forget_oldest(self):
        sample, snapshots = self.csi_delta("snapshots")
        del sample
        oldest = min(snapshots, key=lambda snapshot: snapshot["time"])
        self.csi_delta("forget", oldest["id"])

    def run(self):
        made = self.generate()
        self.make_small_volume()
        listing = self.make_large_volume()
        self.step(f"backup, {self.extents} extents listed", BACKUP_LIMIT, "backup", "--extents", listing, self.volume)
        self.step("check", OTHER_LIMIT, "check")
        self.forget_oldest()
        self.step("prune --dry-run", OTHER_LIMIT, "prune", "--dry-run")
        self.step("prune", OTHER_LIMIT, "prune")
        target = self.lab.folder / "restored"
        self.step("restore", OTHER_LIMIT, "restore", "--path", self.small, "--target", target, "latest")
        if target.read_bytes() != self.small.read_bytes():
            raise engine_lab.BenchError("the restored volume is another")
        return made


def table(row, made):
    """The lines to print."""
    lines = [f"{made['entries']} index entries in {made['packs']} packs; {row.extents} listed extents", "",
             f"{'':34} {'limit':>9} {'VmHWM':>9} {'of limit':>8} {'seconds':>8} {'scratch':>9}"]
    for result in row.results:
        share = result["peak_bytes"] / result["limit_bytes"]
        lines.append(f"{result['step']:34} {result['limit_bytes'] / MIB:5.0f} MiB {result['peak_bytes'] / MIB:5.0f} MiB "
                     f"{share:8.0%} {result['seconds']:8.1f} {result['scratch_bytes'] / MIB:5.0f} MiB"
                     f"{'' if share <= 0.5 else '   above the aim'}")
    return lines


def run(lab, quick, entries=None, extents=None):
    """The row of `./dev bench engine`: lines to print, what was missed, raw figures."""
    build()
    row = Row(lab, entries or (QUICK_ENTRIES if quick else ENTRIES), extents or (QUICK_EXTENTS if quick else EXTENTS))
    made, missed = {"entries": 0, "packs": 0}, []
    try:
        made = row.run()
    except engine_lab.BenchError as error:
        missed.append(f"memory of a large index: {error}")
    return table(row, made), missed, {"made": made, "steps": row.results}


def main():
    options = engine_lab.options(__doc__, {"--quick": False, "--entries": int, "--extents": int, "--keep": None})
    with engine_lab.Lab(options.keep) as lab:
        lines, missed, _ = run(lab, options.quick, options.entries, options.extents)
    print(engine_lab.machine())
    print("\n".join([*lines, *(f"MISSED: {line}" for line in missed)]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
