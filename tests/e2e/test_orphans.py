"""The sweep of what failed backups left must never take a snapshot that some backup needs."""

import pytest

import data
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


def _assert_restores(bed, workspace, app, backup, written):
    bed.delete_namespace(app)
    bed.restore(workspace.name("restore"), "--from-backup", backup)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)


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
