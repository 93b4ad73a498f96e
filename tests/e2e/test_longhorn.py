"""The stand-in of Longhorn's Snapshot system on the real API server: it keeps the contract of the real programs."""

import concurrent.futures
import json
import pathlib
import shlex

import pytest

import bed as bed_module
import cluster_api
import components
import longhorn
import objects
import plugin_settings
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
        "kubeconfig": str(bed.pki / f"{components.LONGHORN_USER}.conf"), "namespace": longhorn.NAMESPACE,
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
def test_the_stand_in_of_longhorn_keeps_the_contract_on_a_real_api_server(bed, tmp_path, flags):
    with longhorn.running(bed, *flags):
        descriptions = [describe(bed, tmp_path, number, flags) for number in range(SHARDS)]
        with concurrent.futures.ThreadPoolExecutor(SHARDS) as pool:
            ran = sum(pool.map(
                lambda number: run_shard(bed, descriptions[number], f"*/Real-{STOPS_THE_MANAGER}", number, SHARDS),
                range(SHARDS)))
        ran += run_shard(bed, descriptions[0], f"{STOPS_THE_MANAGER}/Real")
    assert ran >= 25


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "longhorn.md"


def test_the_pages_kubectl_commands_show_take_and_delete_snapshots_of_longhorn(bed):
    show, take, delete = [line.strip() for line in PAGE.read_text().replace('\n      "', ' "').splitlines()
                          if line.startswith("    kubectl ") and ("lhsnap" in line or "longhorn.io/" in line)]
    with longhorn.running(bed):
        longhorn.create_volume(bed, "pvc-orders", attached=True)
        bed.run(["bash", "-c", take])
        longhorn.await_ready(bed, "before-upgrade")
        bed.run(["bash", "-c", take.replace("before-upgrade", "newer")])
        longhorn.await_ready(bed, "newer")
        shown = bed.run(["bash", "-c", show]).stdout.splitlines()
        assert shown[0].split() == ["NAME", "VOLUME", "CREATIONTIME", "READYTOUSE", "RESTORESIZE", "SIZE", "AGE"]
        assert len(shown) == 3
        for line in PAGE.read_text().splitlines():
            if "kubectl -n longhorn-system get snapshots.longhorn.io" in line:
                bed.run(["bash", "-c", line.strip()])
        bed.run(["bash", "-c", delete])
        bed.kubectl("wait", "lhsnap", "before-upgrade", "-n", longhorn.NAMESPACE, "--for=delete", "--timeout=60s")
        chain = json.loads(longhorn.ask(bed, "engine-snapshots/pvc-orders"))
        assert "newer" in chain and "before-upgrade" not in chain


def archive_then_delete(bed, workspace):
    """A backup with a Snapshot that Longhorn has deleted since, of a volume that has changed; its name."""
    longhorn.create_volume(bed, "pvc-orders", attached=True)
    longhorn.ask(bed, "write/pvc-orders/0/then")
    longhorn.take(bed, "pvc-orders", "old")
    longhorn.take(bed, "pvc-orders", "newer")
    backup = workspace.backup(bed, "--include-namespaces", longhorn.NAMESPACE, "--include-resources", "snapshots.longhorn.io")
    assert backup["status"]["progress"]["itemsBackedUp"] >= 2
    bed.kubectl("delete", "lhsnap", "old", "-n", longhorn.NAMESPACE, "--timeout=60s")
    longhorn.ask(bed, "write/pvc-orders/0/now")
    return backup["metadata"]["name"]


def test_stock_velero_has_todays_data_taken_under_an_old_name(stock_bed, workspace):
    """Why there is a guard."""
    bed = stock_bed
    with longhorn.running(bed):
        backup = archive_then_delete(bed, workspace)
        restore = bed.restore(workspace.name("restore"), "--from-backup", backup)
        assert restore["status"]["phase"] == "Completed"
        longhorn.await_ready(bed, "old")
        assert longhorn.ask(bed, "read/pvc-orders/old/0").strip() == "now"


@pytest.mark.parametrize("guard", ["on", "off"])
def test_a_restore_takes_no_snapshot_under_an_old_name(bed, workspace, guard):
    with longhorn.running(bed), plugin_settings.during(bed, longhornItems="keep", longhornGuard=guard):
        backup = archive_then_delete(bed, workspace)
        restore = bed.restore(workspace.name("restore"), "--from-backup", backup)
        assert restore["status"]["phase"] == "Completed"
        shown = bed.kubectl("get", "lhsnap", "-n", longhorn.NAMESPACE, "-o", "name").stdout.split()
        assert shown == ["snapshot.longhorn.io/newer"]
        assert "old" not in json.loads(longhorn.ask(bed, "engine-snapshots/pvc-orders"))


def test_nothing_of_longhorn_gets_into_a_mapped_namespace_and_that_can_be_deleted(bed, workspace):
    with longhorn.running(bed), plugin_settings.during(bed, longhornItems="keep"):
        backup = archive_then_delete(bed, workspace)
        elsewhere, restore = workspace.copy(bed, backup, longhorn.NAMESPACE)
        assert restore["status"]["phase"] == "Completed"
        assert bed.kubectl("get", "lhsnap", "-n", elsewhere, "-o", "name").stdout == ""
        bed.kubectl("delete", "namespace", elsewhere, "--ignore-not-found", "--timeout=60s")


UNREADABLE = "has = or a newline in an engine label"
OWNER = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": "pvc-orders", "uid": "0"}
SNAPSHOTS = f"/apis/longhorn.io/v1beta2/namespaces/{longhorn.NAMESPACE}/snapshots"
# What is asked for, and what is then said of it. The body, where there is one, is that of the first line with these changes.
NEVER = [
    ("POST", SNAPSHOTS, {"metadata": {"name": "made"}}, None),
    ("POST", SNAPSHOTS, {"metadata": {"name": "owned", "ownerReferences": [OWNER]}}, "sets ownerReferences"),
    ("POST", SNAPSHOTS, {"metadata": {"name": "finalized", "finalizers": ["longhorn.io"]}}, "sets finalizers"),
    ("POST", SNAPSHOTS, {"metadata": {"name": "labelled", "labels": {"longhornvolume": "pvc-orders"}}},
     "sets the label longhornvolume"),
    ("POST", SNAPSHOTS, {"metadata": {"name": "of-a-job"}, "labels": {"RecurringJob": "nightly"}},
     "sets the engine label RecurringJob"),
    ("POST", SNAPSHOTS, {"metadata": {"name": "sign"}, "labels": {"a": "b=c"}}, UNREADABLE),
    ("POST", SNAPSHOTS, {"metadata": {"name": "line"}, "labels": {"a\nb": "c"}}, UNREADABLE),
    ("PATCH", f"{SNAPSHOTS}/made", {}, "is of the verb patch"),
    ("PUT", f"{SNAPSHOTS}/made", {}, "is of the verb update"),
    ("PATCH", f"{SNAPSHOTS}/made/status", {}, "is of the verb patch"),
    ("DELETE", f"{SNAPSHOTS}/owned", None, "deletes whatever has the name"),
    ("DELETE", SNAPSHOTS, None, "is of the verb deletecollection"),
    ("GET", f"/api/v1/namespaces/{longhorn.NAMESPACE}/services/longhorn-backend:9500/proxy/v1/volumes", None,
     "goes through the API server to another server"),
]


def test_the_audit_log_finds_requests_that_longhorn_must_never_get(bed):
    """As if our plugin did it: each such request fails the test in whose bed it was made, and no other one does."""
    api = cluster_api.ClusterApi(bed.name, bed.pki, token=bed.api.token(objects.PLUGIN_ACCOUNT, bed.namespace))

    def ask(method, url, change):
        body = change and {"apiVersion": OWNER["apiVersion"], "kind": "Snapshot", "metadata": change["metadata"],
                           "spec": {"volume": "pvc-orders", "createSnapshot": True, "labels": change.get("labels", {})}}
        kind = cluster_api.MERGE_PATCH if method == "PATCH" else "application/json"
        code, answer = api.raw(method, url, {} if change == {} else body, kind)
        assert code < 300 or method != "POST", answer
        return answer
    with pytest.raises(AssertionError) as told, longhorn.running(bed), bed.refusing():
        longhorn.grant(bed)
        longhorn.create_volume(bed, "pvc-orders", attached=True)
        made, *_ = [json.loads(ask(*request[:3])) for request in NEVER if request[0] == "POST"]
        for request in NEVER:
            if request[0] != "POST":
                ask(*request[:3])
        api.request("DELETE", f"{SNAPSHOTS}/made", {"preconditions": {"uid": made["metadata"]["uid"]}})
    found = [line.split(": ")[1:] for line in str(told.value).splitlines()]
    assert found == [[url, text] for _, url, _, text in NEVER if text]


def test_no_program_knows_where_longhorns_rest_api_is():
    for program in (bed_module.plugin_path(), components.program_path()):
        words = program.read_bytes()
        assert b"longhorn.io" in words and b"longhorn-backend" not in words and b":9500" not in words
