"""Ours and stock Velero's CSI actions side by side: no volume twice, and backups cross over."""

import gzip
import json

import pytest

import data
import objects

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


@pytest.mark.parametrize("plugin", [True, False], ids=["made_with_restored_without", "made_without_restored_with"])
def test_a_backup_of_one_is_restored_by_the_other(beds, workspace, plugin):
    bed = beds.get(plugin=plugin)
    app, written = workspace.volume(bed, 8 * MIB, 2)
    flags = workspace.by_policy(bed, app) if plugin else ("--include-namespaces", app)
    name = workspace.backup(bed, *flags)["metadata"]["name"]
    bed.delete_namespace(app)
    assert beds.get(plugin=not plugin) is bed
    bed.restore(workspace.name("restore"), "--from-backup", name)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)
