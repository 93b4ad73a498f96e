#!/usr/bin/python3
"""Makes the fixture of a version: a repository on disk, for later versions to continue.

    make.py OUT

The program is that of CSI_DELTA_PROGRAM, else of build/. A fixture is made once, by the release that it stands for, and
is never edited: README.md beside this file says why.
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSWORD = "golden fixture"
CHUNK_BYTES = 256 << 10
VOLUME_CHUNKS = 8
CLUSTER = "6d0c3a0e-0000-4000-8000-000000000001"
TAGS = {  # As the mover writes them: the task, and the volume group.
    "first": ["du-00000000-0000-4000-8000-00000000000a", "volume-group=shop/db,volume-group-snapshot=velero-db-a",
              "volume-group-cut=2026-03-01T12:00:00Z,volume-group-members=2"],
    "second": ["du-00000000-0000-4000-8000-00000000000b", "volume-group=shop/db,volume-group-snapshot=velero-db-b",
               "volume-group-cut=2026-03-02T12:00:00Z,volume-group-members=2"],
}


def chunk(seed):
    """Half random, so that it is stored, half zeros, so that it stays small."""
    return random.Random(seed).randbytes(6 << 10) + bytes(CHUNK_BYTES - (6 << 10))


def repository(out):
    program = os.environ.get("CSI_DELTA_PROGRAM") or ROOT / "build/release/bin/csi-delta"
    folder = out / "repository"
    shutil.rmtree(folder, ignore_errors=True)

    def run(*words):
        done = subprocess.run([program, *words], check=True, capture_output=True, text=True,
                              env={"RESTIC_REPOSITORY": str(folder), "RESTIC_PASSWORD": PASSWORD, "TMPDIR": "/var/tmp",
                                   "HOME": "/nonexistent", "PATH": os.environ["PATH"]})
        return json.loads(done.stdout.splitlines()[-1])

    expected = {"password": PASSWORD, "host": CLUSTER, "snapshots": []}
    with tempfile.TemporaryDirectory() as scratch:
        run("init", "--json")
        for claim, seed in (("data", 1), ("log", 100)):
            base = ""
            image = pathlib.Path(scratch, claim)
            chunks = [chunk(seed + i) if i % 2 == 0 else bytes(CHUNK_BYTES) for i in range(VOLUME_CHUNKS)]
            for turn, (generation, changed) in enumerate((("first", None), ("second", 2))):
                flags = []
                if changed is not None:
                    chunks[changed] = chunk(seed + 50)
                    extents = pathlib.Path(scratch, "extents")
                    lines = ({"base": base}, {"offset": changed * CHUNK_BYTES, "length": CHUNK_BYTES}, {"end": True})
                    extents.write_text("".join(json.dumps(line) + "\n" for line in lines))
                    flags = ["--extents", extents]
                image.write_bytes(b"".join(chunks))
                for tag in TAGS[generation]:
                    flags += ["--tag", tag]
                result = run("backup", image, "--json", "--host", CLUSTER, "--path", f"/shop/{claim}", "--time",
                             f"2026-03-0{turn + 1} 12:00:00", "--chunk-size", "256KiB", "--immutable", *flags)
                base = result["snapshot_id"]
                expected["snapshots"].append({
                    "id": result["snapshot_id"], "path": f"/shop/{claim}", "generation": generation,
                    "mode": result["mode_done"], "bytes": len(chunks) * CHUNK_BYTES,
                    "sha256": hashlib.sha256(image.read_bytes()).hexdigest()})
        run("check", "--read-data", "--json")
    write(out / "repository.json", expected)


def write(path, value):
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    repository(target)
