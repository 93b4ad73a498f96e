"""What a deleted backup leaves behind: nothing, not in the bucket, the driver or the API."""

import pytest

import objects

MIB = 1 << 20


@pytest.fixture
def saved(bed, workspace):
    """A claim and a backup of it: (namespace, backup name, snapshot handle)."""
    before = set(bed.driver.snapshots())
    app, _ = workspace.volume(bed, MIB)
    backup = workspace.backup(bed, *workspace.by_policy(bed, app))
    handle, = set(bed.driver.snapshots()) - before
    return app, backup["metadata"]["name"], handle


def _await_nothing_left(bed, backup, handle):
    bed.wait_for(lambda: bed.api.get("backups", backup, bed.namespace) is None, 60,
                 f"end of backup {backup}")
    bed.wait_gone(lambda: handle not in bed.driver.snapshots(), 60, f"end of snapshot {handle}")
    bed.wait_gone(lambda: not bed.contents_of(handle), 60,
                  lambda: f"no content of {handle}, but: {bed.contents_of(handle)}")
    assert not (bed.s3_dir / objects.BUCKET / "backups" / backup).exists()


@pytest.mark.journey
def test_backup_delete(bed, workspace, saved):
    app, backup, handle = saved
    copy, _ = workspace.copy(bed, backup, app)
    bed.wait_bound("data", copy)
    assert bed.contents_of(handle), "the restore made a content of its own"
    bed.delete_backup(backup)
    _await_nothing_left(bed, backup, handle)
