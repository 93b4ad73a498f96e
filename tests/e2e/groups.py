"""VolumeGroupSnapshots as a person makes and deletes them, claims of one group, and what is there of both."""

import json

import bed as bed_module
import objects
import stamps

MIB = 1 << 20
MEMBERS_SECONDS_MAX = bed_module.CHANGE_SECONDS_MAX
CLAIMS = ("data", "log", "wal")
LABEL = "velero.io/volume-group"
MARK = "velero.io/csi-delta-group"  # Of claims while their group is made.
MEMBERS = "velero.io/csi-delta-group-members"
SNAPSHOT_KINDS = ("volumegroupsnapshots", "volumegroupsnapshotcontents", "volumesnapshots", "volumesnapshotcontents")


class Database:
    """A namespace with three claims of one group, and a fourth claim of none."""

    def __init__(self, bed, workspace, size_bytes=8 * MIB):
        self.bed = bed
        self.workspace = workspace
        bed.await_endings()
        await_driver_empty(bed)  # All that is counted from here on is this group's.
        self.app = workspace.namespace(bed)
        bed.create_claims(CLAIMS, self.app, size_bytes, labels={LABEL: "db"})
        bed.create_claim("alone", self.app, MIB)
        self.flags = workspace.by_policy(bed, self.app)

    def paths(self, namespace):
        return [self.bed.volume_path(claim, namespace) for claim in CLAIMS]

    def back_up(self, stem="backup"):
        """A backup while the writer stamps; returns its name."""
        with stamps.Writer(self.bed, self.paths(self.app)):
            backup = self.workspace.backup(self.bed, *self.flags, stem=stem)
        self.bed.assert_clean("backup", backup)
        return backup["metadata"]["name"]

    def begin(self, stem, *flags):
        """Starts a backup; returns its name."""
        name = self.workspace.name(stem)
        self.workspace.expect_backup(self.bed, name)
        self.bed.velero("backup", "create", name, *self.flags, *flags)
        return name

    def restore(self, backup, namespace, *flags, bed=None):
        """Into a namespace, of this bed or another."""
        bed = bed or self.bed
        self.workspace.expect_namespace(bed, namespace)
        restore = bed.restore(self.workspace.name(f"into-{namespace}"), "--from-backup", backup,
                              "--namespace-mappings", f"{self.app}:{namespace}", *flags)
        assert restore["status"].get("errors", 0) == 0

    def expect_one_instant(self, namespace, bed=None):
        """The restored volumes have stamps, and of one instant where the driver cuts volumes so."""
        bed = bed or self.bed
        for claim in CLAIMS:
            bed.wait_bound(claim, namespace)
        paths = [bed.volume_path(claim, namespace) for claim in CLAIMS]
        found = [stamps.read(path) for path in paths]
        assert min(found) > 0, found
        assert not bed.driver.cuts_at_once or stamps.spread(paths) <= 1, found


def await_objects_gone(bed, namespace):
    """The controllers remove what the backup released, and no claim has the label of the making of a group."""
    def left():
        return [o["metadata"]["name"] for plural in SNAPSHOT_KINDS for o in bed.api.list(plural)]
    bed.wait_gone(lambda: not left(), MEMBERS_SECONDS_MAX, lambda: f"no objects of snapshots: {left()}")
    for claim in bed.api.list("persistentvolumeclaims", namespace):
        assert MARK not in claim["metadata"].get("labels", {})


def await_driver_has(bed, group_count, snapshot_count):
    def there():
        return len(bed.driver.groups()), len(bed.driver.snapshots())
    bed.wait_gone(lambda: there() == (group_count, snapshot_count), MEMBERS_SECONDS_MAX,
                  lambda: f"{group_count} groups and {snapshot_count} snapshots, not {there()}")


def await_driver_empty(bed):
    await_driver_has(bed, 0, 0)


def archived_members(bed, backup):
    """Claims and snapshot handles of the one group that a backup has, as its archive says."""
    content, = bed.archived(backup, "volumegroupsnapshotcontents")
    told = json.loads(content["metadata"]["annotations"][MEMBERS])
    return {member["claim"]: member["snapshotHandle"] for member in told}


def create(bed, name, namespace, match_labels):
    """Makes a VolumeGroupSnapshot of the claims with these labels and waits until it is ready; returns it."""
    bed.api.create("volumegroupsnapshots", objects.volume_group_snapshot(name, namespace, match_labels))
    return wait_ready(bed, name, namespace)


def wait_ready(bed, name, namespace):
    """Waits until a VolumeGroupSnapshot is ready; returns it."""
    def ready():
        group = bed.api.get("volumegroupsnapshots", name, namespace)
        return group and group.get("status", {}).get("readyToUse") and group
    return bed.wait_for(ready, MEMBERS_SECONDS_MAX, lambda: f"volume group snapshot {namespace}/{name} ready: "
                        f"{bed.api.get('volumegroupsnapshots', name, namespace)}")


def content_of(bed, group):
    """The VolumeGroupSnapshotContent that a group is bound to."""
    return bed.api.get("volumegroupsnapshotcontents", group["status"]["boundVolumeGroupSnapshotContentName"])


def is_member(snapshot, group):
    return any(owner["uid"] == group["metadata"]["uid"] for owner in snapshot["metadata"].get("ownerReferences", []))


def members(bed, group, count):
    """Waits until a group has so many VolumeSnapshots and all are ready; returns them by the names of their claims."""
    def ready():
        found = [s for s in bed.api.list("volumesnapshots", group["metadata"]["namespace"]) if is_member(s, group)]
        return len(found) == count and all(s.get("status", {}).get("readyToUse") for s in found) and found
    found = bed.wait_for(ready, MEMBERS_SECONDS_MAX, f"{count} ready members of {group['metadata']['name']}")
    return {s["spec"]["source"]["persistentVolumeClaimName"]: s for s in found}


def handle_of(bed, snapshot):
    """The driver's handle of a VolumeSnapshot."""
    content = bed.api.get("volumesnapshotcontents", snapshot["status"]["boundVolumeSnapshotContentName"])
    return content["status"]["snapshotHandle"]


def delete(bed, group):
    """Deletes a VolumeGroupSnapshot, and waits until it, its members and its content are gone."""
    name, namespace = group["metadata"]["name"], group["metadata"]["namespace"]

    def left():
        return [*filter(None, (bed.api.get("volumegroupsnapshots", name, namespace), content_of(bed, group))),
                *(s for s in bed.api.list("volumesnapshots", namespace) if is_member(s, group))]
    bed.api.delete("volumegroupsnapshots", name, namespace)
    bed.wait_for(lambda: not left(), MEMBERS_SECONDS_MAX, lambda: f"end of group {namespace}/{name}: {left()}")
