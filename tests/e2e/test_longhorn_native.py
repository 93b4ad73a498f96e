"""Native snapshots of Longhorn, from the volume policy to the restored bytes.

The stand-in takes them, keeps the bytes of the driver's volumes, and the driver fills volumes from its handles.
"""

import contextlib
import json

import pytest

import data
import longhorn

MIB = 1 << 20

pytestmark = pytest.mark.cluster(driver_name="driver.longhorn.io")


@contextlib.contextmanager
def running(bed):
    """Longhorn's stand-in, beside a driver that lists no snapshots, as Longhorn's does not."""
    bed.configure_driver("--no-list-snapshots")
    with longhorn.running(bed, "--driver-state", str(bed.driver.state_dir)):
        longhorn.grant(bed)
        with longhorn.volumes_of_pvs(bed):
            yield


def native_snapshots(bed):
    shown = bed.kubectl("get", "lhsnap", "-n", longhorn.NAMESPACE, "-l", "longhorn.csi-delta.io/made-by", "-o", "json")
    return json.loads(shown.stdout)["items"]


def contents(bed):
    return [content for content in bed.api.list("volumesnapshotcontents")
            if content["spec"]["source"].get("snapshotHandle", "").startswith("snap://")]


def back_up(bed, workspace, app, **kwargs):
    return workspace.backup(bed, *workspace.by_policy(bed, app, "longhorn"), **kwargs)


def create_orders(bed, app):
    """A PVC whose volume Longhorn has, attached; what is in it, and the volume's name."""
    bed.create_claim("orders", app, 16 * MIB)
    written = data.fill(bed.volume_path("orders", app), 1, 16 * MIB)
    volume = bed.volume_handle("orders", app)
    longhorn.create_volume(bed, volume, attached=True)
    return written, volume


@pytest.mark.journey
def test_a_native_snapshot_from_backup_to_restore_and_deletion(bed, workspace):
    app = workspace.namespace(bed)
    with running(bed):
        written, volume = create_orders(bed, app)
        name = back_up(bed, workspace, app)["metadata"]["name"]
        snapshot, = native_snapshots(bed)
        assert snapshot["spec"]["volume"] == volume
        assert snapshot["status"]["readyToUse"]
        assert not bed.driver.snapshots()
        data.fill(bed.volume_path("orders", app), 2, 16 * MIB)

        elsewhere, restore = workspace.copy(bed, name, app)
        assert restore["status"].get("errors", 0) == 0
        bed.wait_bound("orders", elsewhere)
        data.expect(bed.volume_path("orders", elsewhere), written)
        assert [one["metadata"]["uid"] for one in native_snapshots(bed)] == [snapshot["metadata"]["uid"]]
        bed.wait_for(lambda: not bed.api.list("volumesnapshots", elsewhere) and not contents(bed), 60,
                     "what the PVC was filled from to go")

        bed.delete_backup(name)
        # The newest of a volume stays, marked as removed, until there is a newer one.
        assert all("deletionTimestamp" in one["metadata"] for one in native_snapshots(bed))
        longhorn.take(bed, volume, "newer")
        bed.kubectl("wait", "lhsnap", snapshot["metadata"]["name"], "-n", longhorn.NAMESPACE, "--for=delete", "--timeout=60s")
        bed.delete_namespace(elsewhere)


@pytest.mark.journey
def test_without_its_volume_a_native_snapshot_is_an_error_and_no_empty_volume(bed, workspace):
    app = workspace.namespace(bed)
    with running(bed):
        _, volume = create_orders(bed, app)
        name = back_up(bed, workspace, app)["metadata"]["name"]
        bed.delete_namespace(app)
        bed.kubectl("delete", "volumes.longhorn.io", volume, "-n", longhorn.NAMESPACE, "--timeout=60s")
        restore = bed.restore(workspace.name("restore"), "--from-backup", name, expect="PartiallyFailed")
        assert restore["status"]["errors"] == 1
        log = bed.velero("restore", "describe", restore["metadata"]["name"], "--details").stdout
        assert volume in log and "moved the data" in log, log
        assert not bed.api.list("persistentvolumeclaims", app)


@pytest.mark.journey
def test_a_retained_volume_comes_back_from_its_native_snapshot_or_not_at_all(bed, workspace):
    """With its PersistentVolume there, and where Velero makes that again, for the PVC: never as the volume is now."""
    app = workspace.namespace(bed)
    with running(bed):
        written, volume = create_orders(bed, app)
        pv = bed.retain("orders", app)
        name = back_up(bed, workspace, app)["metadata"]["name"]
        now = data.fill(bed.driver.volume_path(volume), 2, 16 * MIB)
        bed.delete_claim("orders", app, with_volume=False)

        restore = bed.restore(workspace.name("there"), "--from-backup", name)
        assert restore["status"].get("errors", 0) == 0
        assert bed.wait_bound("orders", app)["spec"]["volumeName"] != pv["metadata"]["name"]
        data.expect(bed.volume_path("orders", app), written)

        bed.delete_claim("orders", app)
        bed.delete_pv(pv["metadata"]["name"])
        restore = bed.restore(workspace.name("gone"), "--from-backup", name, expect="PartiallyFailed")
        assert restore["status"]["errors"] == 1
        told = bed.velero("restore", "describe", restore["metadata"]["name"], "--details").stdout
        assert f"PersistentVolume {pv['metadata']['name']} is reserved for it" in " ".join(told.split()), told
        assert not bed.api.list("persistentvolumeclaims", app)

        bed.delete_pv(pv["metadata"]["name"])
        bed.restore(workspace.name("without"), "--from-backup", name, "--exclude-resources", "persistentvolumes")
        bed.wait_bound("orders", app)
        data.expect(bed.volume_path("orders", app), written)
        data.expect(bed.driver.volume_path(volume), now)
        bed.delete_volume_of(pv)
