#!/usr/bin/python3
"""Makes the fixture of a version again: what its programs leave behind, for later versions to go on from.

    make.py repository OUT     a repository on disk                          (seconds, needs csi-delta alone)
    make.py objects OUT        objects of backups, restores and deletions    (minutes, needs the test bed and root)

The programs are those of CSI_DELTA_PROGRAM, CSI_DELTA_PLUGIN and CSI_DELTA_CSI_DRIVER, else of build/. A fixture is made
once, by the release that it stands for, and is never edited: README.md beside this file says why.
"""

import collections
import contextlib
import gzip
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading

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
# What the tests read; of Events, Pods of the system and the like they need nothing.
KINDS = ("backups", "restores", "backupstoragelocations", "datauploads", "datadownloads", "datadeletions", "volumetasks", "pods",
         "secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "volumesnapshots", "volumesnapshotcontents",
         "volumesnapshotclasses", "volumegroupsnapshots", "volumegroupsnapshotcontents", "volumegroupsnapshotclasses",
         "storageclasses", "leases", "namespaces")


# --- A repository

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



# --- Objects of a cluster

class Recorder:
    """What the API server holds, write by write, while the body of `with` runs: states of it can be told afterwards."""

    def __init__(self, bed):
        self._bed = bed
        self._writes = []  # (revision, verb, plural, object)
        self._lock = threading.Lock()
        self._connections = []
        self._threads = []

    def __enter__(self):
        for plural in KINDS:
            for obj in self._bed.api.list(plural):
                self._note("ADDED", plural, obj)
            connection = self._bed.api.watch(plural)
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._follow, args=(plural, connection), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _note(self, verb, plural, obj):
        revision = int(obj["metadata"]["resourceVersion"])
        with self._lock:
            self._writes.append((revision, verb, plural, obj))

    def _follow(self, plural, connection):
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            for line in connection.getresponse():
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    self._note(event["type"], plural, event["object"])

    def first(self, plural, fits):
        """The revision of the first write of a kind of which `fits` is true."""
        found = [revision for revision, verb, kind, obj in self._writes if kind == plural and verb != "DELETED" and fits(obj)]
        return min(found) if found else None

    def last(self, plural, fits):
        """The last write of each object of a kind of which `fits` is true."""
        found = {}
        for _, verb, kind, obj in sorted(self._writes, key=lambda write: write[0]):
            if kind == plural and verb != "DELETED" and fits(obj):
                found[obj["metadata"]["uid"]] = obj
        return list(found.values())

    def state(self, revision, namespaces):
        """All objects as they were at a revision, by plural and in order: those of the cluster, and of these namespaces."""
        objects = {}
        for at, verb, plural, obj in sorted(self._writes, key=lambda write: write[0]):
            if at > revision:
                break
            meta = obj["metadata"]
            key = (plural, meta.get("namespace", ""), meta["name"])
            objects.pop(key, None)
            if verb != "DELETED" and meta.get("namespace", "") in namespaces and is_wanted(plural, obj):
                objects[key] = obj
        return [(key[0], objects[key]) for key in sorted(objects)]


def is_wanted(plural, obj):
    """Not what every cluster holds."""
    name = obj["metadata"]["name"]
    return not (plural in ("configmaps", "secrets", "leases", "namespaces") and (
        name.startswith(("kube-", "default")) or obj.get("type") == "kubernetes.io/service-account-token"
        or name in ("velero-repo-credentials", "external-health-monitor")))


def told(plural, obj):
    """What a test reads of an object. Which field another client wrote matters of PVCs alone: the sweep looks at it."""
    obj = json.loads(json.dumps(obj))
    if plural != "persistentvolumeclaims":
        obj["metadata"].pop("managedFields", None)
    return obj


class Pool:
    """Objects as lines of a file for each kind, every version of one once; what refers to one says "<plural>/<line>"."""

    def __init__(self):
        self._lines = collections.defaultdict(dict)

    def put(self, plural, obj):
        line = json.dumps(told(plural, obj), sort_keys=True, separators=(",", ":"))
        lines = self._lines[plural]
        return f"{plural}/{lines.setdefault(line, len(lines))}"

    def save(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for plural, lines in self._lines.items():
            (folder / f"{plural}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def archived(bucket, backup):
    """The items of a backup as its archive holds them."""
    with tarfile.open(bucket / "backups" / backup / f"{backup}.tar.gz") as tar:
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            parts = member.name.split("/")  # resources/<plural>.<group>/namespaces/<namespace>/<name>.json
            plural = parts[1].split(".")[0] if len(parts) > 3 else ""
            if member.isfile() and parts[0] == "resources" and parts[2] in ("namespaces", "cluster") and plural in KINDS:
                yield plural, json.loads(tar.extractfile(member).read())


def operations(path):
    """The asynchronous operations that Velero wrote down for a backup or restore."""
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else []


def make_objects(out):
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import data  # pylint: disable=import-outside-toplevel
    import moved_groups  # pylint: disable=import-outside-toplevel
    import mover  # pylint: disable=import-outside-toplevel
    import moving  # pylint: disable=import-outside-toplevel
    import objects  # pylint: disable=import-outside-toplevel
    import policy  # pylint: disable=import-outside-toplevel
    from bed import Bed, Settings  # pylint: disable=import-outside-toplevel

    pool, app = Pool(), "shop"
    with Bed.up(Settings(plugin=True, node=True, groups=True)) as bed:
        bucket = bed.s3_dir / objects.BUCKET
        moved_groups.serve(bed)
        bed.create_namespace(app, mover.RESTRICTED)
        bed.create_claims(("data",), app, 4 << 20)
        bed.create_claims(("log", "wal"), app, 4 << 20, labels={moved_groups.LABEL: "db"})
        for seed, claim in enumerate(("data", "log", "wal")):
            data.fill(bed.volume_path(claim, app), seed, 1 << 20)
        for value in ("snapshot", "move"):
            bed.api.create("configmaps", policy.config_map(value, bed.namespace, [policy.rule(value)]))

        def back_up(name, value):
            bed.backup(name, "--include-namespaces", app, "--resource-policies-configmap", value,
                       timeout_seconds=moving.MOVED_SECONDS_MAX)

        def restore(name, target):
            bed.restore(f"{name}-restore", "--from-backup", name, "--namespace-mappings", f"{app}:{target}",
                        timeout_seconds=moving.MOVED_SECONDS_MAX)

        with Recorder(bed) as seen:
            back_up("local", "snapshot")
            restore("local", "copy-of-local")
            back_up("full", "move")
            back_up("moved", "move")  # Incremental.
            restore("moved", "copy-of-moved")
            archives = {backup: {
                "items": [pool.put(plural, item) for plural, item in archived(bucket, backup)],
                "operations": operations(bucket / "backups" / backup / f"{backup}-itemoperations.json.gz"),
                "restore_operations": operations(bucket / "restores" / f"{backup}-restore"
                                                 / f"restore-{backup}-restore-itemoperations.json.gz"),
            } for backup in ("local", "moved")}
            bed.delete_backup("full")
            bed.delete_backup("local")
            moving.await_nothing_left(bed, moving.DELETIONS)
        spaces = {"", app, "copy-of-local", "copy-of-moved", bed.namespace, mover.NAMESPACE}
        states = {name: [pool.put(plural, obj) for plural, obj in seen.state(revision, spaces)]
                  for name, revision in moments(seen).items()}
        tasks = [pool.put("volumetasks", task) for task in seen.last(
            "volumetasks", lambda task: task.get("status", {}).get("phase") == "Succeeded")]
        write(out / "objects.json", {
            "cluster": bed.api.get("namespaces", "kube-system")["metadata"]["uid"], "mover_namespace": mover.NAMESPACE,
            "velero_namespace": bed.namespace, "archives": archives, "states": states, "succeeded_tasks": tasks})
    pool.save(out / "objects")


def moments(seen):
    """The moments from which another process might have to go on, with their revisions."""
    def named(prefix):
        return lambda obj: obj["metadata"]["name"].startswith(prefix)

    def in_phase(phase, fits=lambda obj: True):
        return lambda obj: obj.get("status", {}).get("phase") == phase and fits(obj)

    def labelled(key, value):
        return lambda obj: obj["metadata"].get("labels", {}).get(key) == value

    found = {
        "snapshot-taken": seen.first("volumesnapshots", lambda o: named("velero-data-")(o) and o.get("status", {}).get("readyToUse")),
        "group-taken": seen.first("volumegroupsnapshots", lambda o: o.get("status", {}).get("readyToUse")),
        "local-restored": seen.first("restores", in_phase("Completed", named("local-restore"))),
        "group-handed-over": seen.first("volumegroupsnapshotcontents", named("csi-delta-group-")),
        "moved-completed": seen.first("backups", in_phase("Completed", named("moved"))),
        "moved-restored": seen.first("restores", in_phase("Completed", named("moved-restore"))),
        "snapshot-deleting": seen.first("volumesnapshotcontents", named("csi-delta-delete-")),
        "group-deleting": seen.first("volumegroupsnapshotcontents", named("csi-delta-delete-group-")),
    }
    for phase in ("Accepted", "Prepared", "InProgress"):
        found[f"upload-{phase.lower()}"] = seen.first("datauploads", in_phase(phase, labelled("velero.io/backup-name", "moved")))
        found[f"download-{phase.lower()}"] = seen.first(
            "datadownloads", in_phase(phase, labelled("velero.io/restore-name", "moved-restore")))
    for phase in ("Waiting", "InProgress", "Completed"):
        found[f"deletion-{phase.lower()}"] = seen.first("datadeletions", in_phase(phase))
    for name, revision in found.items():
        print(f"make.py: {name}: {revision or 'never'}", file=sys.stderr)
    return {name: revision for name, revision in found.items() if revision}


def write(path, value):
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    what, target = sys.argv[1], pathlib.Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    {"repository": repository, "objects": make_objects}[what](target)
