#!/usr/bin/python3
"""How fast volumes are moved, beside Velero's own mover, on a bed with a node.

    mover.py [--quick] [--row NAME]... [--runs N]

Ours is what users have: the chart's controller, a worker Pod for each volume, `velero backup create
--snapshot-move-data --data-mover csi-delta`. Theirs is the data path of Velero's mover as a program of its own
(tests/e2e/modules/cluster/datapath: the uploader, repository and settings of Velero's module), in a Pod with the limits of our
worker, on a claim of the same volume snapshot and in the same bucket; once with its defaults and once with
ParallelFilesUpload=8, and the faster one counts. Both sides take turns, each time with a cold page cache.

full:   4 GiB of noise into an empty repository.
small:  1 % of that changed, in chunks scattered over the volume.
sparse: 100 GiB of which next to nothing is written, and nothing changed.

Data path: from the first byte read to the repository snapshot that is saved. Wall: from the DataUpload's creation to
Completed. Start: from its creation to the first report of the worker, less what the Pod took to start.

Promises: full twice and small eight times as fast on the data path; sparse 5 s without the audit and 1 MiB uploaded;
controller 64 MiB, worker 256 MiB; first byte 5 s after creation beyond the Pod's start. Exits with 1 when one is missed.
The driver's files lie on an XFS of their own, where a snapshot is made in no time, as arrays do; the bucket
lies in memory, so that the disk that both would wait for is not the figure.
--quick: one run of 256 MiB and 4 GiB, and no promise is judged. Raw figures go to build/bench/.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests" / "e2e")]

import build  # noqa: E402
import cgroups  # noqa: E402
import data  # noqa: E402
import drive  # noqa: E402
import images  # noqa: E402
import mover  # noqa: E402
import node as node_module  # noqa: E402
import objects  # noqa: E402
from drive import bed_module, verdict  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
CHUNK_BYTES = 512 << 10
RUNS_MIN = 3
FULL_RATIO_MIN, SMALL_RATIO_MIN = 2, 8
SPARSE_SECONDS_MAX, SPARSE_STORED_MAX = 5, MIB
CONTROLLER_MIB_MAX, WORKER_MIB_MAX = 64, 256
START_SECONDS_MAX = 5
THEIR_IMAGE = "localhost/bench-datapath:e2e"
THEIR_FLAGS = {"defaults": [], "8 in parallel": ["-parallel", "8"]}
WORKER_LIMITS = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}}
POD_SECONDS_MAX = 1800
FILE_SYSTEM_BYTES = 400 * GIB  # Hardly any of it is ever written.


@dataclasses.dataclass
class Moved:
    """The figures of one backup by csi-delta."""

    result: dict
    wall_seconds: float
    start_seconds: float  # Creation to the worker's first word, without the start of its Pod.

    def seconds(self):
        return self.result["durationMs"] / 1000


class Watched:
    """The objects of a kind in the mover's namespace as they were last, also when they are gone."""

    def __init__(self, bed, plural):
        self._process = subprocess.Popen(
            bed.inside(["kubectl", "get", plural, "-n", mover.NAMESPACE, "--watch", "-o", "json"]),
            env=bed.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.last = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        decoder, text = json.JSONDecoder(), ""
        for line in self._process.stdout:
            text = (text + line).lstrip()
            with contextlib.suppress(ValueError):
                found, end = decoder.raw_decode(text)
                text = text[end:]
                self.last[found["metadata"]["name"]] = found

    def close(self):
        self._process.terminate()
        self._process.wait()


class World:
    """The bed, its mover, and theirs."""

    def __init__(self, bed):
        self.bed = bed
        mover.serve(bed)
        self.tasks, self.pods = Watched(bed, "volumetasks"), Watched(bed, "pods")
        archive = bed.state / "theirs.tar"
        program = build.build("datapath") / "bin" / "datapath"
        content = program.read_bytes()
        archive.write_bytes(images.image.make_archive(
            [images.image.File("bin/datapath", 0o755, content)], images.image.elf_architecture(content),
            {"Cmd": ["/bin/datapath"]}, THEIR_IMAGE))
        bed.node.import_image(archive)
        archive.unlink()
        self._names = iter(range(1 << 20))

    def name(self, stem):
        return f"{stem}-{next(self._names)}"

    def volume(self, size_bytes, snapshot=None):
        """A claim in a namespace of its own, so that a backup has this volume alone."""
        app = self.name("bench")
        self.bed.create_namespace(app, mover.RESTRICTED)
        self.bed.create_claim("data", app, size_bytes, snapshot=snapshot)
        return app

    def back_up(self, app):
        """A backup by Velero and our mover."""
        bed, name = self.bed, self.name("b")
        drop_caches()
        bed.velero("backup", "create", name, "--include-namespaces", app, "--snapshot-move-data", "--data-mover", mover.NAME)
        bed.wait_phase("backups", name, ("Completed", "PartiallyFailed", "Failed"), POD_SECONDS_MAX)
        upload = mover.upload_of(bed, name)
        if upload["status"]["phase"] != "Completed":
            raise SystemExit(f"{name}: {json.dumps(upload['status'])}\n{mover.tell(bed)}")
        stem = f"du-{upload['metadata']['uid']}"
        task, pod = self.tasks.last[stem], self.pods.last[stem]
        created = when(upload["metadata"]["creationTimestamp"])
        pod_start = (when(container(pod)["startedAt"]) - when(pod["metadata"]["creationTimestamp"])).total_seconds()
        return Moved(task["status"]["outcome"]["backup"],
                     (when(upload["status"]["completionTimestamp"]) - created).total_seconds(),
                     (when(task["status"]["startTimestamp"]) - created).total_seconds() - pod_start)

    def theirs(self, app, prefix, *arguments):
        """One run of their data path on the claim of a namespace; returns what it printed."""
        bed, name = self.bed, self.name("theirs")
        pod = objects.pod(name, app, THEIR_IMAGE, [
            "/bin/datapath", *arguments, "-endpoint", f"{node_module.GATEWAY}:7070", "-bucket", objects.BUCKET,
            "-prefix", f"kopia/{prefix}/", "-device", "/dev/volume"], devices={"data": "/dev/volume"})
        main = pod["spec"]["containers"][0]
        main["env"] = [{"name": "AWS_ACCESS_KEY_ID", "value": objects.ACCESS_KEY},
                       {"name": "AWS_SECRET_ACCESS_KEY", "value": objects.SECRET_KEY},
                       {"name": "TMPDIR", "value": "/scratch"}]
        main["resources"] = WORKER_LIMITS
        main["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
        pod["spec"]["volumes"].append({"name": "scratch", "emptyDir": {}})
        drop_caches()
        bed.api.create("pods", pod)
        bed.wait_for(lambda: bed.api.get("pods", name, app)["status"].get("phase") in ("Succeeded", "Failed"),
                     POD_SECONDS_MAX, f"end of pod {name}")
        text = bed.kubectl("logs", "-n", app, name).stdout
        if bed.api.get("pods", name, app)["status"]["phase"] != "Succeeded":
            raise SystemExit(f"{name}: {text}")
        bed.node.delete_pods(app)
        return json.loads(text.splitlines()[-1]) if arguments[0] != "create" else None

    def empty_bucket(self):
        """Makes room for the next run: what both sides stored goes."""
        for folder in ("kopia", "plugins"):
            shutil.rmtree(self.bed.s3_dir / objects.BUCKET / folder, ignore_errors=True)


def when(rfc3339):
    return datetime.datetime.fromisoformat(rfc3339.replace("Z", "+00:00"))


def container(pod):
    state = pod["status"]["containerStatuses"][0]["state"]
    return next(iter(state.values()))


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def told(label, values, unit="s"):
    print(f"  {label:<34}{statistics.median(values):8.2f} {unit} ({min(values):.2f}-{max(values):.2f})")


def compare(name, ours, theirs, ratio_min, quick):
    """Prints and keeps the runs of both sides; whether csi-delta is so much faster than the best of the others."""
    told("csi-delta, data path", [m.seconds() for m in ours])
    told("csi-delta, wall", [m.wall_seconds for m in ours])
    for flags, runs in theirs.items():
        told(f"Velero's mover, {flags}", [r["move_seconds"] for r in runs])
    drive.keep(f"mover_{name}", {"ours": [dataclasses.asdict(m) for m in ours], "theirs": theirs})
    best = min(statistics.median(r["move_seconds"] for r in runs) for runs in theirs.values())
    ratio = best / statistics.median(m.seconds() for m in ours)
    start = statistics.median(m.start_seconds for m in ours)
    peak = max(m.result["peakMemoryBytes"] for m in ours) / MIB
    return quick or (verdict(f"{ratio:.1f} times as fast (must >= {ratio_min})", ratio >= ratio_min)
                     & verdict(f"{start:.0f} s to the worker's first word beyond the Pod's start (must <= "
                               f"{START_SECONDS_MAX} s)", start <= START_SECONDS_MAX)
                     & verdict(f"worker {peak:.0f} MiB (must <= {WORKER_MIB_MAX} MiB)", peak <= WORKER_MIB_MAX))


def full(world, runs, quick):
    """Noise into an empty repository, each time."""
    size = 256 * MIB if quick else 4 * GIB
    ours, theirs = [], {flags: [] for flags in THEIR_FLAGS}
    print(f"\nfull: {size >> 20} MiB of noise")
    for run in range(runs):
        app = world.volume(size)
        data.fill(world.bed.volume_path("data", app), run, size)
        ours.append(world.back_up(app))
        for flags, words in THEIR_FLAGS.items():
            prefix = world.name("full")
            world.theirs(app, prefix, "create")
            theirs[flags].append(world.theirs(app, prefix, "backup", *words))
        world.bed.delete_namespace(app)
        world.empty_bucket()
    return compare("full", ours, theirs, FULL_RATIO_MIN, quick)


def small(world, runs, quick):
    """A hundredth of the chunks written again, before each run."""
    size = 256 * MIB if quick else 4 * GIB
    chunks = size // CHUNK_BYTES
    app = world.volume(size)
    path = world.bed.volume_path("data", app)
    data.fill(path, 1, size)
    world.back_up(app)
    prefixes = {flags: world.name("small") for flags in THEIR_FLAGS}
    for flags, words in THEIR_FLAGS.items():
        world.theirs(app, prefixes[flags], "create")
        world.theirs(app, prefixes[flags], "backup", *words)
    ours, theirs = [], {flags: [] for flags in THEIR_FLAGS}
    print(f"\nsmall: {chunks // 100} of {chunks} chunks changed")
    for run in range(runs):
        for i in range(chunks // 100):
            data.fill(path, 1000 + run * chunks + i, CHUNK_BYTES, (i * 97 % chunks) * CHUNK_BYTES)
        ours.append(world.back_up(app))
        if ours[-1].result["mode"] != "incremental":
            raise SystemExit(f"not incremental: {ours[-1].result}")
        for flags, words in THEIR_FLAGS.items():
            theirs[flags].append(world.theirs(app, prefixes[flags], "backup", *words))
    world.bed.delete_namespace(app)
    return compare("small", ours, theirs, SMALL_RATIO_MIN, quick)


def sparse(world, runs, quick):
    """A large volume with a little in it, and nothing new."""
    size = 4 * GIB if quick else 100 * GIB
    app = world.volume(size)
    data.fill(world.bed.volume_path("data", app), 1, 8 * MIB)
    world.back_up(app)
    ours = [world.back_up(app) for _ in range(runs)]
    print(f"\nsparse: {size >> 30} GiB, nothing changed")
    alone = [m.seconds() - m.result["auditMs"] / 1000 for m in ours]
    told("csi-delta, data path, no audit", alone)
    told("csi-delta, wall", [m.wall_seconds for m in ours])
    drive.keep("mover_sparse", [dataclasses.asdict(m) for m in ours])
    stored = max(m.result["storedBytes"] for m in ours)
    controller = controller_mib(world.bed)
    world.bed.delete_namespace(app)
    return quick or (verdict(f"{statistics.median(alone):.2f} s (must <= {SPARSE_SECONDS_MAX} s)",
                             statistics.median(alone) <= SPARSE_SECONDS_MAX)
                     & verdict(f"{stored / 1024:.0f} KiB uploaded (must <= {SPARSE_STORED_MAX >> 10} KiB)",
                               stored <= SPARSE_STORED_MAX)
                     & verdict(f"controller {controller:.0f} MiB (must <= {CONTROLLER_MIB_MAX} MiB)",
                               controller <= CONTROLLER_MIB_MAX))


def controller_mib(bed):
    """The most that the controller's process ever had resident."""
    for status in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = status.read_bytes().split(b"\0")
            if b"datamover" in words and bed.name in (status.parent / "cgroup").read_text():
                return cgroups.memory_bytes(status.parent.name, "VmHWM") / MIB
    raise SystemExit("the controller's process is not found")


@contextlib.contextmanager
def state_folder():
    """The folder for a bed: its driver's files on a file system whose copies share blocks, its bucket in memory."""
    with tempfile.TemporaryDirectory(prefix="csi-delta-bench-") as folder:
        backing, state = pathlib.Path(folder) / "xfs.img", pathlib.Path(folder) / "bed"
        with backing.open("wb") as file:
            file.truncate(FILE_SYSTEM_BYTES)
        subprocess.run(["mkfs.xfs", "-q", backing], check=True)
        loop = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", backing], check=True, capture_output=True,
                              text=True).stdout.strip()
        try:
            for name, words in (("driver", ["-o", "discard", loop]), ("s3", ["-t", "tmpfs", "-o", "size=16g", "tmpfs"])):
                (state / name).mkdir(parents=True)
                subprocess.run(["mount", *words, state / name], check=True)
            yield state  # The bed unmounts what is below its folder.
        finally:
            subprocess.run(["losetup", "--detach", loop], check=True)


ROWS = {"full": full, "small": small, "sparse": sparse}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--row", action="append", choices=ROWS, metavar="NAME")
    parser.add_argument("--runs", type=int, default=RUNS_MIN)
    arguments = parser.parse_args()
    runs = 1 if arguments.quick else max(arguments.runs, RUNS_MIN)
    held = True
    settings = bed_module.Settings(node=True, plugin=True)
    with state_folder() as state, bed_module.Bed.up(settings, state=state) as bed:
        world = World(bed)
        print(drive.machine())
        for name in arguments.row or ROWS:
            held &= ROWS[name](world, runs, arguments.quick)
        world.tasks.close()
        world.pods.close()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
