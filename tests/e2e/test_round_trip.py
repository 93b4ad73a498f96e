"""The main promise: what the policy gives to us is snapshotted, shown, and comes back byte for byte."""

import pytest

import data

MIB = 1 << 20
TEXT = b"the quick brown fox\n" * 1000


@pytest.mark.journey
def test_policy_snapshot(bed, workspace):
    app = workspace.namespace(bed)
    written = {}
    for seed, name in enumerate(("block-a", "block-b")):
        bed.create_claim(name, app, 16 * MIB)
        written[name] = data.fill(bed.volume_path(name, app), seed, 16 * MIB)
    bed.create_claim("files", app, 32 * MIB, mode="Filesystem")
    bed.driver.write_file(bed.volume_handle("files", app), "fox.txt", TEXT)
    before = set(bed.driver.snapshots())

    backup = workspace.backup(bed, *workspace.by_policy(bed, app))
    bed.assert_clean("backup", backup)
    taken = set(bed.driver.snapshots()) - before
    assert len(taken) == 3
    shown = bed.velero("backup", "describe", backup["metadata"]["name"], "--details").stdout
    for handle in taken:
        assert f"Storage Snapshot ID: {handle}" in shown
    assert "Snapshot Size (bytes): 0" not in shown

    bed.delete_namespace(app)
    assert set(bed.driver.snapshots()) >= taken, "a snapshot went with its namespace"
    restore = bed.restore(workspace.name("restore"), "--from-backup", backup["metadata"]["name"])
    assert restore["status"].get("errors", 0) == 0
    # Velero restores what an action names, whatever the user has included: the snapshots come along.
    beside, _ = workspace.copy(bed, backup["metadata"]["name"], app, "--include-resources",
                               "persistentvolumeclaims,persistentvolumes", stem="beside")
    for name, checksum in written.items():
        for namespace in (app, beside):
            bed.wait_bound(name, namespace)
            data.expect(bed.volume_path(name, namespace), checksum)
    bed.wait_bound("files", app)
    data.same(bed.driver.read_file(bed.volume_handle("files", app), "fox.txt"), TEXT)
