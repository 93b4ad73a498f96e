"""DataUploads and DataDownloads that take too long, between Velero and a data mover that the test plays."""

import contextlib
import threading

import pytest

import mover
import objects

MIB = 1 << 20
SNAPSHOT_ID = f"csi-delta/1/{'c' * 36}/{{}}/{'d' * 36}/{'e' * 64}/{'f' * 16}"
MOVED_BYTES = 12345


class PlayedMover(threading.Thread):
    """Completes every managed DataUpload that is new, as far as Velero sees."""

    def __init__(self, bed, snapshot_id):
        super().__init__(daemon=True)
        self._bed, self._snapshot_id = bed, snapshot_id
        self._ended = threading.Event()

    def run(self):
        while not self._ended.wait(0.1):
            for obj in self._bed.api.list("datauploads", self._bed.namespace):
                if obj["spec"].get("datamover") == mover.NAME and not obj.get("status", {}).get("phase"):
                    self._complete(obj)

    def _complete(self, obj):
        status = {"phase": "Completed", "startTimestamp": "2026-01-02T03:04:05Z",
                  "completionTimestamp": "2026-01-02T03:04:06Z",
                  "progress": {"totalBytes": MOVED_BYTES, "bytesDone": MOVED_BYTES},
                  "snapshotID": self._snapshot_id.format(obj["spec"]["sourceNamespace"])}
        self._bed.api.patch("datauploads", obj["metadata"]["name"], {"status": status}, self._bed.namespace)

    def end(self):
        self._ended.set()
        self.join()


@contextlib.contextmanager
def played(bed, snapshot_id=SNAPSHOT_ID):
    mover.define(bed)
    playing = PlayedMover(bed, snapshot_id)
    playing.start()
    try:
        yield
    finally:
        playing.end()


def drop_snapshots(bed, app):
    """What a mover does with the volume snapshots that it was handed."""
    for snapshot in bed.api.list("volumesnapshots", app):
        bed.api.delete("volumesnapshots", snapshot["metadata"]["name"], app)
    bed.wait_snapshots_gone(app)


def check_cancelled_upload(bed, workspace):
    """A DataUpload that no data mover works on is cancelled when its time is over."""
    mover.define(bed)
    app = workspace.namespace(bed, "slow")
    bed.create_claim("data", app, MIB)
    name = workspace.backup(bed, *workspace.by_policy(bed, app, "move"), "--item-operation-timeout", "1s", stem="slow",
                            expect="PartiallyFailed")["metadata"]["name"]
    assert mover.upload_of(bed, name)["spec"]["cancel"] is True
    drop_snapshots(bed, app)


def check_cancelled_download(bed, workspace):
    """The same of a DataDownload; then the backup is deleted, and with it what its upload brought."""
    # Such a claim is not awaited for long.
    app, _ = workspace.volume(bed, MIB, stem="moved", storage_class_name=objects.CLASS_WAIT)
    flags = workspace.by_policy(bed, app, "move")
    with played(bed):
        backup = workspace.backup(bed, *flags, stem="moved")["metadata"]["name"]
    drop_snapshots(bed, app)
    bed.delete_namespace(app)
    restore = workspace.name("slow")
    bed.restore(restore, "--from-backup", backup, "--item-operation-timeout", "1s", expect="PartiallyFailed")
    download, = bed.api.list("datadownloads", bed.namespace, labelSelector=f"velero.io/restore-name={restore}")
    assert download["spec"]["cancel"] is True
    upload = mover.upload_of(bed, backup)
    bed.delete_backup(backup)
    deletion, = mover.deletions(bed, backup)
    assert deletion["spec"]["snapshotID"] == upload["status"]["snapshotID"]
    assert deletion["spec"]["backupStorageLocation"] == "default"
    bed.api.delete("datadeletions", deletion["metadata"]["name"], bed.namespace)


@pytest.mark.parametrize("check", [check_cancelled_upload, check_cancelled_download])
def test_an_operation_that_takes_too_long_is_cancelled(beds, workspace, check):
    check(beds.get(), workspace)
