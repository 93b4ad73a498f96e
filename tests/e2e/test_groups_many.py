"""Many groups, large ones, and many generations of one: what takes too long for CI."""

import pytest

import plugin_settings
import policy
from bed import ENDED
from groups import CLAIMS, LABEL, MIB, Database, archived_members, await_driver_empty, await_driver_has
from groups import await_objects_gone

GROUPS, NAMESPACES = 20, 4
MEMBERS_MAX = 100
GENERATIONS = 10
CALL = "CreateVolumeGroupSnapshot"
SECONDS_MAX = 900  # Velero takes two seconds for each content that it deletes.

pytestmark = [pytest.mark.group, pytest.mark.sweep, pytest.mark.long, pytest.mark.own_driver("counts and fails calls")]


@pytest.fixture
def bed(beds):
    return beds.get()


def snapshot_policy(bed, workspace):
    return "--resource-policies-configmap", workspace.policy(bed, policy.rule("snapshot"))


def test_twenty_groups_at_once(bed, workspace):
    bed.configure_velero(server_args=["--features=EnableCSI", f"--concurrent-backups={NAMESPACES}"])
    backups = []
    for i in range(NAMESPACES):
        app = workspace.namespace(bed, f"app-{i}")
        for j in range(GROUPS // NAMESPACES):
            bed.create_claims([f"{claim}-{j}" for claim in CLAIMS], app, MIB, labels={LABEL: f"db-{j}"})
        backups.append((workspace.name(f"backup-{i}"), app))
    for name, app in backups:
        workspace.expect_backup(bed, name)
        bed.velero("backup", "create", name, "--include-namespaces", app, *snapshot_policy(bed, workspace))
    for name, _ in backups:
        bed.assert_clean("backup", bed.wait_phase("backups", name, ("Completed",), SECONDS_MAX))
    assert sorted(len(g["members"]) for g in bed.driver_control({"op": "groups"})["groups"]) == [len(CLAIMS)] * GROUPS
    for name, app in backups:
        assert len(bed.archived(name, "volumegroupsnapshotcontents")) == GROUPS // NAMESPACES
        await_objects_gone(bed, app)
        bed.delete_backup(name, SECONDS_MAX)
    await_driver_empty(bed)


@pytest.fixture
def crowd(bed, workspace):
    """A namespace with as many claims of one group as a group may have."""
    app = workspace.namespace(bed)
    bed.create_claims([f"data-{i:03}" for i in range(MEMBERS_MAX)], app, MIB, timeout_seconds=SECONDS_MAX, labels={LABEL: "db"})
    return app


def test_a_group_of_a_hundred(bed, workspace, crowd):
    backup = workspace.backup(bed, "--include-namespaces", crowd, *snapshot_policy(bed, workspace), timeout_seconds=SECONDS_MAX)
    bed.assert_clean("backup", backup)
    name = backup["metadata"]["name"]
    assert len(archived_members(bed, name)) == MEMBERS_MAX
    await_driver_has(bed, 1, MEMBERS_MAX)
    await_objects_gone(bed, crowd)
    bed.delete_backup(name, SECONDS_MAX)
    await_driver_empty(bed)


def test_a_hundred_and_one_are_no_group(bed, workspace, crowd):
    bed.create_claim("one-more", crowd, MIB, labels={LABEL: "db"})
    backup = workspace.backup(bed, "--include-namespaces", crowd, *snapshot_policy(bed, workspace), timeout_seconds=SECONDS_MAX)
    name = backup["metadata"]["name"]
    log = bed.velero("backup", "logs", name).stdout
    assert log.count(f"it has {MEMBERS_MAX + 1} members, and {MEMBERS_MAX} are the most") == MEMBERS_MAX + 1
    await_driver_has(bed, 0, MEMBERS_MAX + 1)
    bed.drop_backup(name)
    for handle in bed.driver.snapshots():
        bed.driver.remove_snapshot(handle)

    with plugin_settings.during(bed, groupFallback="fail"):
        backup = workspace.backup(bed, "--include-namespaces", crowd, *snapshot_policy(bed, workspace), stem="refused",
                                  expect="PartiallyFailed", timeout_seconds=SECONDS_MAX)
    assert backup["status"]["errors"] == MEMBERS_MAX + 1
    await_driver_empty(bed)


def test_ten_generations_with_a_member_that_fails_leave_one_group(bed, workspace):
    database = Database(bed, workspace)
    broken = bed.volume_handle("log", database.app)
    failure = {"method": CALL, "match": broken, "code": "INVALID_ARGUMENT", "message": f"volume {broken} is broken"}
    kept = None
    for generation in range(GENERATIONS):
        if generation % 2 == 0:
            with bed.driver.faults(failure):
                name = database.begin(f"failed-{generation}")
                assert bed.wait_phase("backups", name, ENDED)["status"]["phase"] == "PartiallyFailed"
            bed.delete_backup(name)
            continue
        name = database.back_up(f"generation-{generation}")
        if kept:
            bed.delete_backup(kept)
        kept = name
    await_driver_has(bed, 1, len(CLAIMS) + 1)
    assert set(archived_members(bed, kept).values()) < set(bed.driver.snapshots())
    await_objects_gone(bed, database.app)
    namespace = workspace.name("copy")
    database.restore(kept, namespace)
    database.expect_one_instant(namespace)
    bed.delete_backup(kept)
    await_driver_empty(bed)
