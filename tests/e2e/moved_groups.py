"""Claims of one volume group that the data mover moves, and what there is of their groups."""

import data
import mover
import moving
import stamps
from groups import CLAIMS, LABEL, MARK
from moving import GONE_SECONDS_MAX, MIB, MOVED_SECONDS_MAX

RECORD = "mover.csi-delta.io/group"


def serve(bed):
    """What groups need to be moved, of a driver that deletes groups only whole."""
    mover.serve(bed)
    moving.forget_deletions(bed)
    bed.configure_driver("--groups-whole")


class Database:
    """A namespace with three claims of one group: one that is there, or a new one."""

    def __init__(self, bed, workspace, app=None):
        self.bed = bed
        self.workspace = workspace
        self.app = app
        if not app:
            bed.await_endings()
            bed.wait_gone(lambda: not bed.driver.snapshots(), GONE_SECONDS_MAX,  # All that is counted is this group's.
                          lambda: f"no snapshot of another test: {bed.driver.snapshots()}")
            self.app = workspace.namespace(bed, labels=mover.RESTRICTED)
            bed.create_claims(CLAIMS, self.app, 8 * MIB, labels={LABEL: "db"})
        self.flags = workspace.by_policy(bed, self.app, "move")

    def begin(self, stem):
        """Starts a backup; returns its name."""
        name = self.workspace.name(stem)
        self.workspace.expect_backup(self.bed, name)
        self.bed.velero("backup", "create", name, *self.flags)
        return name

    def back_up(self, stem, **kwargs):
        """A backup while the writer stamps; returns its name and the DataUploads by claim."""
        with stamps.Writer(self.bed, [self.bed.volume_path(claim, self.app) for claim in CLAIMS]):
            backup = self.workspace.backup(self.bed, *self.flags, stem=stem, timeout_seconds=MOVED_SECONDS_MAX, **kwargs)
        name = backup["metadata"]["name"]
        return name, self.uploads(name)

    def uploads(self, backup):
        return {upload["spec"]["sourcePVC"]: upload for upload in mover.uploads_of(self.bed, backup)}

    def base_of(self, claim):
        """The driver's snapshot that is kept as the base of a claim."""
        [handle] = [base["status"]["snapshotHandle"] for base in mover.bases(self.bed, self.app)
                    if base["metadata"]["annotations"]["mover.csi-delta.io/claim"] == claim]
        return handle

    def restore(self, backup):
        """Into another namespace: all volumes are as they were at one instant."""
        target, _ = self.workspace.copy(self.bed, backup, self.app, stem=f"copy-of-{backup}", timeout_seconds=MOVED_SECONDS_MAX)
        check_one_instant(self.bed, target)

    def await_groups(self, count):
        """Waits until the driver holds so many groups, and nothing of single moves is left."""
        self.bed.wait_for(lambda: len(self.bed.driver.groups()) == count, GONE_SECONDS_MAX,
                          lambda: f"{count} groups: {self.bed.driver.groups()}")
        moving.await_nothing_left(self.bed, moving.UPLOADS)

    def strays(self):
        """What there is beside one group whose members are the bases of all claims; empty when that is all."""
        bed = self.bed
        bases = mover.bases(bed, self.app)
        records = [record["metadata"]["name"] for record in bed.api.list("volumegroupsnapshotcontents")]
        kept = {base["status"]["snapshotHandle"] for base in bases if "status" in base}
        found = [base["metadata"]["name"] for base in bases if base["metadata"]["labels"].get(RECORD) not in records]
        found += [o["metadata"]["name"] for plural in ("volumesnapshotcontents", "volumesnapshots", "volumegroupsnapshots")
                  for o in bed.api.list(plural) if not mover.is_base(o)]
        found += [claim["metadata"]["name"] for claim in bed.api.list("persistentvolumeclaims", self.app)
                  if MARK in claim["metadata"].get("labels", {})]
        there = (len(records), len(bases), len(bed.driver.groups()), set(bed.driver.snapshots()))
        return found if there == (1, len(CLAIMS), 1, kept) else [*found, there]

    def await_one_group(self):
        self.bed.wait_for(lambda: not self.strays(), GONE_SECONDS_MAX, lambda: f"one group alone: {self.strays()}")
        moving.await_nothing_left(self.bed, moving.UPLOADS)

    def end(self):
        """Without the claims the bases are not needed, and they go as a group."""
        self.bed.driver.clear_faults()
        for claim in CLAIMS:
            self.bed.api.delete("persistentvolumeclaims", claim, self.app)
        with mover.stopped(self.bed):
            self.bed.wait_for(lambda: not self.bed.api.list("persistentvolumeclaims", self.app), GONE_SECONDS_MAX,
                              "the end of the claims")
        self.await_groups(0)  # The driver deletes a group a moment before its content is gone.
        self.bed.wait_for(lambda: not self.bed.api.list("volumegroupsnapshotcontents"), GONE_SECONDS_MAX,
                          "the end of the group's content")


def check_one_instant(bed, namespace):
    """All volumes of a group were restored, as they were at one instant."""
    for claim in CLAIMS:
        bed.wait_bound(claim, namespace)
    paths = [bed.volume_path(claim, namespace) for claim in CLAIMS]
    if stamps.spread(paths) > 1:
        raise data.LostData(f"not of one instant: {[stamps.read(path) for path in paths]}")


def reasons(uploads):
    """By claim: full or incremental, and why full."""
    return {claim: (moving.mode(upload), moving.reason(upload)) for claim, upload in uploads.items()}
