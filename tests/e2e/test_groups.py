"""Volumes that share a group label: cut at one instant, restored from it, and gone with their backup.

The stamps of one writer, which knows nothing of the driver, decide: copies of one instant lie within one write of
each other (see stamps.py; test_groups_driver.py shows that single snapshots do not). Upstream's host-path driver copies the
members one after the other, which the stamps show; all else holds there, too.
"""

import contextlib
import re

import pytest

import groups
import stamps
from groups import (CLAIMS, LABEL, MIB, Database, archived_members, await_driver_empty, await_driver_has,
                    await_objects_gone)

pytestmark = pytest.mark.group


@pytest.mark.cluster(group_kinds=False)
def test_without_groups_each_is_taken_alone(beds, workspace):
    bed = beds.get(group_kinds=False)
    app = workspace.namespace(bed)
    bed.create_claims(CLAIMS, app, MIB, labels={LABEL: "db"})
    backup = workspace.backup(bed, *workspace.by_policy(bed, app))
    logs = bed.velero("backup", "logs", backup["metadata"]["name"]).stdout
    assert logs.count("a claim is snapshotted alone, not with its volume group") == len(CLAIMS)
    assert len(bed.driver.snapshots()) == len(CLAIMS)


@pytest.fixture(params=[pytest.param({"groups": True, "group_version": version}, id=version,
                                     marks=pytest.mark.cluster(groups=True, group_version=version))
                        for version in ("v1beta1", "v1beta2")] + [pytest.param({}, id="v1")])
def group_bed(beds, request):
    return beds.get(**request.param)


@contextlib.contextmanager
def no_member_deleted_alone(bed, backup):
    """While the body runs, the driver refuses to; fails when it was asked to."""
    failed = bed.driver.calls("DeleteSnapshot")["failed"]
    with bed.driver.faults(*({"method": "DeleteSnapshot", "match": handle, "code": "FAILED_PRECONDITION", "message": "a member"}
                             for handle in archived_members(bed, backup).values())):
        yield
        assert bed.driver.calls("DeleteSnapshot")["failed"] == failed


def test_a_group_comes_back_from_one_instant_and_goes_with_its_backup(group_bed, workspace):
    bed = group_bed
    before = bed.inventory()
    if bed.driver.can_inject_faults:  # Upstream's keeps members that are deleted alone without a flag.
        bed.configure_driver("--groups-whole", "--no-list-snapshots")  # So their group is not learned by listing.
    database = Database(bed, workspace)
    backup = database.back_up()
    assert len(bed.driver.groups()) == 1
    assert len(bed.driver.snapshots()) == len(CLAIMS) + 1
    await_objects_gone(bed, database.app)

    bed.delete_namespace(database.app)
    assert len(bed.driver.groups()) == 1, "a group went with its namespace"
    for namespace in (workspace.name("first"), workspace.name("second")):
        database.restore(backup, namespace)
        database.expect_one_instant(namespace)

    with contextlib.ExitStack() as stack:
        if bed.driver.can_inject_faults:
            stack.enter_context(no_member_deleted_alone(bed, backup))
        bed.delete_backup(backup)
        await_driver_empty(bed)
    workspace.clear()
    bed.wait_gone(lambda: bed.inventory() == before, groups.MEMBERS_SECONDS_MAX,
                  lambda: f"what was there before, {before}, not {bed.inventory()}")


@pytest.fixture
def database(bed, workspace):
    return Database(bed, workspace)


def test_three_generations_of_a_group_go_one_by_one(database, workspace):
    bed = database.bed
    backups = [database.back_up(f"generation-{i}") for i in range(3)]
    assert len(bed.driver.groups()) == len(backups)
    events = [e["message"] for e in bed.api.list("events", database.app) if e["reason"] == "VolumeGroupCut"]
    assert len(events) == len(backups)
    assert all(re.match(r"took snapshots of 3 PVCs at one instant, freeze window [0-9.]+m?s: asked at ", event) for event in events), events
    described = bed.velero("backup", "describe", backups[-1], "--details").stdout
    assert re.search(r"taken, freeze window [0-9.]+m?s, 3 members ready", described), described
    for i, backup in enumerate(backups):
        namespace = workspace.name(f"copy-{i}")
        database.restore(backup, namespace)
        database.expect_one_instant(namespace)
    for left in (2, 1, 0):
        bed.delete_backup(backups[left])
        await_driver_has(bed, left, left * (len(CLAIMS) + 1))


@pytest.mark.own_driver("it lists late, and then not at all")
def test_a_deletion_whose_first_look_fails_late_leaves_no_group(database):
    """The sidecar's word on a look that it began before it knew the handle takes the handle away again."""
    bed = database.bed
    backup = database.back_up()
    late = {"method": "ListSnapshots", "delay_ms": 7000, "code": "UNAVAILABLE", "message": "the array hangs"}
    late_group = {**late, "method": "GetVolumeGroupSnapshot"}
    with bed.driver.faults(late, late_group):
        bed.velero("backup", "delete", backup, "--confirm")
        bed.wait_for(lambda: bed.api.get("backups", backup, bed.namespace) is None, 180, f"end of backup {backup}")
    bed.delete_backup(database.back_up("next"))  # Sees to what the one before had to leave.
    await_driver_empty(bed)


@pytest.mark.journey
def test_one_member_comes_back_alone(database, workspace):
    bed = database.bed
    bed.api.patch("persistentvolumeclaims", "log", {"metadata": {"labels": {"part": "log"}}}, database.app)
    backup = database.back_up()
    namespace = workspace.name("alone")
    database.restore(backup, namespace, "--selector", "part=log")
    bed.wait_bound("log", namespace)
    assert stamps.read(bed.volume_path("log", namespace)) > 0
    assert [c["metadata"]["name"] for c in bed.api.list("persistentvolumeclaims", namespace)] == ["log"]


@pytest.mark.upstream_driver
def test_copies_that_upstreams_driver_makes_are_no_instant(bed, workspace):
    """The check of stamps is worth something: it tells members that were copied one after the other."""
    database = Database(bed, workspace, 128 * MIB)  # It takes its time to copy them.
    backup, namespace = database.back_up(), workspace.name("copy")
    database.restore(backup, namespace)
    database.expect_one_instant(namespace)  # All but that.
    numbers = [stamps.read(path) for path in database.paths(namespace)]
    print(f"stamps of the members: {numbers}")
    assert max(numbers) - min(numbers) > 1
