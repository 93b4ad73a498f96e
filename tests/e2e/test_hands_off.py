"""Foreign volumes and snapshots: the plugin does nothing to them."""

import pytest

import ec2
import objects
import policy

MIB = 1 << 20
STATIC = "static-volume"
OTHER = {"conditions": {}, "action": {"type": "custom", "parameters": {"their-mover": "true"}}}


def _pod(name, namespace, claim, annotations=None):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
            "spec": {"containers": [{"name": "c", "image": "none", "volumeMounts": [
                {"name": "data", "mountPath": "/data"}]}],
                     "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}}


def _csi_claim(bed, app):
    bed.create_claim("data", app, MIB)


def _claim_in_pod(annotations=None):
    def prepare(bed, app):
        bed.create_claim("data", app, 8 * MIB, mode="Filesystem")
        bed.api.create("pods", _pod("user", app, "data", annotations))
    return prepare


def _claim_on(source):
    """A claim on a volume that no CSI driver has; the test deletes the volume."""
    def prepare(bed, app):
        bed.api.create("persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": f"static-{app}", "labels": {STATIC: "true"}},
            "spec": {"capacity": {"storage": str(MIB)}, "accessModes": ["ReadWriteOnce"],
                     "storageClassName": "", **source,
                     "persistentVolumeReclaimPolicy": "Retain",
                     "claimRef": {"namespace": app, "name": "data"}}})
        claim = objects.claim("data", app, MIB, mode="Filesystem", storage_class_name="")
        claim["spec"]["volumeName"] = f"static-{app}"
        bed.api.create("persistentvolumeclaims", claim)
        bed.wait_bound("data", app)
    return prepare


def _unbound_claim(bed, app):
    bed.api.create("persistentvolumeclaims",
                   objects.claim("data", app, MIB, storage_class_name=objects.CLASS_WAIT))


# name, what there is, the policy's rule or None, flags of the backup
CASES = {
    "snapshotVolumes-false": (_csi_claim, None, ["--snapshot-volumes=false"]),
    "not-csi": (_claim_on({"hostPath": {"path": "/nowhere"}}), policy.rule("snapshot"), []),
    "file-backup-opt-in": (
        _claim_in_pod({"backup.velero.io/backup-volumes": "data"}), None, []),
    "file-backup-opt-out": (_claim_in_pod(), None, ["--default-volumes-to-fs-backup"]),
    "file-backup-by-policy": (_claim_in_pod(), policy.plain_rule("fs-backup"), []),
    "unbound": (_unbound_claim, None, []),
    "policy-skip": (_csi_claim, policy.plain_rule("skip"), []),
    "custom-of-another-client": (_csi_claim, OTHER, []),
}


def _back_up(bed, workspace, case):
    """Backs up as the case says; returns (namespace, handles taken)."""
    prepare, rule, flags = CASES[case]
    app = workspace.namespace(bed)
    prepare(bed, app)
    if rule:
        flags = [*flags, "--resource-policies-configmap", workspace.policy(bed, rule)]
    before = set(bed.driver.snapshots())
    workspace.backup(bed, "--include-namespaces", app, *flags, expect=None)
    return app, set(bed.driver.snapshots()) - before


def _delete_static_volumes(bed):
    for volume in bed.api.list("persistentvolumes", labelSelector=STATIC):
        bed.api.delete("persistentvolumes", volume["metadata"]["name"])


@pytest.fixture
def static_volumes(bed, workspace):  # pylint: disable=unused-argument
    """Deletes the volumes that a test made by hand, before its workspace is cleared."""
    yield
    _delete_static_volumes(bed)


@pytest.mark.usefixtures("static_volumes")
@pytest.mark.parametrize("case", CASES)
def test_hands_off(bed, workspace, case):
    app, taken = _back_up(bed, workspace, case)
    assert taken == set()
    assert bed.api.list("volumesnapshots", app) == []


@pytest.mark.usefixtures("static_volumes")
def test_native_snapshotter(bed, workspace):
    """Velero's own way, by the AWS plugin: one snapshot by it, none by ours."""
    bed.configure_velero(server_env={"AWS_ENDPOINT_URL_EC2": ec2.URL})
    bed.api.create("volumesnapshotlocations", objects.native_location(bed.namespace))
    try:
        with ec2.running(bed) as cloud:
            app = workspace.namespace(bed)
            _claim_on({"awsElasticBlockStore": {"volumeID": "vol-1"}})(bed, app)
            before = set(bed.driver.snapshots())
            workspace.backup(bed, "--include-namespaces", app)
            assert cloud.snapshot_of == ["vol-1"]
            assert set(bed.driver.snapshots()) == before
            assert bed.api.list("volumesnapshots", app) == []
            _delete_static_volumes(bed)
            workspace.clear()  # While there is a controller to delete the snapshot.
    finally:
        bed.api.delete("volumesnapshotlocations", objects.NATIVE_LOCATION, bed.namespace)


def test_csi_feature_off(bed, workspace):
    bed.configure_velero(server_args=[])
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    chosen = workspace.policy(bed, policy.rule("snapshot"))
    before = set(bed.driver.snapshots())
    workspace.backup(bed, "--include-namespaces", app, "--resource-policies-configmap", chosen)
    assert set(bed.driver.snapshots()) == before


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
        chosen = workspace.policy(bed, policy.rule("snapshot"))
        before = set(bed.driver.snapshots())
        workspace.backup(bed, "--include-namespaces", app,
                         "--resource-policies-configmap", chosen)
        assert len(set(bed.driver.snapshots()) - before) == 1
        assert user_snapshot_uids(bed, app) == uids
    finally:
        bed.api.delete("volumesnapshotcontents", f"imported-{app}")
