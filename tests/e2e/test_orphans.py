"""The sweep of what failed backups left must never take a snapshot that some backup needs."""

import pytest

import data

MIB = 1 << 20


@pytest.mark.cluster(second=True)
def test_second_cluster_on_the_same_storage(bed, second, workspace):
    before = set(bed.driver.snapshots())
    app, written = workspace.volume(bed, MIB)
    backup = workspace.backup(bed, *workspace.by_policy(bed, app))["metadata"]["name"]
    handle, = set(bed.driver.snapshots()) - before
    workspace.expect_namespace(second, app)
    second.sync_backup(backup)
    second.restore(workspace.name("restored"), "--from-backup", backup)
    second.wait_bound("data", app)
    theirs = workspace.name("theirs")
    second.backup(theirs, *workspace.by_policy(second, app))
    assert handle in second.driver.snapshots()
    second.delete_backup(theirs)
    assert handle in second.driver.snapshots()
    second.delete_namespace(app)
    assert handle in bed.driver.snapshots()
    bed.delete_namespace(app)
    bed.restore(workspace.name("restore"), "--from-backup", backup)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)
