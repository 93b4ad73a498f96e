"""The suites that fakes pass, run on what they stand for: the bed's API server, and upstream's metadata sidecar."""

import concurrent.futures
import json
import os
import pathlib

import pytest

import metadata
import objects

BUILT = pathlib.Path(os.environ.get("CSI_DELTA_TESTS")
                     or pathlib.Path(__file__).resolve().parents[2] / "build/release/bin")
NAMESPACES = "csi-delta-contract-"
SHARDS = 6  # They mostly wait for controllers.


def run_suite(bed, program, folder, variables, shards=SHARDS):
    """Runs the cases named Real of a suite inside a bed; how many there were."""
    def run_shard(number):
        report = folder / f"report-{number}.json"
        shard = {"GTEST_TOTAL_SHARDS": shards, "GTEST_SHARD_INDEX": number}
        bed.run(["/usr/bin/env", *(f"{name}={value}" for name, value in {**variables, **shard}.items()),
                 BUILT / program, "--gtest_filter=*/Real", f"--gtest_output=json:{report}"])
        return json.loads(report.read_text())["tests"]

    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        return sum(pool.map(run_shard, range(shards)))


def left_behind(bed):
    """What the controllers have not yet taken away of the suites' claims and volume snapshots."""
    references = [("persistentvolumes", "claimRef"), ("volumesnapshotcontents", "volumeSnapshotRef")]
    return [left["metadata"]["name"] for plural, reference in references for left in bed.api.list(plural)
            if left["spec"][reference]["namespace"].startswith(NAMESPACES)]


def test_the_client_of_snapshot_metadata_keeps_its_contract_over_the_real_sidecar(bed, tmp_path):
    metadata.serve(bed)
    description = tmp_path / "bed.json"
    description.write_text(json.dumps({
        "admin": str(bed.pki / "admin.conf"), "client": str(metadata.kubeconfig(bed, metadata.CLIENT)),
        "volumes": str(bed.driver.volume_path("any").parent), "storage_class": objects.CLASS_IMMEDIATE,
        "snapshot_class": objects.SNAPSHOT_CLASS}))
    ran = run_suite(bed, "contract_test", tmp_path,
                    {"CSI_DELTA_TEST_METADATA_BED": description})
    assert ran >= 11
    bed.wait_for(lambda: not left_behind(bed), 60, lambda: f"the end of {left_behind(bed)}")


@pytest.mark.journey
def test_the_client_of_the_api_server_keeps_its_contract_over_a_real_one(bed, tmp_path):
    assert run_suite(bed, "contract_test", tmp_path,
                     {"CSI_DELTA_TEST_KUBECONFIG": bed.pki / "admin.conf"}) >= 20


def test_the_fake_of_the_snapshot_programs_keeps_the_contract_of_the_real_ones(bed, tmp_path):
    description = tmp_path / "bed.json"
    description.write_text(json.dumps({
        "kubeconfig": str(bed.pki / "admin.conf"), "driver": bed.driver.name,
        "driver_control": str(bed.driver.control_socket), "storage_class": objects.CLASS_IMMEDIATE}))
    # One after the other: a test clears the driver's faults.
    ran = run_suite(bed, "contract_test", tmp_path,
                    {"CSI_DELTA_TEST_SNAPSHOT_BED": description}, shards=1)
    assert ran >= 18
    bed.wait_for(lambda: not left_behind(bed), 60, lambda: f"the end of {left_behind(bed)}")
