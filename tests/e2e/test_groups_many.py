"""Many groups, large ones, and many generations of one: what takes too long for CI."""

import pytest

import policy
from bed import ENDED
from groups import CLAIMS, LABEL, MIB, Database, archived_members, await_driver_empty, await_driver_has
from groups import await_objects_gone

GROUPS, NAMESPACES = 20, 4
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
