"""Volume groups that the data mover moves: cut at one instant, uploaded member by member, let go of as groups."""

import pytest

import metadata
import mover
import moving
import policy
import stamps
from moving import GONE_SECONDS_MAX, HELD_WITH_BASE, MIB, MOVED_SECONDS_MAX, PHASE_SECONDS_MAX

CLAIMS = ("data", "log", "wal")
LABEL = "velero.io/volume-group"

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("it copies the members of a group one after the other")]


class Database:
    """A namespace with three claims of one group, whose driver deletes groups only whole."""

    def __init__(self, bed, workspace):
        self.bed = bed
        self.workspace = workspace
        self.app = workspace.namespace(bed, labels=mover.RESTRICTED)
        bed.create_claims(CLAIMS, self.app, 8 * MIB, labels={LABEL: "db"})
        self.flags = ("--include-namespaces", self.app, "--resource-policies-configmap",
                      workspace.policy(bed, policy.rule("move")))

    def paths(self, namespace):
        return [self.bed.volume_path(claim, namespace) for claim in CLAIMS]

    def back_up(self, stem, **kwargs):
        """A backup while the writer stamps; returns its name and the DataUploads by claim."""
        with stamps.Writer(self.bed, self.paths(self.app)):
            backup = self.workspace.backup(self.bed, *self.flags, stem=stem, timeout_seconds=MOVED_SECONDS_MAX, **kwargs)
        name = backup["metadata"]["name"]
        return name, self.uploads(name)

    def uploads(self, backup):
        found = self.bed.api.list("datauploads", self.bed.namespace, labelSelector=f"velero.io/backup-name={backup}")
        return {upload["spec"]["sourcePVC"]: upload for upload in found}

    def base_of(self, claim):
        """The driver's snapshot that is kept as the base of a claim."""
        [handle] = [base["status"]["snapshotHandle"] for base in mover.bases(self.bed, self.app)
                    if base["metadata"]["annotations"]["mover.csi-delta.io/claim"] == claim]
        return handle

    def await_groups(self, count):
        """Waits until the driver holds so many groups, and nothing of single moves is left."""
        self.bed.wait_for(lambda: len(self.bed.driver.groups()) == count, GONE_SECONDS_MAX,
                          lambda: f"{count} groups: {self.bed.driver.groups()}")
        moving.await_nothing_left(self.bed, moving.UPLOADS)


@pytest.fixture
def database(beds, workspace):
    bed = beds.get(node=True, groups=True)
    metadata.serve(bed)
    mover.serve(bed)
    moving.forget_deletions(bed)
    bed.configure_driver("--groups-whole")
    database = Database(bed, workspace)
    yield database
    # Without the claims nobody needs the bases, and they go as a group.
    bed.driver.clear_faults()
    for claim in CLAIMS:
        bed.api.delete("persistentvolumeclaims", claim, database.app)
    with mover.stopped(bed):
        bed.wait_for(lambda: not bed.api.list("persistentvolumeclaims", database.app), GONE_SECONDS_MAX, "the end of the claims")
    database.await_groups(0)
    assert not bed.api.list("volumegroupsnapshotcontents")


def reasons(uploads):
    return {claim: (moving.mode(upload), moving.reason(upload)) for claim, upload in uploads.items()}


def test_a_moved_group_is_incremental_and_comes_back_from_one_instant(database, workspace, tmp_path):
    bed = database.bed
    calls = bed.driver.calls("CreateVolumeGroupSnapshot")["finished"]
    _, uploads = database.back_up("first")
    assert reasons(uploads) == {claim: ("full", "no-parent") for claim in CLAIMS}
    database.await_groups(1)
    for generation in ("second", "third"):
        backup, uploads = database.back_up(generation)
        assert reasons(uploads) == {claim: ("incremental", "") for claim in CLAIMS}
        database.await_groups(1)
    assert bed.driver.calls("CreateVolumeGroupSnapshot")["finished"] == calls + 3
    assert len(bed.driver.snapshots()) == len(CLAIMS) == len(mover.bases(bed, database.app))
    for upload in uploads.values():
        assert f"of volume group {database.app}/db, cut at " in upload["status"]["message"]
    cuts = {moving.annotation(upload, "volume-group-cut-at") for upload in uploads.values()}
    assert len(cuts) == 1
    for plural in ("volumegroupsnapshots", "volumesnapshots"):
        assert not bed.api.list(plural, database.app)
    groups = moving.stored_groups(bed, moving.exported_keys(bed, tmp_path / "ring"), f"{database.app}/db")
    assert [(group["state"], group["members_present"]) for group in groups] == [("complete", len(CLAIMS))] * 3
    assert len({group["cut_at"] for group in groups}) == len({group["volume_group_snapshot"] for group in groups}) == 3
    newest = {member["claim"]: member["id"] for member in groups[-1]["snapshots"]}
    assert newest == {f"/{database.app}/{claim}": upload["status"]["snapshotID"].split("/")[5] for claim, upload in uploads.items()}

    namespace = workspace.name("copy")
    workspace.expect_namespace(bed, namespace)
    bed.restore(workspace.name("r"), "--from-backup", backup, "--namespace-mappings", f"{database.app}:{namespace}",
                timeout_seconds=MOVED_SECONDS_MAX)
    for claim in CLAIMS:
        bed.wait_bound(claim, namespace)
    paths = database.paths(namespace)
    assert stamps.spread(paths) <= 1, [stamps.read(path) for path in paths]


def test_a_member_that_falls_behind_loses_its_base_with_the_group(database, tmp_path):
    bed = database.bed
    database.back_up("first")
    database.await_groups(1)
    name = database.workspace.name("cancelled")
    database.workspace.expect_backup(bed, name)
    # The node has room for two, who must not hold up the one that is looked at.
    with bed.driver.faults({**HELD_WITH_BASE, "match": database.base_of("log")}):
        bed.velero("backup", "create", name, *database.flags)
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
