"""Kubernetes' garbage collector, at work: it must find nothing of csi-delta to collect."""

import pytest

import data

MIB = 1 << 20


def _await_collection(bed, namespace, backup):
    """Waits until the garbage collector has dealt with something that says it is the Backup's."""
    bed.api.create("configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "owned", "namespace": namespace, "ownerReferences": [
            {"apiVersion": "velero.io/v1", "kind": "Backup", "name": backup["metadata"]["name"],
             "uid": backup["metadata"]["uid"]}]}})
    bed.wait_for(lambda: bed.api.get("configmaps", "owned", namespace) is None, 60,
                 f"the garbage collector's work in {namespace}")


@pytest.mark.journey
@pytest.mark.own_driver("needs a snapshot that does not become ready")
def test_snapshots_outlive_collection(bed, workspace):
    before = set(bed.driver.snapshots())
    app, written = workspace.volume(bed, MIB)
    name = workspace.name("owner")
    workspace.expect_backup(bed, name)
    with bed.driver.faults({"method": "*", "lie": "not_ready"}):
        bed.velero("backup", "create", name, *workspace.by_policy(bed, app))
        backup = bed.wait_phase("backups", name, ("WaitingForPluginOperations",))
        # A Backup owns nothing in another namespace: to the collector it does not exist there.
        _await_collection(bed, app, backup)
        assert len(bed.api.list("volumesnapshots", app)) == 1
    bed.wait_phase("backups", name, ("Completed",))
    handle, = set(bed.driver.snapshots()) - before

    bed.api.delete("backups", name, bed.namespace)
    _await_collection(bed, bed.namespace, backup)
    bed.begin_to_delete_namespace(app)
    bed.await_endings()
    assert handle in bed.driver.snapshots()
    bed.sync_backup(name)
    copy, _ = workspace.copy(bed, name, app)
    bed.wait_bound("data", copy)
    data.expect(bed.volume_path("data", copy), written)
