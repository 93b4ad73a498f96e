"""Increments of a block volume: the cluster says what changed, csi-delta reads that and no more, restic agrees."""

import pytest

import data
import differential
import metadata
from engine import CHUNK_BYTES, VOLUME_BYTES, Engine

WRITTEN_CHUNKS = (0, 17, 18, 90, 127)


PAGES_ALONE = "differential-snapshot of a driver with GetDifferentialSnapshot alone"
NEEDS_PAGES = pytest.mark.own_driver("it does not know GetDifferentialSnapshot")


@pytest.fixture
def engine(request, bed, tmp_path):
    """Asks the cluster in one way, while the others are not there."""
    if request.param == "csi-metadata":
        metadata.serve(bed)
        kubeconfig = metadata.kubeconfig(bed, metadata.CLIENT)
    else:
        bed.api.delete("snapshotmetadataservices", bed.driver.name)
        if request.param == PAGES_ALONE:
            for beside_the_driver in (metadata.SIDECAR, differential.FIRST):
                bed.stop(beside_the_driver)
            bed.configure_driver("--differential-snapshot", "--no-snapshot-metadata", "--cursors", "opaque")
        differential.serve(bed)
        kubeconfig = differential.kubeconfig(bed)
    engine = Engine(bed, tmp_path / "repository", kubeconfig)
    engine.source = request.param.split()[0]
    yield engine
    if request.param == PAGES_ALONE:
        bed.stop(differential.FIRST)
        bed.configure_driver()
    if request.param != "csi-metadata" and bed.api.get("namespaces", metadata.NAMESPACE):
        bed.api.create("snapshotmetadataservices", metadata.service_object(bed))


@pytest.mark.parametrize("engine", [
    pytest.param("csi-metadata", marks=pytest.mark.journey), "differential-snapshot",
    pytest.param(PAGES_ALONE, id="pages-alone", marks=[NEEDS_PAGES, pytest.mark.journey])], indirect=True)
def test_an_increment_reads_what_the_cluster_says_changed(engine, workspace, tmp_path):
    bed = engine.bed
    app, _ = workspace.volume(bed, VOLUME_BYTES, written_bytes=VOLUME_BYTES // 2)
    volume = bed.volume_path("data", app)
    bed.create_snapshot("one", app, "data")
    full, first_digest = engine.backup("one", app)
    assert (full["mode_done"], full["reason"], full["source"]) == ("full", "no-parent", engine.source)
    assert full["read_bytes"] <= 1.1 * VOLUME_BYTES // 2

    for chunk in WRITTEN_CHUNKS:
        data.fill(volume, 2 + chunk, 1000, chunk * CHUNK_BYTES + 5000)
    bed.create_snapshot("two", app, "data")
    increment, second_digest = engine.backup("two", app)
    assert (increment["mode_done"], increment["source"]) == ("incremental", engine.source)
    assert increment["base"] == full["snapshot_id"]
    assert increment["read_bytes"] <= 1.1 * len(WRITTEN_CHUNKS) * CHUNK_BYTES
    assert increment["audit_bytes"] > 0

    for result, digest in ((full, first_digest), (increment, second_digest)):
        data.same(engine.restored_digest(result, tmp_path / "restored"), digest)
    engine.restic("check", "--read-data")
    assert bed.api.list("differentialsnapshots", app) == []


@pytest.mark.parametrize("engine", ["csi-metadata", "differential-snapshot",
                                    pytest.param(PAGES_ALONE, id="pages-alone", marks=NEEDS_PAGES)], indirect=True)
def test_a_base_that_is_gone_costs_the_reading_of_what_is_allocated(engine, workspace):
    bed = engine.bed
    app, _ = workspace.volume(bed, VOLUME_BYTES, written_bytes=VOLUME_BYTES // 2)
    handle = bed.create_snapshot("one", app, "data")
    full, _ = engine.backup("one", app)
    bed.create_snapshot("two", app, "data")
    bed.api.delete("volumesnapshots", "one", app)
    bed.wait_for(lambda: handle not in bed.driver.snapshots(), 60, "the driver's snapshot gone")
    again, _ = engine.backup("two", app)
    assert (again["mode_done"], again["reason"], again["source"]) == ("full", "base-snapshot-gone", engine.source)
    assert again["base"] == full["snapshot_id"]
    assert again["read_bytes"] <= 1.1 * VOLUME_BYTES // 2
    assert again["data_blobs"] == 1
    engine.restic("check", "--read-data")
