"""The stand-in of Longhorn's Snapshot system on the real API server: it keeps the contract of the real programs."""

import concurrent.futures
import json
import pathlib
import shlex

import pytest

import longhorn
import test_contracts

SHARDS = 8  # They mostly wait for the engine monitor; each has volumes of its own.
STOPS_THE_MANAGER = "*WithoutAManager*"
SECONDS_MAX = 900


def describe(bed, folder, number, flags):
    """The file that a shard of the suite reads: two volumes, and the commands that are not in the API."""
    attached, detached = f"pvc-attached-{number}", f"pvc-detached-{number}"
    longhorn.create_volume(bed, attached, attached=True)
    longhorn.create_volume(bed, detached)

    def command(request):
        return " ".join(map(shlex.quote, longhorn.ask_command(request))) + "${VOLUME:+/$VOLUME}"
    description = folder / f"longhorn-{number}.json"
    description.write_text(json.dumps({
        "kubeconfig": str(bed.pki / "admin.conf"), "namespace": longhorn.NAMESPACE,
        "attached_volume": attached, "detached_volume": detached, "as_proposed": "--as-proposed" in flags,
        "commands": {op: command(op) for op in (
            "attach", "detach", "engine-snapshots", "manager-stop", "manager-start")}}))
    return description


def run_shard(bed, description, cases, number=0, shards=1):
    """Runs a shard of the cases named Real; how many there were."""
    report = description.with_suffix(".report")
    bed.run(["/usr/bin/env", f"GTEST_TOTAL_SHARDS={shards}", f"GTEST_SHARD_INDEX={number}",
             test_contracts.BUILT / "longhorn_stand_in_test", "--longhorn", description,
             f"--gtest_filter={cases}", f"--gtest_output=json:{report}"], timeout_seconds=SECONDS_MAX)
    return json.loads(report.read_text())["tests"]


@pytest.mark.parametrize("flags", [(), ("--as-proposed",)], ids=["today", "as-proposed"])
def test_the_stand_in_of_longhorn_keeps_the_contract_on_a_real_api_server(beds, tmp_path, flags):
    bed = beds.get()
    with longhorn.running(bed, *flags):
        descriptions = [describe(bed, tmp_path, number, flags) for number in range(SHARDS)]
        with concurrent.futures.ThreadPoolExecutor(SHARDS) as pool:
            ran = sum(pool.map(
                lambda number: run_shard(bed, descriptions[number], f"*/Real-{STOPS_THE_MANAGER}", number, SHARDS),
                range(SHARDS)))
        ran += run_shard(bed, descriptions[0], f"{STOPS_THE_MANAGER}/Real")
    assert ran >= 25


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "longhorn.md"


def test_the_pages_kubectl_commands_show_take_and_delete_snapshots_of_longhorn(beds):
    bed = beds.get()
    show, take, delete = [line.strip() for line in PAGE.read_text().splitlines()
                          if line.startswith("    kubectl ") and ("lhsnap" in line or "longhorn.io/" in line)]

    def await_ready(name):
        bed.kubectl("wait", "lhsnap", name, "-n", longhorn.NAMESPACE, "--for=jsonpath={.status.readyToUse}=true", "--timeout=60s")
    with longhorn.running(bed):
        longhorn.create_volume(bed, "pvc-orders", attached=True)
        bed.run(["bash", "-c", take])
        await_ready("before-upgrade")
        bed.run(["bash", "-c", take.replace("before-upgrade", "newer")])
        await_ready("newer")
        shown = bed.run(["bash", "-c", show]).stdout.splitlines()
        assert shown[0].split() == ["NAME", "VOLUME", "CREATIONTIME", "READYTOUSE", "RESTORESIZE", "SIZE", "AGE"]
        assert len(shown) == 3
        bed.run(["bash", "-c", delete])
        bed.kubectl("wait", "lhsnap", "before-upgrade", "-n", longhorn.NAMESPACE, "--for=delete", "--timeout=60s")
        chain = json.loads(longhorn.ask(bed, "engine-snapshots/pvc-orders"))
        assert "newer" in chain and "before-upgrade" not in chain
