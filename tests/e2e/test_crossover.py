"""Ours and stock Velero's CSI actions side by side: no volume twice, and backups cross over."""

import gzip
import json

import pytest

import data
import objects
import policy

MIB = 1 << 20


def _operations(bed, backup):
    path = bed.s3_dir / objects.BUCKET / "backups" / backup / f"{backup}-itemoperations.json.gz"
    with gzip.open(path) as file:
        return json.load(file)


@pytest.mark.journey
def test_no_policy_one_snapshot_per_volume(bed, workspace):
    app, written = workspace.volume(bed, 8 * MIB, 1)
    before = set(bed.driver.snapshots())
    backup = workspace.backup(bed, "--include-namespaces", app)
    name = backup["metadata"]["name"]
    assert backup["status"].get("warnings", 0) == 0
    assert len(set(bed.driver.snapshots()) - before) == 1
    actions = [operation["spec"]["backupItemAction"] for operation in _operations(bed, name)]
    assert actions == ["velero.io/csi-volumesnapshot-backupper"]

    copy, _ = workspace.copy(bed, name, app)
    bed.wait_bound("data", copy)
    data.expect(bed.volume_path("data", copy), written)


def test_made_with_restored_without(beds, workspace):
    bed = beds.get()
    app, written = workspace.volume(bed, 8 * MIB, 2)
    chosen = workspace.policy(bed, policy.rule("snapshot"))
    name = workspace.backup(bed, "--include-namespaces", app,
                            "--resource-policies-configmap", chosen)["metadata"]["name"]
    bed.delete_namespace(app)
    assert beds.get(plugin=False) is bed
    bed.restore(workspace.name("restore"), "--from-backup", name)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)


def test_made_without_restored_with(beds, workspace):
    bed = beds.get(plugin=False)
    app, written = workspace.volume(bed, 8 * MIB, 3)
    name = workspace.backup(bed, "--include-namespaces", app)["metadata"]["name"]
    bed.delete_namespace(app)
    assert beds.get() is bed
    bed.restore(workspace.name("restore"), "--from-backup", name)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)
