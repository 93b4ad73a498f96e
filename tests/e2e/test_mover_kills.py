"""Whatever is killed at whatever point of an upload or download: it ends right, and nothing is left.

A point is a place in the sequence of writes that can be seen: objects of the move, and files in the bucket. A run sees
a few for each kind, drawn by chance.py.
"""

import dataclasses
import signal
import typing

import pytest

import chance
import data
import mover
import objects
from bed import ENDED
from changes import Changes
from moving import (CLAIMS, MIB, MOVE, await_counted, await_nothing_left, back_up, cancel, counted, download_of, exported_keys,
                    phase, restored_from_bucket, running, undone, upload, write_chunks)

VOLUME_BYTES = 32 * MIB
POINTS = range(1, 21)
SAMPLE = 3
LEAST_POINTS = 6  # That every move has, whatever is killed.
SECONDS_MAX = 300

pytestmark = [pytest.mark.moves, pytest.mark.sweep]


def kill_all(word):
    def strike(bed):
        for process in running(bed, word):
            process.signal(signal.SIGKILL)
    return strike


def kill_plugins(bed):
    """Those of the moment, if any: Velero starts one when it has something for it."""
    for process in bed.plugin_processes():
        process.signal(signal.SIGKILL)


def delete_pods(**options):
    def strike(bed):
        for pod in bed.api.list("pods", mover.NAMESPACE, labelSelector="mover.csi-delta.io/task"):
            bed.api.raw("DELETE", f"/api/v1/namespaces/{mover.NAMESPACE}/pods/{pod['metadata']['name']}",
                        {"apiVersion": "v1", "kind": "DeleteOptions", **options})  # It may have gone by itself.
    return strike


def has_begun(change):
    return change.verb == "ADDED" and change.kind in ("datauploads", "datadownloads")


def pod_is_made(change):
    return (change.verb, change.kind) == ("ADDED", "pods")


def worker_runs(change):
    """By its own word: a kubelet that has much to do tells of a Pod late, or when it has ended."""
    return (change.kind, change.phase) in (("volumetasks", "Running"), ("pods", "Running"))


@dataclasses.dataclass(frozen=True)
class Kill:
    """What is killed, and from which change on points are counted: before it is there nothing can be killed."""

    strike: typing.Callable
    since: typing.Callable


KILLS = {"worker": Kill(kill_all("worker"), worker_runs),
         "pod": Kill(delete_pods(), pod_is_made),
         "pod-force": Kill(delete_pods(gracePeriodSeconds=0), pod_is_made),
         "controller": Kill(kill_all("datamover"), has_begun),
         "velero": Kill(lambda bed: bed.stop("velero", kill=True), has_begun),
         "plugin": Kill(kill_plugins, has_begun)}


def drawn(what, *kinds):
    """Pairs of a kind and a point, as parameters."""
    def points(kind):
        """Of a sample one is early, which every move has: a late one may find nothing left to kill."""
        drawing = chance.draw(what, kind)
        sample = [drawing.choice(POINTS[:LEAST_POINTS]), *drawing.sample(POINTS[LEAST_POINTS:], SAMPLE - 1)]
        return POINTS if chance.EVERYTHING else sorted(sample)
    return [pytest.param(kind, point, id=f"{kind}-{point}") for kind in kinds for point in points(kind)]


class Story:
    """One volume that is moved again and again."""

    def __init__(self, bed, workspace):
        self.bed = bed
        self.workspace = workspace
        self.app, self.written = workspace.volume(bed, VOLUME_BYTES, stem="killed", labels=mover.RESTRICTED)
        self.backup, _ = back_up(bed, workspace, self.app, "first")
        await_nothing_left(bed)
        self.ring = exported_keys(bed, bed.scratch / "killed.keys")
        self.before = counted(bed)

    def volume(self):
        return self.bed.volume_path("data", self.app)

    def changes(self, plural, owner):
        ours = {"labelSelector": "mover.csi-delta.io/task"}
        return Changes(self.bed, [(plural, self.bed.namespace, {}), (owner, self.bed.namespace, {}),
                                  ("volumetasks", mover.NAMESPACE, {}), ("pods", mover.NAMESPACE, ours)],
                       self.bed.s3_dir / objects.BUCKET / "plugins")

    def strike(self, changes, kind, point):
        """Kills at a point, or at the end if that comes first; returns whether the point was met."""
        def ended(seen):
            return any((c.verb, c.kind) == ("DELETED", "volumetasks") for c in seen)
        met = changes.await_count(point, KILLS[kind].since, ended, SECONDS_MAX)
        KILLS[kind].strike(self.bed)
        assert met or point > LEAST_POINTS, changes.seen()
        return met

    def check_clean(self):
        """Nothing is left, and nothing took away from what the first backup stored."""
        await_nothing_left(self.bed)
        await_counted(self.bed, self.before)
        made = mover.upload_of(self.bed, self.backup)
        data.same(restored_from_bucket(self.bed, made, self.ring, self.bed.state / "killed.img"), self.written)
        assert not undone(self.bed)


@pytest.fixture(scope="module")
def story(beds, shared_workspace):
    bed = beds.get(node=True)
    mover.serve(bed)
    return Story(bed, shared_workspace)


def start_again(bed, plural, name):
    """Starts the Velero that was killed; returns how a backup or restore has to end: what it was at work on has failed."""
    was = bed.api.get(plural, name, bed.namespace).get("status", {}).get("phase")
    bed.start("velero")
    return "Failed" if was == "InProgress" else "Completed"


@pytest.mark.parametrize(("kind", "point"), drawn("upload", "worker", "pod", "pod-force", "controller", "velero"))
def test_an_upload_outlives_who_is_killed(bed, story, kind, point, record_property):
    write_chunks(bed, story.app, range(point % 3, VOLUME_BYTES // (512 << 10), 3), 1000 * point)
    written = data.checksum(story.volume())
    name = story.workspace.name(f"{kind}-{point}")
    with story.changes("datauploads", "backups") as changes:
        bed.velero("backup", "create", name, "--include-namespaces", story.app, *MOVE)
        met = story.strike(changes, kind, point)
        record_property("points", int(met))
        expected = start_again(bed, "backups", name) if kind == "velero" else "Completed"
        assert bed.wait_phase("backups", name, ENDED, SECONDS_MAX)["status"]["phase"] == expected, changes.seen()
    made = mover.upload_of(bed, name)
    bed.wait_for(lambda: phase(bed, made["metadata"]["name"]) in mover.ENDED, SECONDS_MAX, "end of the DataUpload")
    made = upload(bed, made["metadata"]["name"])
    if expected == "Completed":  # Of a backup that failed the data goes.
        assert made["status"]["phase"] == "Completed", made["status"]
        data.same(restored_from_bucket(bed, made, story.ring, bed.state / "killed.img"), written)
    bed.drop_backup(name)
    bed.wait_for(lambda: upload(bed, made["metadata"]["name"]) is None, SECONDS_MAX, "its DataUpload gone")
    story.check_clean()


@pytest.mark.parametrize(("kind", "point"), drawn("download", "worker", "controller", "velero", "plugin"))
def test_a_download_outlives_who_is_killed(bed, story, kind, point, record_property):
    name, target = story.workspace.name(f"r-{kind}-{point}"), story.workspace.name(f"to-{kind}-{point}")
    story.workspace.expect_namespace(bed, target)
    with story.changes("datadownloads", "restores") as changes:
        bed.velero("restore", "create", name, "--from-backup", story.backup, "--include-resources", CLAIMS,
                   "--namespace-mappings", f"{story.app}:{target}")
        met = story.strike(changes, kind, point)
        record_property("points", int(met))
        expected = start_again(bed, "restores", name) if kind == "velero" else "Completed"
        # A plugin that dies in a call fails what it was called for, and Velero goes on with the next.
        allowed = {expected, "PartiallyFailed"} if kind == "plugin" else {expected}
        ended = bed.wait_phase("restores", name, ENDED, SECONDS_MAX)["status"]["phase"]
        assert ended in allowed, changes.seen()
    if ended == "Completed":
        bed.wait_bound("data", target)
        data.expect(bed.volume_path("data", target), story.written)
    else:
        end_download(bed, name)
    await_nothing_left(bed)
    bed.delete_namespace(target, empty_is_enough=True)
    story.check_clean()


def end_download(bed, restore):
    """What an operator does with the DataDownload of a restore that has failed, whose claim may never come."""
    download = download_of(bed, restore)
    if download:
        cancel(bed, download["metadata"]["name"], "datadownloads")
        bed.wait_for(lambda: download_of(bed, restore)["status"].get("phase") in mover.ENDED, SECONDS_MAX,
                     lambda: f"end of {download_of(bed, restore)}")
