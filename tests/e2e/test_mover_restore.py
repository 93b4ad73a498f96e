"""What a DataDownload waits for, where its worker runs, and what its claim may be like."""

import contextlib
import json

import pytest

import components
import data
import images
import mover
import objects
import people
from moving import (CHUNK_BYTES, CLAIMS, MIB, MOVE, MOVED_SECONDS_MAX, PHASE_SECONDS_MAX, await_nothing_left,
                    await_phase, back_up, download_of, held_in_progress, mode, restore_beside, restored_checksum, run_busybox,
                    write_chunks)

VOLUME_BYTES = 32 * MIB
DEVICE = "/dev/data"
pytestmark = pytest.mark.moves


@pytest.mark.journey
def test_a_claim_that_waits_for_its_consumer_is_filled_on_the_pods_node(bed, workspace):
    app, written = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED, storage_class_name=objects.CLASS_WAIT)
    backup = workspace.backup(bed, "--include-namespaces", app, "--include-resources", CLAIMS, *MOVE)["metadata"]["name"]
    bed.delete_namespace(app)

    restore = workspace.name("r")
    bed.velero("restore", "create", restore, "--from-backup", backup)
    bed.wait_for(lambda: "to be scheduled" in ((download_of(bed, restore) or {}).get("status") or {}).get(
        "message", ""), PHASE_SECONDS_MAX, lambda: f"it says what it waits for: {download_of(bed, restore)}")
    reader = objects.pod("reader", app, images.BUSYBOX, images.shell(f"sha256sum {DEVICE}"),
                         devices={"data": DEVICE})
    phase, told = bed.node.run_pod(reader)
    assert (phase, told.split()[:1]) == ("Succeeded", [written])
    bed.wait_phase("restores", restore, ("Completed",))
    download = download_of(bed, restore)
    assert download["status"]["phase"] == "Completed" and not download["status"].get("node")
    await_nothing_left(bed)
    claim = bed.api.get("persistentvolumeclaims", "data", app)
    volume = bed.api.get("persistentvolumes", claim["spec"]["volumeName"])
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


@contextlib.contextmanager
def config_map(bed, workspace, stem, content, labels=None):
    """A ConfigMap in Velero's namespace, which the body has by its name."""
    name = workspace.name(stem)
    bed.api.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "data": content,
                                  "metadata": {"name": name, "namespace": bed.namespace, "labels": labels or {}}})
    try:
        yield name
    finally:
        bed.api.delete("configmaps", name, bed.namespace)


@contextlib.contextmanager
def storage_class(bed, workspace, **fields):
    """A class like that of the bed but for these fields, by its name."""
    made = {**objects.storage_class(workspace.name("other"), bed.driver.name, "Immediate"), **fields}
    bed.api.create("storageclasses", made)
    try:
        yield made["metadata"]["name"]
    finally:
        bed.api.delete("storageclasses", made["metadata"]["name"])


def volume_of(bed, app):
    claim = bed.api.get("persistentvolumeclaims", "data", app)
    return bed.api.get("persistentvolumes", claim["spec"]["volumeName"])


@pytest.fixture
def backed_up(bed, workspace):
    """A namespace with a block volume, the backup that has it, and its checksum."""
    app, written = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    name, _ = back_up(bed, workspace, app, "backup")
    return app, name, written


def change(bed, app, volume_mode, seed):
    """Changes two chunks, or a file, of the volume `data`; returns what contents_of() finds then."""
    if volume_mode == "Filesystem":
        run_busybox(bed, f"writer-{seed}", app, "dd if=/dev/urandom of=/data/file bs=1M count=4 2>/dev/null; sync -f /data/file")
    else:
        write_chunks(bed, app, (0, 9), seed)
    return contents_of(bed, app, volume_mode, f"after-{seed}")


def contents_of(bed, app, volume_mode, stem):
    if volume_mode == "Filesystem":
        return run_busybox(bed, stem, app, "sha256sum /data/file")
    return data.checksum(bed.volume_path("data", app))


@pytest.mark.parametrize("volume_mode", ["Block", pytest.param("Filesystem", marks=pytest.mark.own_driver(
    "its file systems are folders, which no device can show"))])
def test_a_moved_volume_is_restored_into_the_existing_pvc(bed, workspace, volume_mode):
    """A restore that meets the PVC leaves it as it is, and its Event has the command that brings the data, typed here as it
    stands: in place, by a worker in the mover's namespace. PVC, uid and volume stay, only chunks that differ are written, and
    the next backup is incremental."""
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    bed.create_claim("data", app, VOLUME_BYTES, mode=volume_mode)
    if volume_mode == "Block":
        data.fill(bed.volume_path("data", app), 1, VOLUME_BYTES)
    only_volumes = ("--include-resources", CLAIMS, *MOVE)
    written = change(bed, app, volume_mode, 1)
    backup, upload = back_up(bed, workspace, app, "backup", *only_volumes)
    changed = change(bed, app, volume_mode, 7)
    assert changed != written
    before = bed.api.get("persistentvolumeclaims", "data", app)
    bed.restore(workspace.name("existing"), "--from-backup", backup)
    data.same(contents_of(bed, app, volume_mode, "untouched"), changed)
    event, = (one for one in bed.api.list("events", app) if one["reason"] == "DataNotRestored")
    program, *words = event["message"].rpartition(": ")[2].split()
    assert program == "csi-delta" and upload["metadata"]["name"] in words, event["message"]
    with mover.configured(bed, mover.INTO_EXISTING):
        told = bed.run([components.program_path(), *words, "--json"], timeout_seconds=MOVED_SECONDS_MAX)
    result = json.loads(told.stdout.splitlines()[-1])
    assert 0 < result["written_bytes"] < VOLUME_BYTES // 2, result
    if volume_mode == "Block":
        differing = 2 * CHUNK_BYTES  # These are compared as chunks, then block by block.
        assert VOLUME_BYTES <= result["compared_bytes"] <= VOLUME_BYTES + differing, result
        assert result["written_bytes"] <= differing, result
    data.same(contents_of(bed, app, volume_mode, "reader"), written)
    after = bed.api.get("persistentvolumeclaims", "data", app)
    assert (after["metadata"]["uid"], after["spec"]["volumeName"]) == (before["metadata"]["uid"], before["spec"]["volumeName"])
    marks = {"snapshot.csi-delta.io/copy-record", "mover.csi-delta.io/may-write"}
    assert not marks & set(after["metadata"].get("annotations", {}))
    spec = volume_of(bed, app)["spec"]
    assert (spec["persistentVolumeReclaimPolicy"], spec["volumeMode"]) == ("Delete", volume_mode)
    _, again = back_up(bed, workspace, app, "again", *only_volumes)
    assert mode(again) == "incremental", again["metadata"]["annotations"]
    await_nothing_left(bed)
    people.run(bed, app, "delete", result["safety_snapshot"], "--last-too", "--wait")


@pytest.mark.own_driver("its file systems are folders, which no device can show")
def test_a_file_system_goes_to_another_class(bed, workspace):
    """The options to mount it with are the new class's, its type is what the data is."""
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    bed.create_claim("data", app, VOLUME_BYTES, mode="Filesystem")
    run_busybox(bed, "writer", app, "echo kept > /data/file; sync -f /data/file")
    backup, _ = back_up(bed, workspace, app, "backup", "--include-resources", CLAIMS, *MOVE)
    with storage_class(bed, workspace, parameters={"csi.storage.k8s.io/fstype": "xfs"}, mountOptions=["noatime"]) as other, \
            config_map(bed, workspace, "classes", {objects.CLASS_IMMEDIATE: other},
                       {"velero.io/plugin-config": "", "velero.io/change-storage-class": "RestoreItemAction"}):
        target = restore_beside(bed, workspace, app, backup, "there")
    spec = volume_of(bed, target)["spec"]
    assert (spec["storageClassName"], spec["csi"]["fsType"], spec["mountOptions"], spec["volumeMode"]) == (
        other, "ext4", ["noatime"], "Filesystem")
    assert run_busybox(bed, "reader", target, "cat /data/file; grep ' /data ' /proc/mounts").startswith("kept\n")


def test_a_volume_that_an_administrator_made_comes_back_as_one_of_its_class(bed, workspace):
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    bed.create_claim("data", app, VOLUME_BYTES)
    volume = bed.release_volume("data", app)
    make_static(bed, app, volume, workspace.name("static"))
    written = data.fill(bed.driver.volume_path(volume["spec"]["csi"]["volumeHandle"]), 1, VOLUME_BYTES)
    backup, _ = back_up(bed, workspace, app, "backup")
    data.same(restored_checksum(bed, workspace, app, backup, "copy"), written)
    bed.delete_namespace(app)
    bed.restore(workspace.name("r"), "--from-backup", backup)
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)


def make_static(bed, app, volume, name):
    """An object for a volume that was not provisioned, and a claim that names it."""
    spec = {key: volume["spec"][key] for key in ("accessModes", "capacity", "storageClassName", "volumeMode")}
    bed.api.create("persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {**spec, "persistentVolumeReclaimPolicy": "Delete",
                 "csi": {"driver": bed.driver.name, "volumeHandle": volume["spec"]["csi"]["volumeHandle"]}}})
    bed.create_claim("data", app, VOLUME_BYTES, volume=name)


def test_ignore_delay_binding_fills_a_pvc_before_its_consumer(bed, workspace):
    app, written = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED, storage_class_name=objects.CLASS_WAIT)
    backup, _ = back_up(bed, workspace, app, "backup", "--include-resources", CLAIMS, *MOVE)
    with mover.configured(bed, {"restore": {"ignoreDelayBinding": True}}):
        data.same(restored_checksum(bed, workspace, app, backup, "early"), written)
    await_nothing_left(bed)


@pytest.mark.own_driver("needs injected faults")
def test_a_class_may_name_secrets_by_the_namespace_of_the_volume(bed, workspace, backed_up):
    app, _, _ = backed_up
    secret = f"of-{app}"
    bed.api.create("secrets", {"apiVersion": "v1", "kind": "Secret", "stringData": {"key": "k"},
                               "metadata": {"name": secret, "namespace": mover.NAMESPACE}})
    named = {"csi.storage.k8s.io/node-publish-secret-name": "of-${pvc.annotations['mover.csi-delta.io/claim-namespace']}",
             "csi.storage.k8s.io/node-publish-secret-namespace": mover.NAMESPACE}
    with storage_class(bed, workspace, parameters=named) as other, mover.configured(
            bed, {"storageClasses": {objects.CLASS_IMMEDIATE: {"intermediateClass": other}}}), held_in_progress(
            bed, workspace, app) as (backup, upload):
        volume = next(v for v in bed.api.list("persistentvolumes") if v["spec"]["storageClassName"] == other)
        assert volume["spec"]["csi"]["nodePublishSecretRef"] == {"name": secret, "namespace": mover.NAMESPACE}
    await_phase(bed, upload, "Completed")
    bed.wait_phase("backups", backup, ("Completed",), 60)
    await_nothing_left(bed)
    bed.api.delete("secrets", secret, mover.NAMESPACE)
