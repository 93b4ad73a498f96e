"""The sweep of what failed backups left must never take a snapshot that some backup needs."""

import pytest

import data
import objects
import policy

MIB = 1 << 20


def _save(bed, workspace, seed, stem="app"):
    before = set(bed.driver.snapshots())
    app = workspace.namespace(bed, stem)
    bed.create_claim("data", app, MIB)
    written = data.fill(bed.volume_path("data", app), seed, MIB)
    backup = workspace.backup(bed, "--include-namespaces", app, "--resource-policies-configmap",
                              workspace.policy(bed, policy.rule("snapshot")), stem=f"{stem}-backup")
    handle, = set(bed.driver.snapshots()) - before
    return app, backup["metadata"]["name"], handle, written


def _leave_over(bed, app, backup):
    """A managed VolumeSnapshot that a backup in an earlier life did not get rid of; returns its handle."""
    name = bed.api.create("volumesnapshots", objects.left_over_snapshot(
        "data", app, bed.namespace, backup))["metadata"]["name"]
    snapshot = bed.wait_snapshot_ready(name, app)
    content = bed.api.get("volumesnapshotcontents",
                          snapshot["status"]["boundVolumeSnapshotContentName"])
    handle = content["status"]["snapshotHandle"]
    bed.api.patch("volumesnapshots", name, {
        "metadata": {"annotations": {"velero.io/csi-volumesnapshot-handle": handle}}}, app)
    return handle


def _assert_restores(bed, workspace, app, backup, written):
    bed.delete_namespace(app)
    bed.restore(workspace.name("restore"), "--from-backup", backup)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)


def test_velero_namespace_created_again(bed, workspace):
    app, backup, handle, written = _save(bed, workspace, 1)
    unseen = _leave_over(bed, app, "not-in-the-bucket")
    bed.recreate_velero_namespace()
    _save(bed, workspace, 2, stem="other")
    assert {handle, unseen} <= set(bed.driver.snapshots())
    bed.sync_backup(backup)
    _assert_restores(bed, workspace, app, backup, written)


def test_backup_synced_under_a_new_uid(bed, workspace):
    app, backup, handle, written = _save(bed, workspace, 3)
    of_another_uid = _leave_over(bed, app, backup)
    old = bed.api.get("backups", backup, bed.namespace)["metadata"]["uid"]
    bed.api.delete("backups", backup, bed.namespace)
    assert bed.sync_backup(backup)["metadata"]["uid"] != old
    _save(bed, workspace, 4, stem="other")
    assert {handle, of_another_uid} <= set(bed.driver.snapshots())
    _assert_restores(bed, workspace, app, backup, written)


@pytest.mark.cluster(second=True)
def test_second_cluster_on_the_same_storage(bed, second, workspace):
    app, backup, handle, written = _save(bed, workspace, 5)
    workspace.expect_namespace(second, app)
    second.sync_backup(backup)
    second.restore(workspace.name("restored"), "--from-backup", backup)
    second.wait_bound("data", app)
    theirs = workspace.name("theirs")
    second.backup(theirs, "--include-namespaces", app, "--resource-policies-configmap",
                  workspace.policy(second, policy.rule("snapshot")))
    assert handle in second.driver.snapshots()
    second.delete_backup(theirs)
    assert handle in second.driver.snapshots()
    second.delete_namespace(app)
    assert handle in bed.driver.snapshots()
    _assert_restores(bed, workspace, app, backup, written)
