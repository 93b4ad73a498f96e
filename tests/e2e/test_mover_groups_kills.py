"""The data mover is killed while a volume group is moved: one more backup, and the driver holds one group, the bases of all.

A point is a place between two writes: of the members that it takes and makes bases, or of the group before, which it
releases. A run sees one, drawn by chance.py.
"""

import signal

import pytest

import chance
import data
import moved_groups
import mover
import moving
import stamps
from bed import ENDED
from changes import Changes
from moved_groups import CLAIMS

POINTS = range(1, 51)
LEAST_POINTS = 24  # That every backup has.
SECONDS_MAX = 300

pytestmark = [pytest.mark.moves, pytest.mark.group, pytest.mark.sweep, pytest.mark.own_driver("holds groups whole")]


class Story:
    """One group that is moved again and again."""

    def __init__(self, bed, workspace):
        self.bed = bed
        self.database = moved_groups.Database(bed, workspace)
        self._backups = [self.database.back_up("first")[0]]
        self.database.await_one_group()
        self._ring = moving.exported_keys(bed, bed.scratch / "groups.keys")

    def begin(self, stem):
        self._backups.append(self.database.begin(stem))
        return self._backups[-1]

    def await_end(self, backup):
        """Waits until a backup and its DataUploads have ended; returns its phase and those that were moved."""
        phase = self.bed.wait_phase("backups", backup, ENDED, SECONDS_MAX)["status"]["phase"]

        def ended():
            found = self.database.uploads(backup)
            return found if all(u["status"].get("phase") in mover.ENDED for u in found.values()) else None
        uploads = self.bed.wait_for(lambda: ended() is not None, SECONDS_MAX, "end of the DataUploads") and ended()
        print(f"{backup}: {phase}: {({claim: u['status'] for claim, u in uploads.items()})}")
        return phase, {claim: u for claim, u in uploads.items() if u["status"]["phase"] == "Completed"}

    def check_moved(self, backup, uploads):
        """All were moved as of one instant, and their group is all that is there."""
        assert set(uploads) == set(CLAIMS)
        self.database.await_one_group()
        images = [self.bed.state / f"{claim}.img" for claim in CLAIMS]
        for claim, image in zip(CLAIMS, images):
            moving.restored_from_bucket(self.bed, uploads[claim], self._ring, image)
        if stamps.spread(images) > 1:
            raise data.LostData(f"not of one instant: {[stamps.read(image) for image in images]}")
        for old in self._backups:
            self.bed.drop_backup(old)
        self._backups = [backup]


@pytest.fixture(scope="module")
def story(beds, shared_workspace):
    bed = beds.get(node=True)
    moved_groups.serve(bed)
    made = Story(bed, shared_workspace)
    yield made
    made.database.end()


def drawn():
    """How many writes have passed before the kill."""
    return POINTS if chance.EVERYTHING else [chance.draw("moved group", "controller").choice(POINTS[:LEAST_POINTS])]


def kill_controller(bed):
    """Its Pod goes, too: else the kubelet would wait ever longer before it starts the next one."""
    for process in moving.running(bed, "datamover"):
        process.signal(signal.SIGKILL)
    for pod in mover.pods(bed):
        bed.api.raw("DELETE", f"/api/v1/namespaces/{mover.NAMESPACE}/pods/{pod['metadata']['name']}",
                    {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})


def takes_a_member(change):
    """The first write of the data mover to what there is of a group."""
    return (change.verb, change.kind) == ("ADDED", "volumesnapshotcontents") and change.name.startswith("du-")


def old_group_is_gone(changes):
    """The contents of its members go last."""
    return len([c for c in changes if c.verb == "DELETED" and c.kind == "volumesnapshotcontents" and c.name.startswith("du-")]) >= 3


@pytest.mark.parametrize("point", drawn())
def test_a_controller_that_is_killed_between_two_writes_goes_on_with_its_groups(story, point, record_property):
    bed = story.bed
    members = {"labelSelector": moved_groups.RECORD}
    with Changes(bed, [("volumesnapshotcontents", None, members), ("volumegroupsnapshotcontents", None, members)]) as changes:
        with stamps.Writer(bed, [bed.volume_path(claim, story.database.app) for claim in CLAIMS]):
            name = story.begin(f"controller-{point}")
            met = changes.await_count(point, takes_a_member, old_group_is_gone, SECONDS_MAX)
            record_property("points", int(met))
            assert met or point > LEAST_POINTS, changes.seen(takes_a_member)
            kill_controller(bed)
            print(f"killed after {changes.seen(takes_a_member)[-1:]}")
            phase, moved = story.await_end(name)
    assert phase == "Completed"
    story.check_moved(name, moved)
