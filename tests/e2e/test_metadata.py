"""Upstream's metadata sidecar over the bed's driver: what it lists is what `cmp` finds in the volumes' files."""

import pytest

import data
import metadata
import rights

MIB = 1 << 20
BLOCK_BYTES = 4096  # Of both drivers.
VOLUME_BYTES = 64 * MIB
WRITES = 5000
pytestmark = pytest.mark.bed


def write_all_over(path, seed):
    """Writes WRITES single bytes, and zeros over the third MiB."""
    data.scatter(path, seed, WRITES, VOLUME_BYTES)
    with open(path, "r+b") as volume:
        volume.seek(2 * MIB)
        volume.write(bytes(MIB))


def differing_blocks(path, other):
    """The blocks in which two files have different bytes, as extents."""
    return [(block * BLOCK_BYTES, BLOCK_BYTES)
            for block in data.differing_blocks(path, other, VOLUME_BYTES, BLOCK_BYTES)]


@pytest.fixture(scope="module")
def volume(beds, shared_workspace):
    bed = beds.get()
    metadata.serve(bed)
    return shared_workspace.volume_with_snapshots(bed, VOLUME_BYTES, write_all_over)


@pytest.fixture
def listed_bed(bed, volume):
    """The bed of `volume`, with its sidecar and without faults."""
    metadata.serve(bed)
    return bed


def test_lists_are_what_cmp_says(listed_bed, volume):
    bed, app = listed_bed, volume.namespace
    target = bed.driver.snapshot_path(volume.two)
    changed = differing_blocks(target, bed.driver.snapshot_path(volume.one))
    allocated = differing_blocks(target, "/dev/zero")
    assert 0 < len(changed) < len(allocated)

    for flags, extents_max in (((), 256), (("-max-results", "1000"), 1000)):
        for base, blocks in ((volume.one, changed), (None, allocated)):
            messages = metadata.list_blocks(bed, "two", app, *flags, base=base)
            assert metadata.extents(messages) == blocks
            assert all(message["volume_capacity_bytes"] == VOLUME_BYTES for message in messages)
            assert max(len(message["block_metadata"]) for message in messages) == extents_max

    middle = changed[len(changed) // 2][0]
    rest = metadata.list_blocks(bed, "two", app, "-starting-offset", str(middle), base=volume.one)
    assert metadata.extents(rest) == changed[len(changed) // 2:]
    assert metadata.extents(metadata.list_blocks(bed, "two", app, base=volume.two)) == []


def test_the_sidecar_has_no_right_too_many_or_too_few(listed_bed, volume):
    bed, app = listed_bed, volume.namespace
    position = bed.audit_position()
    bed.import_snapshot("imported", app, volume.one)
    try:
        metadata.list_blocks(bed, "two", app)
        # It names no class, and the driver has no default one.
        with pytest.raises(metadata.ListingFailed, match="Unavailable.*VolumeSnapshotClass"):
            metadata.list_blocks(bed, "imported", app)
    finally:  # A content that is retained outlives its namespace.
        bed.api.delete("volumesnapshotcontents", f"imported-{app}")

    requests = rights.requests_of(bed.audit_events(user=metadata.SIDECAR, since=position))
    assert [request for request in requests if request.code >= 400] == []
    assert {request.right for request in requests} == rights.of_rules(metadata.SIDECAR_RULES)


@pytest.mark.own_driver("it cannot break a stream")
def test_errors_of_the_driver_reach_the_client(listed_bed, volume):
    bed, app, base = listed_bed, volume.namespace, volume.one
    whole = metadata.extents(metadata.list_blocks(bed, "two", app, base=base))
    for code, said in (("FAILED_PRECONDITION", "FailedPrecondition"), ("OUT_OF_RANGE", "OutOfRange")):
        with bed.driver.faults({"method": "GetMetadataDelta", "after_messages": 3, "code": code}):
            with pytest.raises(metadata.ListingFailed, match=said):
                metadata.list_blocks(bed, "two", app, base=base)
    with bed.driver.faults({"method": "GetMetadataDelta", "lie": "omit", "extent": 7}):
        lied = metadata.extents(metadata.list_blocks(bed, "two", app, base=base))
    assert lied == whole[:7] + whole[8:]
    with bed.driver.faults({"method": "GetMetadataDelta", "lie": "huge_message"}):
        with pytest.raises(metadata.ListingFailed, match="ResourceExhausted"):
            metadata.list_blocks(bed, "two", app, base=base)
