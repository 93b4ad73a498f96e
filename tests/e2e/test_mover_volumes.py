"""Volumes that are large, old, or of a driver that only pages tell of, moved by the data mover on a node."""

import contextlib
import json

import pytest

import chance
import data
import differential
import metadata
import mover
from moving import (CHUNK_BYTES, CLAIMS, GIB, MIB, MOVE, SWEEPS, await_base, back_up, check_increment, check_repository, exported_keys, figure, mode,
                    reason, repository_of, restic, restored_checksum, restored_from_bucket, share_manager, stored_bytes, undone,
                    write_chunks)

VOLUME_BYTES = 32 * MIB
BLOCK_BYTES = 4096  # Of the driver; `write_chunks` writes into the second one of a chunk.
GROWN_BYTES = 48 * MIB
GENERATIONS = 10 if SWEEPS else 4
GENERATIONS_READ_WHOLE = 10 if SWEEPS else 3
MOVED_SECONDS_MAX = 1180 if SWEEPS else 340

ACCESS_MODES = ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany")

pytestmark = pytest.mark.moves


def stop_metadata(bed):
    bed.api.delete("snapshotmetadataservices", bed.driver.name)
    for beside_the_driver in (metadata.SIDECAR, differential.FIRST):
        bed.stop(beside_the_driver)


def start_metadata(bed):
    bed.stop(differential.FIRST)
    bed.configure_driver()
    bed.api.create("snapshotmetadataservices", metadata.service_object(bed))


@pytest.fixture
def pages_alone(bed):
    """The bed, while its driver has GetDifferentialSnapshot and no service of snapshot metadata."""
    stop_metadata(bed)
    bed.configure_driver("--differential-snapshot", "--no-snapshot-metadata", "--cursors", "opaque")
    differential.serve(bed)
    yield bed
    start_metadata(bed)


@pytest.fixture
def without_change_lists(bed):
    """The bed, while no service lists what changed on a volume of its driver."""
    stop_metadata(bed)
    bed.configure_driver("--no-snapshot-metadata")
    yield bed
    start_metadata(bed)


@pytest.mark.own_driver("it does not know GetDifferentialSnapshot")
def test_a_driver_with_pages_alone_is_asked_by_a_differential_snapshot(pages_alone, workspace):
    bed = pages_alone
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED, written_bytes=VOLUME_BYTES // 2)
    _, moved = back_up(bed, workspace, app, "full")
    assert figure(moved, "read-bytes") <= 1.1 * VOLUME_BYTES // 2
    chunks = (0, 17, 18, 40)
    write_chunks(bed, app, chunks, 2)
    written = data.checksum(bed.volume_path("data", app))
    second, moved = back_up(bed, workspace, app, "second")
    check_increment(moved, len(chunks))
    assert bed.api.list("differentialsnapshots", mover.NAMESPACE) == []
    data.same(restored_checksum(bed, workspace, app, second, "copy"), written)
    check_repository(bed, moved)


@pytest.mark.own_driver("it does not know GetDifferentialSnapshot")
def test_the_sidecar_of_a_drivers_pod_serves_pages(pages_alone, workspace):
    """As the patch of deploy/ makes it. The NetworkPolicy is only created: the bed's network enforces none."""
    bed = pages_alone
    bed.stop(differential.FIRST)
    app = workspace.namespace(bed)
    bed.create_claim("data", app, VOLUME_BYTES)
    bed.create_snapshot("one", app, "data")
    chunks = (0, 17, 18, 40)
    write_chunks(bed, app, chunks, 1)
    bed.create_snapshot("two", app, "data")
    with differential.sidecar(bed) as address:
        pair = differential.ask(bed, "pair", app, baseVolumeSnapshotName="one", targetVolumeSnapshotName="two")
        assert pair["status"]["state"] == "Success", pair["status"]
        assert differential.blocks([differential.by_curl(bed, pair, address=address)]) == differential.merged(
            (chunk * CHUNK_BYTES + BLOCK_BYTES, BLOCK_BYTES) for chunk in chunks)


@pytest.mark.journey
@pytest.mark.own_driver("it allocates all of a volume")
def test_a_large_volume_that_did_not_change_costs_next_to_nothing(bed, workspace):
    app, _ = workspace.volume(bed, 100 * GIB, labels=mover.RESTRICTED, written_bytes=4 * MIB)
    back_up(bed, workspace, app, "full")
    _, moved = back_up(bed, workspace, app, "same")
    assert mode(moved) == "incremental"
    assert figure(moved, "read-bytes") == 0
    assert figure(moved, "stored-bytes") <= MIB


def await_told_of_drop(bed, app):
    """Waits until the controller has said on the PVC of a namespace that it dropped a base; returns what it said."""
    message, = bed.wait_for(lambda: [event["message"] for event in bed.api.list("events", app) if event["reason"] == "BaseDropped"
                                     and event["reportingComponent"] == "csi-delta-datamover"], MOVED_SECONDS_MAX, "an Event")
    return message


@pytest.mark.own_driver("it keeps as many snapshots as one likes")
def test_a_base_makes_room_for_the_snapshot_that_velero_takes(bed, workspace, moving_app):
    back_up(bed, workspace, moving_app, "first")
    base = await_base(bed, moving_app)["metadata"]["name"]
    bed.configure_driver("--snapshots-max", "1")
    _, moved = back_up(bed, workspace, moving_app, "second")
    assert (mode(moved), reason(moved)) == ("full", "base-snapshot-gone"), moved["metadata"]["annotations"]
    told = await_told_of_drop(bed, moving_app)
    assert base in told and "has no room for the next snapshot" in told
    assert await_base(bed, moving_app)["metadata"]["name"] != base


@pytest.mark.own_driver("it grows a volume with snapshots")
def test_a_base_goes_where_it_keeps_its_volume_from_growing(bed, workspace, moving_app):
    bed.configure_driver("--no-growth-with-snapshots")
    back_up(bed, workspace, moving_app, "first")
    base = await_base(bed, moving_app)["metadata"]["name"]
    refused = bed.driver.calls("ControllerExpandVolume")["failed"]
    with mover.stopped(bed):  # It looks at each base when it starts, and every ten minutes.
        bed.ask_to_grow("data", moving_app, GROWN_BYTES)
        bed.driver.await_calls("ControllerExpandVolume", failed=refused + 1)
    bed.wait_for(lambda: bed.api.get("persistentvolumeclaims", "data", moving_app)["status"]["capacity"] == {"storage": "48Mi"},
                 MOVED_SECONDS_MAX, "a PVC that grew")
    told = await_told_of_drop(bed, moving_app)
    assert base in told and "waits to grow" in told
    _, moved = back_up(bed, workspace, moving_app, "second")
    assert mode(moved) == "full" and moved["status"]["progress"]["totalBytes"] == GROWN_BYTES, moved["metadata"]["annotations"]


@pytest.mark.parametrize("mode_of_volumes", ["Block", "Filesystem"])
@pytest.mark.own_driver("its file systems are folders, which no device can show")
def test_each_access_mode_comes_back(bed, workspace, mode_of_volumes):
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    with share_manager(bed) if mode_of_volumes == "Filesystem" else contextlib.nullcontext():
        written = {}
        for access_mode in ACCESS_MODES:
            name = access_mode.lower()
            bed.create_claim(name, app, VOLUME_BYTES // 2, mode=mode_of_volumes, access_mode=access_mode)
            data.fill(bed.volume_path(name, app), len(written), MIB)
            written[name] = access_mode, data.checksum(bed.volume_path(name, app))
        backup = workspace.backup(bed, "--include-namespaces", app, *MOVE, stem="modes", timeout_seconds=MOVED_SECONDS_MAX)
        target, _ = workspace.copy(bed, backup["metadata"]["name"], app, "--include-resources", CLAIMS, stem="modes",
                                   timeout_seconds=MOVED_SECONDS_MAX)
        for name, (access_mode, checksum) in written.items():
            bed.wait_bound(name, target)
            claim = bed.api.get("persistentvolumeclaims", name, target)
            volume = bed.api.get("persistentvolumes", claim["spec"]["volumeName"])
            assert (volume["spec"]["accessModes"], volume["spec"]["volumeMode"]) == ([access_mode], mode_of_volumes)
            data.same(data.checksum(bed.volume_path(name, target)), checksum, name)


def change_at_random(bed, app, drawing, volume_bytes):
    """Writes to a few chunks, and returns how many, with the checksum of it all."""
    chunks = sorted(drawing.sample(range(volume_bytes // CHUNK_BYTES), drawing.randrange(1, 9)))
    write_chunks(bed, app, chunks, drawing.randrange(1 << 30))
    return len(chunks), data.checksum(bed.volume_path("data", app))


def delete_at_random(bed, generations, drawing, a_moved):
    """Deletes backups, of which only the data of others may stay; what those alone had leaves the bucket.

    It is half of them. In a sweep it is all, one by one, and after each the rest comes back from the bucket.
    """
    names = list(generations)
    drawing.shuffle(names)
    repository, ring = repository_of(bed, a_moved), exported_keys(bed, bed.scratch / "generations.keys")
    before = stored_bytes(repository)
    for name in names if SWEEPS else names[:len(names) // 2]:
        bed.delete_backup(name)
        bed.wait_for(lambda: not undone(bed), MOVED_SECONDS_MAX, lambda: f"the data of the deleted gone: {undone(bed)}")
        del generations[name]
        for other, written in generations.items() if SWEEPS else ():
            made, image = mover.upload_of(bed, other), bed.state / f"{other}.img"
            data.same(restored_from_bucket(bed, made, ring, image), written, f"{other} after the end of {name}")
            image.unlink()
    after = stored_bytes(repository)
    print(f"seed {chance.SEED}: deleted in the order {names}: {before} bytes stored before, {after} after")
    assert len(json.loads(restic(bed, repository, "snapshots", "--json")) or ()) == len(generations)
    assert after <= (MIB if SWEEPS else before - 1)


def check_all(bed, workspace, app, generations, stem):
    for number, (name, written) in enumerate(generations.items()):
        data.same(restored_checksum(bed, workspace, app, name, f"{stem}{number}"), written)


def check_and_delete(bed, workspace, app, generations, drawing, a_moved):
    if SWEEPS:
        check_all(bed, workspace, app, generations, "all")
    delete_at_random(bed, generations, drawing, a_moved)
    check_all(bed, workspace, app, generations, "rest")
    check_repository(bed, a_moved)


@pytest.mark.sweep
@pytest.mark.own_driver("a volume that it grew cannot be read when it is made of a snapshot")
def test_each_generation_comes_back_and_outlives_the_others(bed, workspace):
    """The volume grows on its way, after which a list of changes is not believed once."""
    drawing = chance.draw("generations")
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED, written_bytes=VOLUME_BYTES // 2)
    generations, grows_at = {}, GENERATIONS // 2
    for generation in range(GENERATIONS):
        if generation == grows_at:
            bed.grow_claim("data", app, GROWN_BYTES)
        size_bytes = GROWN_BYTES if generation >= grows_at else VOLUME_BYTES
        chunks, written = change_at_random(bed, app, drawing, size_bytes)
        name, moved = back_up(bed, workspace, app, f"g{generation}")
        generations[name] = written
        if generation in (0, grows_at):
            assert (mode(moved), reason(moved)) == ("full", "volume-resized" if generation else "no-parent")
        else:
            check_increment(moved, chunks)
        assert moved["status"]["progress"]["totalBytes"] == size_bytes
    check_and_delete(bed, workspace, app, generations, drawing, moved)


@pytest.mark.sweep
@pytest.mark.own_driver("it can always list")
def test_generations_of_a_driver_that_knows_nothing_are_read_whole(without_change_lists, workspace):
    bed, drawing = without_change_lists, chance.draw("generations read whole")
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED, written_bytes=VOLUME_BYTES // 2)
    generations = {}
    for generation in range(GENERATIONS_READ_WHOLE):
        chunks, written = change_at_random(bed, app, drawing, VOLUME_BYTES)
        name, moved = back_up(bed, workspace, app, f"g{generation}")
        generations[name] = written
        assert (mode(moved), reason(moved)) == (
            "full", "driver-has-no-metadata-service" if generation else "no-parent")
        assert figure(moved, "read-bytes") == VOLUME_BYTES
        if generation:
            assert figure(moved, "stored-bytes") <= 1.1 * chunks * CHUNK_BYTES + MIB
    check_and_delete(bed, workspace, app, generations, drawing, moved)
