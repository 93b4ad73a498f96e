"""Foreign volumes and snapshots: the plugin does nothing to them."""

import pytest

import ec2
import objects

MIB = 1 << 20


def _claim_without_driver(bed, app):
    """A claim on a volume that no CSI driver has; the test deletes the PersistentVolume."""
    bed.api.create("persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": f"static-{app}"},
        "spec": {"capacity": {"storage": str(MIB)}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                 "awsElasticBlockStore": {"volumeID": "vol-1"}, "persistentVolumeReclaimPolicy": "Retain",
                 "claimRef": {"namespace": app, "name": "data"}}})
    bed.create_claim("data", app, MIB, mode="Filesystem", storage_class_name="", volume=f"static-{app}")


def test_native_snapshotter(bed, workspace):
    """Velero's own way, by the AWS plugin: one snapshot by it, none by ours."""
    bed.configure_velero(server_env={"AWS_ENDPOINT_URL_EC2": ec2.URL})
    bed.api.create("volumesnapshotlocations", objects.native_location(bed.namespace))
    app = workspace.namespace(bed)
    try:
        with ec2.running(bed) as cloud:
            _claim_without_driver(bed, app)
            before = set(bed.driver.snapshots())
            workspace.backup(bed, "--include-namespaces", app)
            assert cloud.snapshot_of == ["vol-1"]
            assert set(bed.driver.snapshots()) == before
            assert bed.api.list("volumesnapshots", app) == []
            bed.api.delete("persistentvolumes", f"static-{app}")
            workspace.clear()  # While there is a controller to delete the snapshot.
    finally:
        bed.api.delete("persistentvolumes", f"static-{app}")
        bed.api.delete("volumesnapshotlocations", objects.NATIVE_LOCATION, bed.namespace)


def make_user_snapshots(bed, app):
    """A VolumeSnapshot that a person took, and one that was imported; returns uids by name."""
    bed.import_snapshot("imported", app, bed.create_snapshot("taken", app, "data"))
    return user_snapshot_uids(bed, app)


def user_snapshot_uids(bed, app):
    """The uids of what make_user_snapshots made, and of the contents."""
    uids = {}
    for name in ("taken", "imported"):
        snapshot = bed.api.get("volumesnapshots", name, app)
        bound = snapshot["status"]["boundVolumeSnapshotContentName"]
        content = bed.api.get("volumesnapshotcontents", bound)
        uids[name] = (snapshot["metadata"]["uid"], content["metadata"]["uid"])
    return uids


@pytest.mark.journey
def test_user_made_snapshots_keep_their_uid(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    uids = make_user_snapshots(bed, app)
    try:
        before = set(bed.driver.snapshots())
        workspace.backup(bed, *workspace.by_policy(bed, app))
        assert len(set(bed.driver.snapshots()) - before) == 1
        assert user_snapshot_uids(bed, app) == uids
    finally:
        bed.api.delete("volumesnapshotcontents", f"imported-{app}")
