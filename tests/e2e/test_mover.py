"""The data mover on a node, from a claim with data to the same bytes in a cluster that has lost them."""

import json

import pytest

import data
import mover
import rights
from moving import (CHUNK_BYTES, CLAIMS, GONE_SECONDS_MAX, MIB, MOVE, MOVED_SECONDS_MAX, await_nothing_left, back_up, begin, cancel,
                    check_increment, check_repository, figure, mode, reason, repository_of, restic, restore_beside, run_busybox,
                    write_chunks)

VOLUME_BYTES = 64 * MIB
WRITTEN_CHUNKS = (0, 17, 18, 90, 127)
CHUNKS_OF_A_SMALL_FILE = 8
pytestmark = pytest.mark.moves


def check_nothing_was_refused(bed, since):
    """Controller and workers were at work, and had every right that they needed."""
    for account in (mover.CONTROLLER, mover.WORKER):
        requests = rights.requests_of(bed.audit_events(mover.user(account), since))
        assert requests and not [r for r in requests if r.code in (401, 403)], account


def described(bed, backup):
    """The volumes' part of `velero backup describe --details`."""
    told = bed.velero("backup", "describe", backup, "--details").stdout
    return told[told.index("Backup Volumes:"):]


def check_restored_goes_on(bed, workspace, app, restored):
    """The new PVC goes on in the repository of the old one, from what filled it: read once, stored where it differs."""
    write_chunks(bed, app, WRITTEN_CHUNKS, 3)
    _, first = back_up(bed, workspace, app, "restored")
    assert (mode(first), reason(first)) == ("full", "restored"), first["metadata"]["annotations"]
    assert repository_of(bed, first) == repository_of(bed, restored)
    assert figure(first, "read-bytes") == VOLUME_BYTES and figure(first, "audit-bytes") >= VOLUME_BYTES // 100
    assert figure(first, "stored-bytes") <= 1.1 * len(WRITTEN_CHUNKS) * CHUNK_BYTES
    write_chunks(bed, app, WRITTEN_CHUNKS, 4)
    _, last = back_up(bed, workspace, app, "after")
    check_increment(last, len(WRITTEN_CHUNKS))
    check_repository(bed, last)
    chain = json.loads(restic(bed, repository_of(bed, last), "snapshots", "--json"))
    assert len(chain) == 4 and [one.get("parent") for one in chain[1:]] == [one["id"] for one in chain[:-1]]


@pytest.mark.journey
def test_walk(bed, workspace):
    asked_since = bed.audit_position()
    before = set(bed.driver.snapshots())
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED, written_bytes=VOLUME_BYTES // 2)
    volume = bed.volume_path("data", app)
    _, upload = back_up(bed, workspace, app, "full")
    assert figure(upload, "read-bytes") <= 1.1 * VOLUME_BYTES // 2
    assert upload["status"]["progress"] == {"totalBytes": VOLUME_BYTES, "bytesDone": VOLUME_BYTES}

    write_chunks(bed, app, WRITTEN_CHUNKS, 2)
    written = data.checksum(volume)
    second, upload = back_up(bed, workspace, app, "second")
    check_increment(upload, len(WRITTEN_CHUNKS))
    told = described(bed, second)
    assert f"Moved data Size (bytes): {VOLUME_BYTES}" in told and "Incremental data Size" in told
    bed.wait_for(lambda: len(mover.bases(bed, app)) == 1 and len(set(bed.driver.snapshots()) - before) == 1, GONE_SECONDS_MAX,
                 lambda: f"the base alone: {mover.bases(bed, app)} {bed.driver.snapshots()}")
    await_nothing_left(bed)
    mover.await_recorded(bed, app, second)
    record = mover.record_of(bed, app)["status"]
    assert record["lastGoodBackup"]["mode"] == "incremental" and record["lastGoodBackup"]["logicalBytes"] == VOLUME_BYTES
    assert record["lastAttempt"]["phase"] == "Completed" and not record.get("nextStep")

    bed.delete_namespace(app)
    bed.restore(workspace.name("r"), "--from-backup", second, timeout_seconds=MOVED_SECONDS_MAX)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)
    await_nothing_left(bed)
    check_repository(bed, upload)
    assert len(json.loads(restic(bed, repository_of(bed, upload), "snapshots", "--json"))) == 2
    check_restored_goes_on(bed, workspace, app, upload)
    check_nothing_was_refused(bed, asked_since)


@pytest.mark.journey
@pytest.mark.own_driver("its file systems are folders, which no device can show")
def test_a_file_system_comes_back_in_another_namespace(bed, workspace):
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    bed.create_claim("data", app, VOLUME_BYTES, mode="Filesystem")
    run_busybox(bed, "writer", app, f"dd if=/dev/urandom of=/data/large bs=1M count={VOLUME_BYTES // 2 // MIB} 2>/dev/null;"
                "sync -f /data/large")
    back_up(bed, workspace, app, "backup", "--include-resources", CLAIMS, *MOVE)
    # What a file costs besides: a directory, inodes, bitmaps, the journal.
    written = run_busybox(bed, "again", app, "echo kept > /data/small; sync -f /data/small; sha256sum /data/large /data/small")
    backup, upload = back_up(bed, workspace, app, "second", "--include-resources", CLAIMS, *MOVE)
    check_increment(upload, CHUNKS_OF_A_SMALL_FILE)
    target = restore_beside(bed, workspace, app, backup, "there")
    assert run_busybox(bed, "reader", target, "sha256sum /data/large /data/small") == written


def test_a_cancelled_backup_leaves_nothing(bed, workspace):
    before = set(bed.driver.snapshots()) | set(bed.driver.volumes())
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    name, upload = begin(bed, workspace, app)
    cancel(bed, upload)
    bed.wait_phase("datauploads", upload, ("Canceled",))
    await_nothing_left(bed)
    bed.wait_phase("backups", name, ("PartiallyFailed",))
    bed.delete_namespace(app)
    bed.wait_for(lambda: {*bed.driver.snapshots(), *bed.driver.volumes()} <= before, GONE_SECONDS_MAX,
                 lambda: f"snapshots and volumes gone: {bed.driver.snapshots()} {bed.driver.volumes()}")
