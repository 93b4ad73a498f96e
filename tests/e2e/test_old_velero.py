"""Velero 1.13.1 has no CSI actions: without our plugin its restores come back as zeros."""

import signal

import pytest

import bed as bed_module
import data
import mover
import objects
import policy
from moving import (CLAIMS, GONE_SECONDS_MAX, MIB, await_nothing_left, back_up, check_increment, check_repository,
                    restore_beside, undone, write_chunks)

VOLUME_BYTES = 32 * MIB


@pytest.mark.journey
def test_snapshot_to_delete(beds, old_bed, workspace):
    bed = old_bed
    before = set(bed.driver.snapshots())
    app, written = workspace.volume(bed, 8 * MIB)
    backup = workspace.backup(bed, "--include-namespaces", app)
    name = backup["metadata"]["name"]
    assert backup["status"].get("errors", 0) == 0
    assert backup["status"].get("warnings", 0) == 0
    taken, = set(bed.driver.snapshots()) - before
    assert taken in bed.velero("backup", "describe", name, "--details").stdout

    other = beds.second(bed)
    workspace.expect_namespace(other, app)
    other.sync_backup(name)
    other.restore(workspace.name("restored"), "--from-backup", name)
    other.wait_bound("data", app)
    data.expect(other.volume_path("data", app), written)

    copy, restore = workspace.copy(bed, name, app)
    assert restore["status"].get("errors", 0) == 0
    bed.wait_bound("data", copy)
    data.expect(bed.volume_path("data", copy), written)

    bare, _ = workspace.copy(bed, name, app, "--restore-volumes=false", stem="bare")
    bed.wait_bound("data", bare)
    assert data.checksum(bed.volume_path("data", bare)) != written

    bed.delete_backup(name)
    bed.wait_for(lambda: set(bed.driver.snapshots()) == before, 60,
                 lambda: f"the driver to hold {before}, not {bed.driver.snapshots()}")
    bed.wait_for(lambda: not [c for c in bed.api.list("volumesnapshotcontents")
                              if c.get("status", {}).get("snapshotHandle") == taken],
                 60, "no content of the deleted backup")


@pytest.mark.own_driver("needs a snapshot that never becomes ready")
def test_plugin_killed_in_progress(old_bed, workspace):
    bed = old_bed
    before = bed.inventory()
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    name = workspace.name("killed")
    workspace.expect_backup(bed, name)
    with bed.driver.faults({"method": "*", "lie": "not_ready"}):
        bed.velero("backup", "create", name, "--include-namespaces", app)
        bed.wait_phase("backups", name, ("WaitingForPluginOperations",))

        def killed_until_ended():
            processes = bed.plugin_processes()  # Before the phase: none is of a later one.
            phase = bed.api.get("backups", name, bed.namespace)["status"]["phase"]
            if phase == "WaitingForPluginOperations":
                for process in processes:
                    process.signal(signal.SIGKILL)
            return phase in bed_module.ENDED and phase
        phase = bed.wait_for(killed_until_ended, 60, f"end of backup {name}")
    assert phase == "PartiallyFailed"
    assert "velero.io/csi-vs" in bed.velero("backup", "describe", name, "--details").stdout
    workspace.backup(bed, "--include-namespaces", app)
    bed.wait_for(lambda: not bed.api.list("volumesnapshots", app), 60,  # The controller deletes it.
                 lambda: f"no volume snapshot of {bed.api.list('volumesnapshots', app)}")
    workspace.clear()
    bed.wait_gone(lambda: bed.inventory() == before, 90,
                  lambda: f"nothing left behind: {before} == {bed.inventory()}")


def test_policy_and_a_claim_without_volume(old_bed, workspace):
    """The server fails such a claim as soon as an action runs under a name of its CSI plugin."""
    bed = old_bed
    before = set(bed.driver.snapshots())
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    bed.api.create("persistentvolumeclaims", objects.claim(
        "unbound", app, MIB, storage_class_name=objects.CLASS_WAIT))
    rule = policy.plain_rule("skip", storageClass=["another"])
    backup = workspace.backup(bed, "--include-namespaces", app, "--resource-policies-configmap",
                              workspace.policy(bed, rule))
    assert backup["status"].get("errors", 0) == 0
    assert len(set(bed.driver.snapshots()) - before) == 1
    name = backup["metadata"]["name"]
    assert f"- {app}/unbound\n" in bed.velero("backup", "describe", name, "--details").stdout


@pytest.mark.cluster(velero="1.13.1", node=True)
def test_volumes_move_both_ways(bed, workspace):
    mover.serve(bed)
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED, written_bytes=VOLUME_BYTES // 2)
    volume = bed.volume_path("data", app)
    at_first = data.checksum(volume)
    first, _ = back_up(bed, workspace, app, "full")
    chunks = (0, 17, 18, 40)
    write_chunks(bed, app, chunks, 2)
    written = data.checksum(volume)
    second, upload = back_up(bed, workspace, app, "second")
    check_increment(upload, len(chunks))
    target = restore_beside(bed, workspace, app, first, "beside", resources=f"{CLAIMS},datauploads")
    data.expect(bed.volume_path("data", target), at_first)
    bed.delete_namespace(app)
    bed.restore(workspace.name("r"), "--from-backup", second)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)
    check_repository(bed, upload)
    bed.delete_backup(first)
    bed.wait_for(lambda: not undone(bed), GONE_SECONDS_MAX, lambda: f"the data of the deleted gone: {undone(bed)}")
    await_nothing_left(bed)
