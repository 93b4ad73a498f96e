"""Where a backup can be restored to: other namespaces, an occupied one, another cluster."""

import pytest

import data
from bed import ENDED

MIB = 1 << 20


@pytest.fixture
def saved(bed, workspace):
    """A namespace with two written claims and a backup of it: (namespace, checksums, backup name)."""
    app = workspace.namespace(bed)
    written = {}
    for seed, name in enumerate(("one", "two")):
        bed.create_claim(name, app, 4 * MIB)
        written[name] = data.fill(bed.volume_path(name, app), seed, 4 * MIB)
    return app, written, workspace.backup(bed, *workspace.by_policy(bed, app))["metadata"]["name"]


def _assert_bytes(bed, namespace, written):
    for name, checksum in written.items():
        bed.wait_bound(name, namespace)
        data.expect(bed.volume_path(name, namespace), checksum)


@pytest.mark.journey
def test_two_restores_of_one_backup_into_mapped_namespaces(bed, workspace, saved):
    app, written, backup = saved
    bed.delete_claim("two", app)
    targets = {workspace.name(f"restore-{i}"): workspace.name(f"copy-{i}") for i in (1, 2)}
    for restore, target in targets.items():
        workspace.expect_namespace(bed, target)
        bed.velero("restore", "create", restore, "--from-backup", backup,
                   "--namespace-mappings", f"{app}:{target}")
    for restore, target in targets.items():
        ended = bed.wait_phase("restores", restore, ENDED)
        assert ended["status"]["phase"] == "Completed", ended["status"]
        _assert_bytes(bed, target, written)
    _assert_bytes(bed, app, {"one": written["one"]})
    assert bed.api.get("persistentvolumeclaims", "two", app) is None


def test_over_an_existing_namespace(bed, workspace, saved):
    app, written, backup = saved
    changed = data.fill(bed.volume_path("one", app), 99, 4 * MIB)
    kept = bed.api.get("persistentvolumeclaims", "one", app)["metadata"]["uid"]
    bed.delete_claim("two", app)

    restore = bed.restore(workspace.name("restore"), "--from-backup", backup)
    assert restore["status"].get("errors", 0) == 0
    assert bed.api.get("persistentvolumeclaims", "one", app)["metadata"]["uid"] == kept
    _assert_bytes(bed, app, {"one": changed, "two": written["two"]})


@pytest.mark.journey
@pytest.mark.cluster(second=True)
def test_second_cluster(bed, second, workspace, saved):
    app, written, backup = saved
    workspace.expect_namespace(second, app)
    second.sync_backup(backup)
    restore = second.restore(workspace.name("restored"), "--from-backup", backup)
    assert restore["status"].get("errors", 0) == 0
    _assert_bytes(second, app, written)
    _assert_bytes(bed, app, written)


def test_a_retained_volume_does_not_stand_for_its_snapshot(bed, workspace):
    """Velero knows of no snapshot in a backup that moves data, and restores such a PersistentVolume as it is."""
    app, written = workspace.volume(bed, 4 * MIB)
    kept = bed.retain("data", app)
    backup = workspace.backup(bed, *workspace.by_policy(bed, app), "--snapshot-move-data")
    data.fill(bed.volume_path("data", app), 2, 4 * MIB)
    bed.delete_claim("data", app, with_volume=False)
    bed.delete_pv(kept["metadata"]["name"])

    restore = bed.restore(workspace.name("restore"), "--from-backup", backup["metadata"]["name"])
    assert restore["status"].get("errors", 0) == 0
    bed.wait_bound("data", app)
    assert bed.volume_handle("data", app) != kept["spec"]["csi"]["volumeHandle"]
    data.expect(bed.volume_path("data", app), written)
    bed.delete_volume_of(kept)
