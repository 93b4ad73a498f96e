"""VolumeGroupSnapshots as a person makes and deletes them, and what is there of one."""

import bed as bed_module
import objects

MEMBERS_SECONDS_MAX = bed_module.CHANGE_SECONDS_MAX


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
