"""Volumes that share a group label: cut at one instant, restored from it, and gone with their backup.

The stamps of one writer, who knows nothing of the driver, are the judge: copies of one instant lie within one write of
each other (see stamps.py; test_groups_driver.py shows that single snapshots do not).
"""

import pytest

import groups
import policy
import stamps

MIB = 1 << 20
CLAIMS = ("data", "log", "wal")
LABEL = "velero.io/volume-group"
MARK = "velero.io/csi-delta-group"

pytestmark = pytest.mark.own_driver("it copies the members of a group one after the other")


class Database:
    """A namespace with three claims of one group, and a fourth claim of none."""

    def __init__(self, bed, workspace):
        self.bed = bed
        self.workspace = workspace
        self.app = workspace.namespace(bed)
        bed.create_claims(CLAIMS, self.app, 8 * MIB, labels={LABEL: "db"})
        bed.create_claim("alone", self.app, MIB)
        self.policy = workspace.policy(bed, policy.rule("snapshot"))

    def paths(self, namespace):
        return [self.bed.volume_path(claim, namespace) for claim in CLAIMS]

    def back_up(self, stem="backup"):
        """A backup while the writer stamps; returns its name."""
        with stamps.Writer(self.bed, self.paths(self.app)):
            backup = self.workspace.backup(self.bed, "--include-namespaces", self.app,
                                           "--resource-policies-configmap", self.policy, stem=stem)
        self.bed.assert_clean("backup", backup)
        return backup["metadata"]["name"]

    def restore(self, backup, namespace, *flags):
        self.workspace.expect_namespace(self.bed, namespace)
        restore = self.bed.restore(self.workspace.name(f"into-{namespace}"), "--from-backup", backup,
                                   "--namespace-mappings", f"{self.app}:{namespace}", *flags)
        assert restore["status"].get("errors", 0) == 0

    def expect_one_instant(self, namespace):
        for claim in CLAIMS:
            self.bed.wait_bound(claim, namespace)
        paths = self.paths(namespace)
        assert stamps.spread(paths) <= 1, [stamps.read(path) for path in paths]


def await_objects_gone(bed, namespace):
    """The controllers remove what the backup let go of, and no claim has the label of the making of a group."""
    def left():
        return [o["metadata"]["name"] for plural in ("volumegroupsnapshots", "volumegroupsnapshotcontents",
                                                     "volumesnapshots", "volumesnapshotcontents")
                for o in bed.api.list(plural)]
    bed.wait_for(lambda: not left(), groups.MEMBERS_SECONDS_MAX, lambda: f"no objects of snapshots: {left()}")
    for claim in bed.api.list("persistentvolumeclaims", namespace):
        assert MARK not in claim["metadata"].get("labels", {})


@pytest.fixture(params=["", "v1beta2", "v1beta1"], ids=["v1", "v1beta2", "v1beta1"])
def group_bed(beds, request):
    return beds.get(groups=True, **({"group_version": request.param} if request.param else {}))


def test_a_group_comes_back_from_one_instant_and_goes_with_its_backup(group_bed, workspace):
    bed = group_bed
    before = bed.inventory()
    bed.configure_driver("--groups-whole")
    database = Database(bed, workspace)
    calls = bed.driver.calls("CreateVolumeGroupSnapshot")["finished"]
    backup = database.back_up()
    assert bed.driver.calls("CreateVolumeGroupSnapshot")["finished"] == calls + 1
    assert len(bed.driver.groups()) == 1
    assert len(bed.driver.snapshots()) == len(CLAIMS) + 1
    await_objects_gone(bed, database.app)

    bed.delete_namespace(database.app)
    assert len(bed.driver.groups()) == 1, "a group went with its namespace"
    for namespace in (workspace.name("first"), workspace.name("second")):
        database.restore(backup, namespace)
        database.expect_one_instant(namespace)

    bed.delete_backup(backup)
    bed.wait_for(lambda: not bed.driver.groups() and not bed.driver.snapshots(), groups.MEMBERS_SECONDS_MAX,
                 lambda: f"no group and no snapshot: {bed.driver.groups()}, {bed.driver.snapshots()}")
    workspace.clear()
    bed.wait_for(lambda: bed.inventory() == before, groups.MEMBERS_SECONDS_MAX,
                 lambda: f"what was there before, {before}, not {bed.inventory()}")


@pytest.fixture
def database(beds, workspace):
    bed = beds.get(groups=True)
    return Database(bed, workspace)


def test_three_generations_of_a_group_go_one_by_one(database, workspace):
    bed = database.bed
    backups = [database.back_up(f"generation-{i}") for i in range(3)]
    assert len(bed.driver.groups()) == len(backups)
    for i, backup in enumerate(backups):
        namespace = workspace.name(f"copy-{i}")
        database.restore(backup, namespace)
        database.expect_one_instant(namespace)
    for left in (2, 1, 0):
        bed.delete_backup(backups[left])
        bed.wait_for(lambda n=left: len(bed.driver.groups()) == n, groups.MEMBERS_SECONDS_MAX,
                     lambda n=left: f"{n} groups: {bed.driver.groups()}")


def test_one_member_comes_back_alone(database, workspace):
    bed = database.bed
    bed.api.patch("persistentvolumeclaims", "log", {"metadata": {"labels": {"part": "log"}}}, database.app)
    backup = database.back_up()
    namespace = workspace.name("alone")
    database.restore(backup, namespace, "--selector", "part=log")
    bed.wait_bound("log", namespace)
    assert stamps.read(bed.volume_path("log", namespace)) > 0
    assert [c["metadata"]["name"] for c in bed.api.list("persistentvolumeclaims", namespace)] == ["log"]


def test_a_member_that_fails_fails_the_group_and_nothing_is_left(database, workspace):
    bed = database.bed
    broken = bed.volume_handle("log", database.app)
    rule = {"method": "CreateVolumeGroupSnapshot", "match": broken, "code": "INVALID_ARGUMENT",
            "message": f"volume {broken} is broken"}
    with bed.driver.faults(rule):
        backup = workspace.backup(bed, "--include-namespaces", database.app, "--resource-policies-configmap",
                                  database.policy, expect="PartiallyFailed")
    logs = bed.velero("backup", "logs", backup["metadata"]["name"]).stdout
    assert f"claim {database.app}/log" in logs
    bed.wait_for(lambda: not bed.driver.groups() and len(bed.driver.snapshots()) == 1, groups.MEMBERS_SECONDS_MAX,
                 lambda: f"the snapshot of the claim alone: {bed.driver.groups()}, {bed.driver.snapshots()}")
    await_objects_gone(bed, database.app)


def test_without_groups_each_is_taken_alone(beds, workspace):
    bed = beds.get(group_kinds=False)
    app = workspace.namespace(bed)
    bed.create_claims(CLAIMS, app, MIB, labels={LABEL: "db"})
    backup = workspace.backup(bed, "--include-namespaces", app, "--resource-policies-configmap",
                              workspace.policy(bed, policy.rule("snapshot")))
    logs = bed.velero("backup", "logs", backup["metadata"]["name"]).stdout
    assert logs.count("a claim is snapshotted alone, not with its volume group") == len(CLAIMS)
    assert len(bed.driver.snapshots()) == len(CLAIMS)
