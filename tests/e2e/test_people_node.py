"""Snapshots for people, on a node: what differs is copied into a PVC in place."""

import json
import os

import pytest

import data
import images
import mover
import people

MIB = 1 << 20
BLOCK_BYTES = 4096
VOLUME_BYTES = 16 * MIB
PLACES = (0, 5 * MIB, 11 * MIB + 8 * BLOCK_BYTES)

pytestmark = pytest.mark.moves


def scribble(path):
    """Changes three blocks, the volume's first among them."""
    with open(path, "r+b", buffering=0) as volume:
        for offset in PLACES:
            os.pwrite(volume.fileno(), os.urandom(BLOCK_BYTES), offset)
        os.fsync(volume.fileno())


def test_only_what_differs_is_copied_into_a_pvc(node_bed, workspace):
    bed = node_bed
    app = workspace.namespace(bed)
    bed.kubectl("label", "namespace", app, *(f"{key}={value}" for key, value in mover.RESTRICTED.items()))
    bed.create_claim("data", app, VOLUME_BYTES)
    path = bed.volume_path("data", app)
    written = data.fill(path, 1, VOLUME_BYTES)
    people.run(bed, app, "create", "data", "--name", "monday", "--wait", "ready")
    scribble(path)
    changed = data.checksum(path)
    before = bed.api.get("persistentvolumeclaims", "data", app)
    mover.import_image(bed)
    copy = ("--into", "data", "--method", "copy", "--image", images.PRODUCT, "--yes", "-o", "json")

    lines = people.run(bed, app, "restore", "monday", *copy).stdout.splitlines()
    result = json.loads(lines[-1])
    assert result["written_bytes"] == len(PLACES) * BLOCK_BYTES, result
    assert result["compared_bytes"] == VOLUME_BYTES, result
    data.expect(path, written)
    after = bed.api.get("persistentvolumeclaims", "data", app)
    assert (after["metadata"]["uid"], after["spec"]["volumeName"]) == (before["metadata"]["uid"], before["spec"]["volumeName"])
    assert not bed.api.list("pods", app)
    bed.wait_for(lambda: len(bed.api.list("persistentvolumeclaims", app)) == 1, 60, "the temporary PVC going")

    bed.wait_snapshot_ready(result["safety_snapshot"], app)
    people.run(bed, app, "restore", result["safety_snapshot"], *copy, "--safety", "no")
    data.expect(path, changed)
    people.run(bed, app, "delete", "monday", result["safety_snapshot"], "--last-too", "--wait")
