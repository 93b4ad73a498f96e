"""DataUploads and DataDownloads between Velero and a data mover, whose part the test plays."""

import contextlib
import threading

import pytest

import data
import mover
import objects
import policy

MIB = 1 << 20
MOVE = ("--snapshot-move-data", "--data-mover", mover.NAME)
SNAPSHOT_ID = f"csi-delta/1/{'c' * 36}/{{}}/{'d' * 36}/{'e' * 64}/{'f' * 16}"
MOVED_BYTES = 12345


class PlayedMover(threading.Thread):
    """Completes every managed DataUpload and DataDownload that is new, as far as Velero sees."""

    def __init__(self, bed):
        super().__init__(daemon=True)
        self._bed = bed
        self._ended = threading.Event()
        self.seen = {}  # Objects by name, as they were new.
        self.volumes = []

    def run(self):
        while not self._ended.wait(0.1):
            for plural in ("datauploads", "datadownloads"):
                for obj in self._bed.api.list(plural, self._bed.namespace):
                    if obj["spec"].get("datamover") == mover.NAME and not obj.get("status", {}).get("phase"):
                        self._complete(plural, obj)

    def _complete(self, plural, obj):
        if plural == "datadownloads" and not self._bring_volume(obj):
            return
        self.seen[obj["metadata"]["name"]] = obj
        status = {"phase": "Completed", "startTimestamp": "2026-01-02T03:04:05Z",
                  "completionTimestamp": "2026-01-02T03:04:06Z",
                  "progress": {"totalBytes": MOVED_BYTES, "bytesDone": MOVED_BYTES}}
        if plural == "datauploads":
            status["snapshotID"] = SNAPSHOT_ID.format(obj["spec"]["sourceNamespace"])
        self._bed.api.patch(plural, obj["metadata"]["name"], {"status": status}, self._bed.namespace)

    def _bring_volume(self, download):
        """Makes a volume with the label that the claim asks for; False while there is no claim."""
        target = download["spec"]["targetVolume"]
        claim = self._bed.api.get("persistentvolumeclaims", target["pvc"], target["namespace"])
        if claim is None:
            return False
        name, spec = f"played-{download['metadata']['uid']}", claim["spec"]
        self._bed.api.create("persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": spec["selector"]["matchLabels"]},
            "spec": {"capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
                     "volumeMode": spec["volumeMode"], "storageClassName": spec["storageClassName"],
                     "persistentVolumeReclaimPolicy": "Retain",
                     "csi": {"driver": self._bed.driver.name, "volumeHandle": name}}})
        self.volumes.append(name)
        return True

    def end(self):
        self._ended.set()
        self.join()
        for name in self.volumes:
            self._bed.api.delete("persistentvolumes", name)


@contextlib.contextmanager
def played(bed):
    mover.define(bed)
    playing = PlayedMover(bed)
    playing.start()
    try:
        yield playing
    finally:
        playing.end()


def drop_snapshots(bed, app):
    """What a mover does with the volume snapshots that it was handed."""
    for snapshot in bed.api.list("volumesnapshots", app):
        bed.api.delete("volumesnapshots", snapshot["metadata"]["name"], app)
    bed.wait_snapshots_gone(app)


def back_up(bed, workspace, playing, *flags, stem="moved", storage_class_name=objects.CLASS_IMMEDIATE):
    """A claim with data, moved; returns the namespace, the backup's name, and its DataUpload."""
    app = workspace.namespace(bed, stem)
    bed.create_claim("data", app, MIB, storage_class_name=storage_class_name)
    data.fill(bed.volume_path("data", app), 1, MIB)
    name = workspace.backup(bed, "--include-namespaces", app, *flags, stem=stem)["metadata"]["name"]
    upload = mover.upload_of(bed, name)
    assert upload["metadata"]["name"] in playing.seen
    drop_snapshots(bed, app)
    bed.delete_namespace(app)
    return app, name, upload


def check_restore(bed, workspace, playing, app, backup, upload):
    """One DataDownload asks for what the DataUpload brought, and keeps the claim from being empty."""
    playing.seen.clear()
    bed.restore(workspace.name("r"), "--from-backup", backup)
    download, = playing.seen.values()
    assert download["spec"]["snapshotID"] == upload["status"]["snapshotID"]
    assert download["spec"]["targetVolume"]["pvc"] == "data" and download["spec"]["targetVolume"]["namespace"] == app
    claim = bed.wait_bound("data", app)
    assert claim["spec"]["volumeName"] in playing.volumes
    assert claim["spec"]["selector"]["matchLabels"]["velero.io/dynamic-pv-restore"].startswith(f"{app}.data")


def check_deletion(bed, backup, upload):
    """The backup goes, and what it brought is asked to be deleted."""
    bed.delete_backup(backup)
    deletion, = [d for d in bed.api.list("datadeletions", bed.namespace) if d["spec"]["backup"] == backup]
    assert deletion["spec"]["snapshotID"] == upload["status"]["snapshotID"]
    assert deletion["spec"]["backupStorageLocation"] == "default"
    bed.api.delete("datadeletions", deletion["metadata"]["name"], bed.namespace)


def check_road(bed, workspace, *flags):
    with played(bed) as playing:
        app, backup, upload = back_up(bed, workspace, playing, *flags)
        told = bed.velero("backup", "describe", backup, "--details").stdout
        assert "Data Mover: csi-delta" in told
        tells_sizes = bed.settings.velero != "1.13.1"
        assert (f"Moved data Size (bytes): {MOVED_BYTES}" in told) == tells_sizes
        check_restore(bed, workspace, playing, app, backup, upload)
        check_deletion(bed, backup, upload)


def test_velero_moves(beds, workspace):
    """1.18.1: Velero's own actions make both objects; ours find nothing to do but the deletion."""
    check_road(beds.get(), workspace, *MOVE)


@pytest.mark.parametrize("with_velero", [False, True])
def test_a_policy_moves(beds, workspace, with_velero):
    """1.18.1: a rule of type `custom` gives the volume to us, in a backup that moves data or does not."""
    bed = beds.get()
    rules = workspace.policy(bed, policy.rule("move"))
    check_road(bed, workspace, "--resource-policies-configmap", rules, *(MOVE if with_velero else ()))


def check_cancelled_upload(bed, workspace):
    """A DataUpload that no data mover works on is cancelled when its time is over."""
    mover.define(bed)
    app = workspace.namespace(bed, "slow")
    bed.create_claim("data", app, MIB)
    rules = workspace.policy(bed, policy.rule("move"))
    name = workspace.backup(bed, "--include-namespaces", app, "--resource-policies-configmap", rules,
                            "--item-operation-timeout", "1s", stem="slow", expect="PartiallyFailed")["metadata"]["name"]
    assert mover.upload_of(bed, name)["spec"]["cancel"] is True
    drop_snapshots(bed, app)


def check_cancelled_download(bed, workspace):
    """The same of a DataDownload; then the backup is deleted, and with it what its upload brought."""
    with played(bed) as playing:
        _, backup, upload = back_up(
            bed, workspace, playing, "--resource-policies-configmap", workspace.policy(bed, policy.rule("move")),
            storage_class_name=objects.CLASS_WAIT)  # Such a claim is not awaited for long.
    restore = workspace.name("slow")
    bed.restore(restore, "--from-backup", backup, "--item-operation-timeout", "1s", expect="PartiallyFailed")
    download, = bed.api.list("datadownloads", bed.namespace, labelSelector=f"velero.io/restore-name={restore}")
    assert download["spec"]["cancel"] is True
    check_deletion(bed, backup, upload)


@pytest.mark.parametrize("check", [check_cancelled_upload, check_cancelled_download])
def test_an_operation_that_takes_too_long_is_cancelled(beds, workspace, check):
    check(beds.get(), workspace)


def test_velero_113_moves(old_bed, workspace):
    """1.13.1 has no actions of its own: ours make both objects."""
    check_road(old_bed, workspace, *MOVE)
