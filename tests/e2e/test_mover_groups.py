"""Volume groups that the data mover moves: taken at one instant, uploaded member by member, released as groups."""

import pytest

import chance
import moved_groups
import mover
import moving
import promises
import runbook
from bed import Bed, Settings
from moved_groups import CLAIMS, Database, reasons
from moving import HELD_WITH_BASE, PHASE_SECONDS_MAX

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("it copies the members of a group one after the other")]


@pytest.fixture
def database(bed, workspace):
    moved_groups.serve(bed)
    database = Database(bed, workspace)
    yield database
    database.end()


@pytest.mark.journey
def test_a_moved_group_is_incremental_and_comes_back_from_one_instant(database, tmp_path):
    bed = database.bed
    calls = bed.driver.calls("CreateVolumeGroupSnapshot")["finished"]
    cut_before = mover.metrics(bed)["csi_delta_mover_groups_total"]
    _, uploads = database.back_up("first")
    assert reasons(uploads) == {claim: ("full", "no-parent") for claim in CLAIMS}
    database.await_groups(1)
    generations = ("second", "third") if promises.QUIET else ("second",)  # A third one has nothing new in a busy run.
    for generation in generations:
        backup, uploads = database.back_up(generation)
        assert reasons(uploads) == {claim: ("incremental", "") for claim in CLAIMS}
        database.await_one_group()
    assert bed.driver.calls("CreateVolumeGroupSnapshot")["finished"] == calls + 1 + len(generations)
    told = mover.metrics(bed)
    assert told["csi_delta_mover_groups_total"] == cut_before + 1 + len(generations)
    freeze, = (seconds for series, seconds in told.items()
               if series.startswith("csi_delta_mover_last_group_freeze_seconds{") and f'"{database.app}"' in series)
    assert 0 < freeze < told["csi_delta_mover_group_freeze_seconds_total"]
    assert len(bed.driver.snapshots()) == len(CLAIMS) == len(mover.bases(bed, database.app))
    for upload in uploads.values():
        assert f"of volume group {database.app}/db, taken at " in upload["status"]["message"]
    cuts = {moving.annotation(upload, "volume-group-cut-at") for upload in uploads.values()}
    assert len(cuts) == 1
    for plural in ("volumegroupsnapshots", "volumesnapshots"):
        assert not bed.api.list(plural, database.app)
    groups = moving.stored_groups(bed, moving.exported_keys(bed, tmp_path / "ring"), f"{database.app}/db")
    assert [(group["state"], group["members_present"]) for group in groups] == [("complete", len(CLAIMS))] * (1 + len(generations))
    assert len({group["cut_at"] for group in groups}) == len({group["volume_group_snapshot"] for group in groups}) == len(groups)
    newest = {member["claim"]: member["id"] for member in groups[-1]["snapshots"]}
    assert newest == {f"/{database.app}/{claim}": upload["status"]["snapshotID"].split("/")[5] for claim, upload in uploads.items()}

    database.restore(backup)


def test_applications_that_are_frozen_for_long_are_an_alert_until_the_next_group(database, tmp_path):
    alert, bed = "CsiDeltaApplicationsFrozenLong", database.bed
    with bed.driver.faults({"method": "CreateVolumeGroupSnapshot", "delay_ms": 11000}):
        database.back_up("slow")
    runbook.expect(tmp_path, {}, mover.metrics(bed), alert, runbook.SOON, fires=True, namespace=database.app)
    for command in runbook.commands(alert)[0]:
        runbook.run(bed, tmp_path, command)
    database.back_up("quick")
    runbook.expect(tmp_path, {}, mover.metrics(bed), alert, runbook.SOON, fires=False, namespace=database.app)


def test_a_member_that_falls_behind_loses_its_base_with_the_group(database, tmp_path):
    bed = database.bed
    database.back_up("first")
    database.await_groups(1)
    # The node has room for two, who must not hold up the one that is looked at.
    with bed.driver.faults({**HELD_WITH_BASE, "match": database.base_of("log")}):
        name = database.begin("cancelled")
        bed.wait_for(lambda: len(database.uploads(name)) == len(CLAIMS), PHASE_SECONDS_MAX, f"the DataUploads of {name}")
        upload = database.uploads(name)["log"]["metadata"]["name"]
        bed.wait_phase("datauploads", upload, ("InProgress",))
        moving.cancel(bed, upload)
        bed.wait_phase("datauploads", upload, ("Canceled",))
    bed.wait_phase("backups", name, ("PartiallyFailed",))
    uploads = database.uploads(name)
    assert {claim: upload["status"]["phase"] for claim, upload in uploads.items()} == {
        "data": "Completed", "log": "Canceled", "wal": "Completed"}
    database.await_groups(1)
    _, uploads = database.back_up("after")
    assert reasons(uploads) == {"data": ("incremental", ""), "log": ("full", "group-base-released"),
                                "wal": ("incremental", "")}
    database.await_groups(1)
    assert len(bed.driver.snapshots()) == len(CLAIMS)
    groups = moving.stored_groups(bed, moving.exported_keys(bed, tmp_path / "ring"), f"{database.app}/db")
    assert [group["state"] for group in groups] == ["complete", "incomplete", "complete"]
    assert {member["claim"] for member in groups[1]["snapshots"]} == {f"/{database.app}/data", f"/{database.app}/wal"}


@pytest.fixture(params=chance.one_of("v1beta1", "v1beta2"))
def other(request, database, workspace):
    """Another cluster on the bucket, whose Velero, plugin and mover see one old version of the group kinds.

    With a backup that it knows, and a workspace that goes before it.
    """
    bed = database.bed
    backup, _ = database.back_up("crossing")
    settings = Settings(plugin=True, node=True, groups=True, group_version=request.param)
    with Bed.up(settings, bucket_of=bed) as second:
        moved_groups.serve(second)
        ring = moving.exported_keys(bed, second.scratch / "groups.keys")
        moving.mover_key(second, "import", ring)
        second.sync_backup(backup)
        space = type(workspace)()
        yield second, backup, space
        space.clear()


def test_a_moved_group_comes_back_in_a_cluster_of_an_older_version_and_is_moved_on_from_there(database, other):
    second, backup, space = other
    space.expect_namespace(second, database.app)
    second.restore(space.name("r"), "--from-backup", backup, "--include-resources", moving.CLAIMS, expect=None,
                   timeout_seconds=moving.MOVED_SECONDS_MAX)
    moved_groups.check_one_instant(second, database.app)

    there = Database(second, space, database.app)
    _, uploads = there.back_up("full")
    assert {mode for mode, _ in reasons(uploads).values()} == {"full"}
    there.await_one_group()
    latest, uploads = there.back_up("increment")
    assert reasons(uploads) == {claim: ("incremental", "") for claim in CLAIMS}
    there.await_one_group()
    there.restore(latest)
    second.delete_backup(latest)
    there.await_one_group()
    there.end()
