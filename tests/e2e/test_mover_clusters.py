"""Two clusters on one bucket, each with a node and a data mover of its own; and one that may only read."""

import os
import time

import pytest

import components
import data
import mover
import objects
import places
from bed import Bed, Settings
from moving import (CLAIMS, MIB, annotation, await_base, await_nothing_left, back_up, download_of, exported_keys, mode, mover_key,
                    reason, repository_of, restored_checksum, snapshot_ids, undone, write_chunks)

VOLUME_BYTES = 8 * MIB
SYNCED_SECONDS_MAX = 240
WRONG_PASSWORD = "the-password-of-another-client"
WRONG_FINGERPRINT = "d9e5ba93638c4ca9"

pytestmark = pytest.mark.moves


@pytest.fixture(scope="module")
def other(beds):
    """Another cluster on the bucket of the first one."""
    first = beds.get(node=True)
    with Bed.up(Settings(plugin=True, node=True), bucket_of=first) as bed:
        mover.serve(bed)
        yield bed


def bring_keys(first, other):
    """What an operator does: takes the keys out of one cluster, and brings them to the other."""
    ring = exported_keys(first, other.scratch / "exported.keys")
    mover_key(other, "import", ring)
    return ring


def all_objects(bed):
    """Every object of the bucket, with its size."""
    root = bed.s3_dir / objects.BUCKET
    return sorted((str(path.relative_to(root)), path.stat().st_size) for path in root.rglob("*") if path.is_file())


def reference_of(upload):
    return upload["status"]["snapshotID"]


def snapshot_of(upload):
    return reference_of(upload).split("/")[5]


def adopt(bed, cluster, *flags):
    """csi-delta adopt, which may refuse."""
    return bed.run([components.program_path(), "adopt", "--from-cluster", cluster, "--mover-namespace", mover.NAMESPACE,
                    "--velero-namespace", bed.namespace, *flags], check=False)


def goes_on_once_the_first_is_adopted(bed, other, workspace, app, backup, cluster):
    """A PVC that the other cluster restored is backed up into the folder of the first until that is undone."""
    other.delete_namespace(app)
    workspace.expect_namespace(other, app)
    other.sync_backup(backup, SYNCED_SECONDS_MAX)
    other.restore(workspace.name("moved-in"), "--from-backup", backup, "--include-resources", CLAIMS)
    other.wait_bound("data", app)
    refused = adopt(other, cluster, "--yes")
    assert refused.returncode == 1 and "may be there" in refused.stderr, refused
    two_days_ago = time.time() - 2 * 24 * 3600
    for path in (bed.s3_dir / objects.BUCKET / "plugins" / "csi-delta" / cluster).glob("*/*/snapshots/*"):
        os.utime(path, (two_days_ago, two_days_ago))
    adopted = adopt(other, cluster, "--yes")
    assert adopted.returncode == 0, adopted

    write_chunks(other, app, (5,), 7)
    _, first = back_up(other, workspace, app, "goes-on")
    assert (mode(first), reason(first)) == ("full", "restored"), first
    assert reference_of(first).split("/")[2] == cluster
    _, second = back_up(other, workspace, app, "by-list")
    assert mode(second) == "incremental" and reference_of(second).split("/")[2] == cluster, second

    assert adopt(other, cluster, "--undo").returncode == 0
    _, alone = back_up(other, workspace, app, "alone")
    assert reference_of(alone).split("/")[2] != cluster
    assert "csi-delta adopt" in annotation(alone, "reason"), alone


def test_a_cluster_takes_from_the_bucket_only_what_it_is_asked_to(bed, other, workspace):
    app, = {workspace.volume(cluster, VOLUME_BYTES, seed, labels=mover.RESTRICTED)[0] for seed, cluster in ((1, bed), (2, other))}
    first_name, first = back_up(bed, workspace, app, "first")
    write_chunks(bed, app, (3,), 5)
    _, second = back_up(bed, workspace, app, "second")
    _, theirs = back_up(other, workspace, app, "theirs")
    assert mode(theirs) == "full" and mode(second) == "incremental"
    base = await_base(bed, app)

    ring = bring_keys(bed, other)
    other.sync_backup(first_name, SYNCED_SECONDS_MAX)
    other.delete_backup(first_name)
    other.wait_for(lambda: not undone(other), SYNCED_SECONDS_MAX,
                   lambda: f"all data deleted: {undone(other)}\n{mover.tell(other)}")
    assert snapshot_ids(bed, repository_of(bed, second), ring) == {snapshot_of(second)}
    exported_keys(other, ring)
    assert snapshot_ids(other, repository_of(other, theirs), ring) == {snapshot_of(theirs)}
    assert snapshot_of(first) not in (snapshot_of(second), snapshot_of(theirs))
    assert [left["metadata"]["name"] for left in mover.bases(bed, app)] == [base["metadata"]["name"]]

    write_chunks(bed, app, (4,), 6)
    third_name, third = back_up(bed, workspace, app, "third")
    assert mode(third) == "incremental"
    written = data.checksum(bed.volume_path("data", app))
    data.same(restored_checksum(bed, workspace, app, third_name, "back"), written)
    goes_on_once_the_first_is_adopted(bed, other, workspace, app, third_name, reference_of(third).split("/")[2])
    for cluster in (bed, other):
        await_nothing_left(cluster)


@pytest.fixture
def reader(other):
    """The other cluster, whose credentials allow GET and LIST and nothing else; with its gate."""
    location = other.api.get("backupstoragelocations", "default", other.namespace)["spec"]
    gate = places.Gate(other, objects.S3_PORT)
    gate.rule = lambda method, path: None if method in ("GET", "HEAD") else (403, "AccessDenied")
    other.api.patch("backupstoragelocations", "default", {"spec": {
        "accessMode": "ReadOnly", "config": {**location["config"], "s3Url": gate.url}}}, other.namespace)
    other.restart("velero")
    yield other, gate
    gate.close()
    other.api.patch("backupstoragelocations", "default", {"spec": {
        "accessMode": "ReadWrite", "config": location["config"]}}, other.namespace)


@pytest.mark.journey
def test_an_empty_cluster_restores_with_the_key_and_reads_alone(bed, reader, workspace):
    other, gate = reader
    app, written = workspace.volume(bed, VOLUME_BYTES, 3, labels=mover.RESTRICTED)
    backup, upload = back_up(bed, workspace, app, "disaster")
    fingerprint = reference_of(upload).split("/")[6]
    before = all_objects(bed)

    other.api.delete("secrets", f"csi-delta-keys-{other.namespace}.default", mover.NAMESPACE)
    wrong = other.scratch / "wrong.keys"
    wrong.write_text(f"{WRONG_FINGERPRINT} {WRONG_PASSWORD}\n")
    mover_key(other, "import", wrong)
    other.sync_backup(backup, SYNCED_SECONDS_MAX)
    workspace.expect_namespace(other, app)
    failed = workspace.name("wrong")
    other.restore(failed, "--from-backup", backup, "--include-resources", CLAIMS, expect=None)
    # Where Velero may not write it cannot note the operation, and does not wait for it.
    def ended():
        status = download_of(other, failed)["status"]
        return status.get("phase") in mover.ENDED and status
    status = other.wait_for(ended, 120, "end of the DataDownload")
    assert status["phase"] == "Failed" and fingerprint in status["message"], status
    assert "mover-key import" in status["message"]
    other.delete_namespace(app)

    bring_keys(bed, other)
    other.restore(workspace.name("right"), "--from-backup", backup, "--include-resources", CLAIMS, expect=None)
    other.wait_bound("data", app)
    data.expect(other.volume_path("data", app), written)
    await_nothing_left(other)
    assert all_objects(bed) == before
    assert not [path for _, path in gate.refused if "/plugins/" in path], gate.refused
