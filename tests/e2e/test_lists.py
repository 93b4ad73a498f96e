"""What a driver may do to its lists, and what a volume may suffer, and that the backup is good all the same."""

import pytest

import data
import metadata
from engine import CHUNK_BYTES, VOLUME_BYTES, Engine


@pytest.fixture
def engine(bed, tmp_path):
    metadata.serve(bed)
    yield Engine(bed, tmp_path / "repository")
    bed.configure_driver()


@pytest.fixture
def app(engine, workspace):
    """The namespace of the claim "data", half of which is written, and of its snapshot "one", which is backed up."""
    bed = engine.bed
    namespace, _ = workspace.volume(bed, VOLUME_BYTES, written_bytes=VOLUME_BYTES // 2)
    bed.create_snapshot("one", namespace, "data")
    engine.backup("one", namespace)
    return namespace


@pytest.mark.journey
@pytest.mark.own_driver("it does not lie on command")
def test_blocks_that_a_driver_leaves_out_are_found_and_backed_up(engine, app, tmp_path):
    bed = engine.bed
    chunks = VOLUME_BYTES // CHUNK_BYTES
    for chunk in range(chunks):
        data.fill(bed.volume_path("data", app), 2 + chunk, 1000, chunk * CHUNK_BYTES + 5000)
    bed.create_snapshot("two", app, "data")
    # Of so many the audit's sample of 16 chunks meets one.
    with bed.driver.faults({"method": "GetMetadataDelta", "lie": "omit", "extent": 1, "extents": chunks - 2}):
        result, digest = engine.backup("two", app, exit_code=20)
    assert (result["mode_done"], result["reason"]) == ("full", "audit-mismatch")
    data.same(engine.restored_digest(result, tmp_path / "restored"), digest)
