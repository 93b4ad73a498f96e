#!/usr/bin/python3
"""Restore, check, prune, copy and a full backup with a history, in the default worker, beside millions of packs.

    engine_packs.py [--chunks-per-pack N]... [--entries N] [--limit-mib N] [--keep FOLDER]

Ten million chunks that are not there, in 156,000, 1.25 million or 10 million packs (64, 8 or 1 in each), served by
seeded_store.py without a file for each, and beside them a volume that is there. Each verb runs in a cgroup of 256 MiB,
the packs' bytes are not read. Exits with 1 when a verb is killed, fails, or restores another volume.
"""

import contextlib
import json
import pathlib
import random
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "s3")]

import engine_lab  # noqa: E402
import engine_memory  # noqa: E402
import engine_s3  # noqa: E402
import gateway  # noqa: E402

MIB = 1 << 20
ENTRIES = 10_000_000
CHUNKS_PER_PACK = (64, 8, 1)
SEALED_CHUNK = (256 << 10) + 32
VOLUME = 64 * MIB
OUTSIDE_MIB = 32  # of the limit: what the data mover keeps from a worker's budget
ENVIRONMENT = {"RESTIC_PASSWORD": "generated", "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench",
               "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


def pack_bytes(chunks):
    """Blobs, an entry of the header for each, and what seals the header."""
    return chunks * SEALED_CHUNK + chunks * 37 + 32 + 4


@contextlib.contextmanager
def seeded(folder, packs=0, bytes_each=0, flags=()):
    """Serves a folder's objects and so many packs that are computed; gives the URL of the bucket."""
    port = engine_s3.free_port()
    command = [sys.executable, pathlib.Path(__file__).with_name("seeded_store.py"), "--folder", folder, "--port", port,
               "--packs", packs, "--pack-bytes", bytes_each, *flags]
    # pylint: disable-next=subprocess-popen-preexec-fn
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                          preexec_fn=gateway.end_with_parent) as process:
        try:
            engine_lab.processes.wait_until(lambda: engine_s3.answers(port), 20, "an answer of the store")
            yield f"s3:http://127.0.0.1:{port}/bucket"
        finally:
            process.kill()


class Row:
    """One number of packs."""

    def __init__(self, lab, entries, chunks, limit_mib):
        self.lab, self.entries, self.chunks, self.limit = lab, entries, chunks, limit_mib * MIB
        self.budget = f"{limit_mib - OUTSIDE_MIB}MiB"
        self.folder = lab.folder / f"packs-of-{chunks}"
        self.volume = lab.folder / "volume"
        self.steps = []
        self.missed = []

    def csi_delta(self, repository, *words, limit=0):
        return self.lab.measure([engine_memory.PROGRAMS / "csi-delta", "-r", repository, "--json", *words], ENVIRONMENT,
                                limit_bytes=limit, cold=False)

    def step(self, repository, name, *words):
        try:
            sample = self.csi_delta(repository, "--memory-budget", self.budget, *words, limit=self.limit)
        except engine_lab.BenchError as error:
            self.missed.append(f"{self.made['packs']} packs: {name}: {error}")
            print(f"  {name}: FAILED: {error}", file=sys.stderr, flush=True)
            return None
        lines = sample.output.strip().splitlines()
        result = json.loads(lines[-1]) if lines else {}
        scratch = max(sample.scratch_bytes, result.get("scratch_bytes", 0) if isinstance(result, dict) else 0)
        self.steps.append({"packs": self.made["packs"], "verb": name, "scratch": scratch, **sample.raw()})
        print(f"  {name}: {sample.seconds:.0f} s, {sample.peak_bytes / MIB:.0f} MiB, scratch {scratch / MIB:.0f} MiB",
              file=sys.stderr, flush=True)
        return result

    def make(self):
        bucket = self.folder
        self.csi_delta(bucket, "init")
        done = subprocess.run([engine_memory.PROGRAMS / "generate_repository", bucket, str(self.entries),
                               str(self.chunks)], check=True, capture_output=True,
                              env=self.lab.environment(self.lab.folder / "home", ENVIRONMENT))
        self.made = json.loads(done.stdout)
        self.volume.write_bytes(random.Random(self.chunks).randbytes(VOLUME))
        self.csi_delta(bucket, "backup", self.volume)
        print(f"  {self.made}", file=sys.stderr, flush=True)

    def run(self):
        self.make()
        with seeded(self.folder, self.made["packs"], pack_bytes(self.chunks)) as url:
            target = self.lab.folder / "restored"
            self.step(url, "restore", "restore", "--path", self.volume, "--target", target, "latest")
            if not target.exists() or target.read_bytes() != self.volume.read_bytes():
                self.missed.append(f"{self.made['packs']} packs: the restored volume is another")
            target.unlink(missing_ok=True)
            self.step(url, "check", "check")
            self.step(url, "full with a history", "backup", "--new-chain", self.volume)
            copy = self.lab.folder / "copy"
            self.csi_delta(copy, "init")
            newest = json.loads(self.csi_delta(url, "snapshots").output.strip().splitlines()[-1])
            real = [snapshot for snapshot in newest if snapshot["paths"] == [str(self.volume)]]
            self.step(copy, "copy", "copy", "--from-repo", url, real[-1]["id"])
            oldest = min((s for s in newest if s not in real), key=lambda snapshot: snapshot["time"])
            self.csi_delta(url, "forget", oldest["id"])
            self.step(url, "prune --dry-run", "prune", "--dry-run", "--max-repack-size", "1")
            self.step(url, "prune", "prune", "--max-repack-size", "1")  # Computed packs hold no data.
            self.step(url, "check after it", "check")


def run(lab, entries=ENTRIES, chunks=CHUNKS_PER_PACK, limit_mib=256):
    """The lines of a table, what was missed, and the raw results."""
    lines = ["| Packs | Verb | Seconds | VmHWM | Scratch |", "|---|---|---|---|---|"]
    missed, raw = [], []
    for each in chunks:
        row = Row(lab, entries, each, limit_mib)
        row.run()
        missed += row.missed
        raw += row.steps
        lines += [f"| {step['packs']} | {step['verb']} | {step['seconds']:.0f} | {step['peak_bytes'] / MIB:.0f} MiB | "
                  f"{step['scratch'] / MIB:.0f} MiB |" for step in row.steps]
    return lines, missed, raw


def main():
    options = engine_lab.options(__doc__, {"--chunks-per-pack": [], "--entries": ENTRIES, "--limit-mib": 256, "--keep": None})
    engine_memory.build()
    with engine_lab.Lab(options.keep) as lab:
        lines, missed, _ = run(lab, options.entries, options.chunks_per_pack or CHUNKS_PER_PACK, options.limit_mib)
    print("\n".join([*lines, *(f"MISSED: {line}" for line in missed)]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
