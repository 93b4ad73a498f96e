"""Increments of a block volume: the cluster says what changed, csi-delta reads that and no more, restic agrees."""

import json
import os
import pathlib

import pytest

import data
import metadata
import objects

MIB = 1 << 20
CHUNK_BYTES = 512 << 10
VOLUME_BYTES = 64 * MIB
PROGRAM = pathlib.Path(os.environ.get("CSI_DELTA_PROGRAM")
                       or pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/csi-delta")
WRITTEN_CHUNKS = (0, 17, 18, 90, 127)


class Engine:
    """csi-delta with a repository in a folder, run inside a bed."""

    def __init__(self, bed, folder):
        self.bed = bed
        self.variables = [f"RESTIC_REPOSITORY={folder}", "RESTIC_PASSWORD=secret", f"RESTIC_CACHE_DIR={folder}-cache"]
        self.run("init")

    def _execute(self, *command):
        return self.bed.run(["/usr/bin/env", *self.variables, *command]).stdout

    def run(self, *arguments):
        """The result that csi-delta prints last."""
        return json.loads(self._execute(PROGRAM, *arguments, "--json").splitlines()[-1])

    def restic(self, *arguments):
        return self._execute("/usr/bin/restic", *arguments)

    def backup(self, snapshot, namespace):
        """Backs up a claim that is made of a VolumeSnapshot, as a person does it; the result, and the bytes' digest."""
        claim = objects.claim(f"of-{snapshot}", namespace, VOLUME_BYTES)
        claim["spec"]["dataSource"] = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot",
                                       "name": snapshot}
        self.bed.api.create("persistentvolumeclaims", claim)
        self.bed.wait_bound(claim["metadata"]["name"], namespace)
        device = self.bed.volume_path(claim["metadata"]["name"], namespace)
        result = self.run("backup", "--volume-snapshot", f"{namespace}/{snapshot}", "--path", f"/{namespace}/data",
                          "--kubeconfig", metadata.kubeconfig(self.bed, metadata.CLIENT), device)
        return result, data.checksum(device, VOLUME_BYTES)


@pytest.fixture
def engine(beds, tmp_path):
    bed = beds.get()
    metadata.serve(bed)
    return Engine(bed, tmp_path / "repository")


def test_an_increment_reads_what_the_cluster_says_changed(engine, workspace, tmp_path):
    bed, app = engine.bed, workspace.namespace(engine.bed)
    bed.create_claim("data", app, VOLUME_BYTES)
    volume = bed.volume_path("data", app)
    data.fill(volume, 1, VOLUME_BYTES // 2)
    bed.create_snapshot("one", app, "data")
    full, first_digest = engine.backup("one", app)
    assert (full["mode_done"], full["reason"], full["source"]) == ("full", "no-parent", "csi-metadata")
    assert full["read_bytes"] <= 1.1 * VOLUME_BYTES // 2

    for chunk in WRITTEN_CHUNKS:
        data.fill(volume, 2 + chunk, 1000, chunk * CHUNK_BYTES + 5000)
    bed.create_snapshot("two", app, "data")
    increment, second_digest = engine.backup("two", app)
    assert (increment["mode_done"], increment["source"]) == ("incremental", "csi-metadata")
    assert increment["base"] == full["snapshot_id"]
    assert increment["read_bytes"] <= 1.1 * len(WRITTEN_CHUNKS) * CHUNK_BYTES
    assert increment["audit_bytes"] > 0

    restored = tmp_path / "restored"
    for result, digest in ((full, first_digest), (increment, second_digest)):
        engine.run("restore", result["snapshot_id"], "--target", str(restored))
        assert data.checksum(restored) == digest
    engine.restic("check", "--read-data")


def test_a_base_that_is_gone_costs_the_reading_of_what_is_allocated(engine, workspace):
    bed, app = engine.bed, workspace.namespace(engine.bed)
    bed.create_claim("data", app, VOLUME_BYTES)
    data.fill(bed.volume_path("data", app), 1, VOLUME_BYTES // 2)
    handle = bed.create_snapshot("one", app, "data")
    full, _ = engine.backup("one", app)
    bed.create_snapshot("two", app, "data")
    bed.driver.remove_snapshot(handle)
    again, _ = engine.backup("two", app)
    assert (again["mode_done"], again["reason"], again["source"]) == ("full", "base-snapshot-gone", "csi-metadata")
    assert again["base"] == full["snapshot_id"]
    assert again["read_bytes"] <= 1.1 * VOLUME_BYTES // 2
    assert again["data_blobs"] == 1
    engine.restic("check", "--read-data")
