"""DifferentialSnapshots of real VolumeSnapshots: what is served is what `cmp` finds, to clients that may have it, whichever process dies."""

import pytest

import cluster_api
import data
import differential
import objects
import rights

MIB = 1 << 20
BLOCK_BYTES = 4096  # Of both drivers.
VOLUME_BYTES = 16 * MIB
WRITES = 500


def differing_runs(path, other):
    """The runs of blocks in which two files have different bytes."""
    return differential.merged((block * BLOCK_BYTES, BLOCK_BYTES)
                               for block in data.differing_blocks(path, other, VOLUME_BYTES, BLOCK_BYTES))


@pytest.fixture(scope="module")
def volume(beds, shared_workspace):
    bed = beds.get()
    differential.serve(bed)
    return shared_workspace.volume_with_snapshots(
        bed, VOLUME_BYTES, lambda path, seed: data.scatter(path, seed, WRITES, VOLUME_BYTES))


@pytest.fixture
def served_bed(bed, volume):
    """The bed of `volume`, with the service and without faults."""
    differential.serve(bed)
    yield bed
    bed.stop(differential.SECOND)
    if bed.diffsnap_args:
        bed.diffsnap_args.clear()
        bed.stop(differential.FIRST)
    for left in bed.api.list("differentialsnapshots", volume.namespace):
        bed.api.delete("differentialsnapshots", left["metadata"]["name"], volume.namespace)


def changed_blocks(bed, volume):
    return differing_runs(bed.driver.snapshot_path(volume.two), bed.driver.snapshot_path(volume.one))


def ask_pair(bed, volume, name="pair", **spec):
    """A DifferentialSnapshot of what changed from "one" to "two", which must be served."""
    found = differential.ask(bed, name, volume.namespace, targetVolumeSnapshotName="two",
                             **{"baseVolumeSnapshotName": "one", **spec})
    assert found["status"]["state"] == "Success", found["status"]
    return found


@pytest.mark.journey
def test_pages_are_what_cmp_says(served_bed, volume):
    bed = served_bed
    changed = changed_blocks(bed, volume)
    allocated = differing_runs(bed.driver.snapshot_path(volume.two), "/dev/zero")
    assert 0 < len(changed) < len(allocated)

    pair = ask_pair(bed, volume)
    assert pair["status"]["resolved"] == {
        "driver": bed.driver.name, "baseHandle": volume.one, "targetHandle": volume.two,
        "volumeHandle": bed.volume_handle("data", volume.namespace), "volumeSize": VOLUME_BYTES,
        "volumeSnapshotClassName": objects.SNAPSHOT_CLASS}
    assert pair["status"]["audience"] == f"diffsnap.csi-delta.io/{bed.driver.name}"
    for entries in (None, 1000, 64):
        pages = list(differential.Reader(bed, pair).pages(**({"maxEntries": entries} if entries else {})))
        assert differential.blocks(pages) == changed
        assert max(len(page["changeBlockList"]) for page in pages) <= (entries or 4096)
        assert (len(pages) > 5) == (entries == 64)
        assert {page["volumeSize"] for page in pages} == {VOLUME_BYTES}
    assert differential.blocks([differential.by_curl(bed, pair)]) == changed
    middle = changed[len(changed) // 2][0]
    assert differential.blocks(differential.Reader(bed, pair).pages(startOffset=middle)) == [
        block for block in changed if block[0] >= middle]

    whole = differential.ask(bed, "whole", volume.namespace, targetVolumeSnapshotName="two")
    assert differential.blocks(differential.Reader(bed, whole).pages()) == allocated
    if bed.driver.name != "hostpath.csi.k8s.io":  # Where nothing changed it sends no message, which does not count as an answer.
        same = ask_pair(bed, volume, "same", baseVolumeSnapshotName="two")
        assert differential.blocks(differential.Reader(bed, same).pages()) == []
    listed = bed.kubectl("get", "dsnap", "-n", volume.namespace, "pair").stdout.splitlines()
    assert listed[0].split() == ["NAME", "STATE", "BASE", "TARGET", "DRIVER", "AGE"]
    assert listed[1].split()[:5] == ["pair", "Success", "one", "two", bed.driver.name]


@pytest.mark.own_driver("it does not know GetDifferentialSnapshot")
@pytest.mark.parametrize("cursors", ["numeric", "opaque"])
def test_a_driver_with_pages_of_its_own(served_bed, volume, cursors):
    bed = served_bed
    bed.configure_driver("--differential-snapshot", "--cursors", cursors)
    bed.restart(differential.FIRST)
    pair = ask_pair(bed, volume, parameters={"context": "here"})
    pages = list(differential.Reader(bed, pair).pages(maxEntries=64))
    assert differential.blocks(pages) == changed_blocks(bed, volume)
    assert all("context" in block for page in pages for block in page["changeBlockList"])
    later = ask_pair(bed, volume, "later", parameters={"context": "here"}, startOffset=pages[0]["nextOffset"])
    rest = differential.Reader(bed, later).pages(maxEntries=64)
    assert differential.blocks([pages[0], *rest]) == changed_blocks(bed, volume)
    bed.configure_driver()
    bed.restart(differential.FIRST)


GOOD_SPECS = [
    {"targetVolumeSnapshotName": "two", "mode": "Block", "volumeId": "v", "startOffset": "4096"},
    {"targetVolumeSnapshotName": "two", "baseSnapshotHandle": "some://handle/1"},
    {"targetVolumeSnapshotName": "two", "parameters": {f"key-{i}": "x" * 1024 for i in range(32)}},
    {"targetVolumeSnapshotName": "two", "baseSnapshotHandle": "h", "startOffset": "page 7/\u00e9", "onUnknownBase": "all"},
    {"targetVolumeSnapshotName": "two", "startOffset": "t:" + "x" * 4094, "onUnknownBase": "fail"},
]
BAD_SPECS = [
    ({}, "targetVolumeSnapshotName"),
    ({"targetVolumeSnapshotName": ""}, "targetVolumeSnapshotName"),
    ({"targetVolumeSnapshotName": "x" * 254}, "targetVolumeSnapshotName"),
    ({"targetVolumeSnapshotName": "two", "mode": "File"}, "spec.mode"),
    ({"targetVolumeSnapshotName": "two", "startOffset": "x" * 4097}, "spec.startOffset"),
    ({"targetVolumeSnapshotName": "two", "onUnknownBase": "everything"}, "spec.onUnknownBase"),
    ({"targetVolumeSnapshotName": "two", "baseVolumeSnapshotName": "one", "baseSnapshotHandle": "h"},
     "the base has a name or a handle, not both"),
    ({"targetVolumeSnapshotName": "two", "baseSnapshotHandle": "x" * 1025}, "spec.baseSnapshotHandle"),
    ({"targetVolumeSnapshotName": "two", "parameters": {"csi.storage.k8s.io/x": "y"}}, "are reserved"),
    ({"targetVolumeSnapshotName": "two", "parameters": {"": "y"}}, "1 to 253 characters"),
    ({"targetVolumeSnapshotName": "two", "parameters": {"k" * 254: "y"}}, "1 to 253 characters"),
    ({"targetVolumeSnapshotName": "two", "parameters": {"k": "y" * 1025}}, "spec.parameters"),
    ({"targetVolumeSnapshotName": "two", "parameters": {f"k{i}": "" for i in range(33)}}, "spec.parameters"),
]


@pytest.mark.journey
def test_objects_that_make_no_sense_are_refused(served_bed, volume):
    bed, app = served_bed, volume.namespace
    bed.stop(differential.FIRST)  # So that only the API server decides.
    for number, spec in enumerate(GOOD_SPECS):
        made = bed.api.create("differentialsnapshots", differential.make(f"good-{number}", app, **spec))
        assert made["spec"]["mode"] == "Block"
    for spec, words in BAD_SPECS:
        with pytest.raises(cluster_api.ApiError, match=words) as refused:
            bed.api.create("differentialsnapshots", differential.make("bad", app, **spec))
        assert refused.value.code == 422
    with pytest.raises(cluster_api.ApiError, match="the spec cannot be changed"):
        bed.api.patch("differentialsnapshots", "good-0", {"spec": {"volumeId": "w"}}, app)

    def set_status(name, **status):
        bed.api.patch("differentialsnapshots", name, {"status": status}, app, "status")
    set_status("good-0", state="Pending", error="NotReady: soon")
    set_status("good-0", state="Success", resolved={"driver": "d", "targetHandle": "t"})
    set_status("good-1", state="Failure", error="Internal: it is so")
    for name, change, words in (
            ("good-0", {"state": "Failure"}, "is the last one"), ("good-0", {"state": "Pending"}, "is the last one"),
            ("good-0", {"state": None}, "is the last one"), ("good-1", {"state": "Success"}, "is the last one"),
            ("good-0", {"resolved": {"targetHandle": "other"}}, "does not change"),
            ("good-2", {"state": "Done"}, "status.state"),
            ("good-2", {"conditions": [{"type": "Odd", "status": "True", "reason": "R",
                                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}, "status.conditions")):
        with pytest.raises(cluster_api.ApiError, match=words):
            set_status(name, **change)
    bed.api.patch("differentialsnapshots", "good-2", {"status": {"state": "Success"}}, app)
    assert "status" not in bed.api.get("differentialsnapshots", "good-2", app)


@pytest.mark.journey
def test_a_reader_without_the_right_gets_nothing(served_bed, volume):
    bed = served_bed
    pair = ask_pair(bed, volume)
    with pytest.raises(differential.Refused, match="may not get differentialsnapshots") as refused:
        differential.Reader(bed, pair, differential.STRANGER).get()
    assert (refused.value.status, refused.value.code) == (403, "PermissionDenied")
    reader = differential.Reader(bed, pair)
    reader.token = differential.token(bed, differential.MOVER)  # For the API server.
    with pytest.raises(differential.Refused) as refused:
        reader.get()
    assert (refused.value.status, refused.value.code) == (401, "Unauthenticated")


@pytest.mark.journey
def test_a_server_that_is_killed_between_two_pages_carries_on(served_bed, volume):
    bed = served_bed
    reader = differential.Reader(bed, ask_pair(bed, volume))
    pages = reader.pages(maxEntries=100)
    seen = [next(pages)]
    bed.restart(differential.FIRST, kill=True)
    seen += [next(pages)]
    bed.restart("csi-driver", kill=True)
    seen += pages
    assert differential.blocks(seen) == changed_blocks(bed, volume)


def test_when_the_leader_is_killed_another_goes_on(served_bed, volume):
    bed = served_bed
    pair = ask_pair(bed, volume)
    differential.serve(bed, differential.SECOND)
    first = differential.Reader(bed, pair).get(maxEntries=50)
    bed.stop(differential.FIRST, kill=True)
    second = differential.Reader(bed, pair, port=differential.PORTS[differential.SECOND])
    rest = list(second.pages(maxEntries=50, startOffset=first["nextOffset"]))
    assert differential.blocks([first, *rest]) == changed_blocks(bed, volume)
    later = ask_pair(bed, volume, "later")
    assert differential.blocks(differential.Reader(
        bed, later, port=differential.PORTS[differential.SECOND]).pages()) == changed_blocks(bed, volume)


def test_controller_and_server_may_be_two_processes(served_bed, volume):
    bed = served_bed
    lease = f"csi-delta-diffsnap-{bed.driver.name}"
    bed.stop(differential.FIRST)
    assert '"stopping"' in bed.log(differential.FIRST)
    assert bed.api.get("leases", lease, differential.NAMESPACE)["spec"]["holderIdentity"] == ""
    bed.diffsnap_args[differential.FIRST] = ["--role=server"]
    bed.diffsnap_args[differential.SECOND] = ["--role=controller", "--cursor-key-file="]
    differential.serve(bed, differential.FIRST, differential.SECOND)
    pair = ask_pair(bed, volume)
    assert differential.blocks(differential.Reader(bed, pair).pages()) == changed_blocks(bed, volume)
    with pytest.raises(differential.Refused, match="serves no pages"):
        differential.Reader(bed, pair, port=differential.PORTS[differential.SECOND]).get()
    holder = bed.api.get("leases", lease, differential.NAMESPACE)["spec"]["holderIdentity"]
    assert holder.endswith(f":{differential.PORTS[differential.SECOND]}")


def test_a_base_without_an_object_is_known_by_its_handle(served_bed, volume):
    bed, app = served_bed, volume.namespace
    handle = bed.create_snapshot("zero", app, "data")
    content = bed.api.get("volumesnapshots", "zero", app)["status"]["boundVolumeSnapshotContentName"]
    bed.api.patch("volumesnapshotcontents", content, {"spec": {"deletionPolicy": "Retain"}})
    bed.api.delete("volumesnapshots", "zero", app)
    bed.wait_for(lambda: bed.api.get("volumesnapshots", "zero", app) is None, 60, "end of the VolumeSnapshot")
    bed.api.delete("volumesnapshotcontents", content)
    bed.wait_for(lambda: bed.api.get("volumesnapshotcontents", content) is None, 60, "end of its content")

    failed = differential.ask(bed, "by-name", app, targetVolumeSnapshotName="two", baseVolumeSnapshotName="zero")
    assert failed["status"]["error"].startswith("BaseSnapshotNotFound: ")
    served = differential.ask(bed, "by-handle", app, targetVolumeSnapshotName="two", baseSnapshotHandle=handle)
    reader = differential.Reader(bed, served)
    assert differential.blocks(reader.pages()) == differing_runs(
        bed.driver.snapshot_path(volume.two), bed.driver.snapshot_path(handle))
    bed.driver.remove_snapshot(handle)
    with pytest.raises(differential.Refused) as refused:
        reader.get()
    assert (refused.value.status, refused.value.code) == (410, "BaseSnapshotGone")
    everything = differential.ask(bed, "everything", app, targetVolumeSnapshotName="two", baseSnapshotHandle=handle,
                                  onUnknownBase="all")
    assert differential.blocks(differential.Reader(bed, everything).pages()) == [(0, VOLUME_BYTES)]


@pytest.mark.own_driver("it refuses secrets that it did not ask for")
def test_the_service_has_no_right_too_many_or_too_few(served_bed, volume):
    bed, app = served_bed, volume.namespace
    bed.stop(differential.FIRST)
    bed.api.delete("leases", f"csi-delta-diffsnap-{bed.driver.name}", differential.NAMESPACE)
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"user": "diffsnap"},
              "metadata": {"name": "csi-driver-snapshotter", "namespace": differential.NAMESPACE}}
    bed.api.create("secrets", secret)
    secretive = objects.snapshot_class("secretive", bed.driver.name, labels={})
    secretive["parameters"] = {"csi.storage.k8s.io/snapshotter-secret-name": secret["metadata"]["name"],
                               "csi.storage.k8s.io/snapshotter-secret-namespace": differential.NAMESPACE}
    bed.api.create("volumesnapshotclasses", secretive)
    snapshot = objects.volume_snapshot("guarded", app, "data")
    snapshot["spec"]["volumeSnapshotClassName"] = "secretive"

    position = bed.audit_position()
    bed.diffsnap_args[differential.FIRST] = ["--keep-seconds=3"]
    bed.start(differential.FIRST)
    bed.api.create("differentialsnapshots", differential.make(
        "guarded", app, targetVolumeSnapshotName="guarded", baseSnapshotHandle=volume.one))
    bed.api.create("volumesnapshots", snapshot)
    content = bed.wait_snapshot_ready("guarded", app)["status"]["boundVolumeSnapshotContentName"]
    differential.Reader(bed, differential.wait_state(bed, "guarded", app, ("Success",))).get()
    bed.wait_for(lambda: bed.api.get("differentialsnapshots", "guarded", app) is None, 60, "the object's end")
    bed.stop(differential.FIRST)

    requests = rights.requests_of(bed.audit_events(user=differential.user(differential.ACCOUNT), since=position))
    assert [request for request in requests if request.code in (401, 403)] == []
    listed = set().union(*(rights.of_rules(d["rules"]) for d in differential.manifest() if "rules" in d
                           and not d["metadata"]["name"].endswith(("-mover", "-requester"))))
    assert {request.right for request in requests} == listed
    bed.api.delete("volumesnapshots", "guarded", app)  # Which takes the secret, too.
    bed.wait_for(lambda: bed.api.get("volumesnapshots", "guarded", app) is None, 60, "end of the VolumeSnapshot")
    bed.wait_for(lambda: bed.api.get("volumesnapshotcontents", content) is None, 60, "end of its content")
    bed.api.delete("volumesnapshotclasses", "secretive")
    bed.api.delete("secrets", secret["metadata"]["name"], differential.NAMESPACE)


def test_a_requester_needs_what_its_role_lists(served_bed, volume):
    bed, app = served_bed, volume.namespace
    requester = differential.api(bed, differential.REQUESTER)
    requester.create("differentialsnapshots", differential.make(
        "mine", app, targetVolumeSnapshotName="two", baseVolumeSnapshotName="one"))
    found = bed.wait_for(lambda: (o := requester.get("differentialsnapshots", "mine", app))
                         and o.get("status", {}).get("state") == "Success" and o, 30, "a Success")
    assert differential.blocks(differential.Reader(bed, found, differential.REQUESTER).pages()) == changed_blocks(
        bed, volume)
    requester.delete("differentialsnapshots", "mine", app)
    with pytest.raises(cluster_api.ApiError, match="Forbidden"):
        requester.patch("differentialsnapshots", "mine", {"status": {"state": "Success"}}, app, "status")
