"""Any process is killed while a volume group is moved: one more backup, and the driver holds one group, the bases of all.

A point is a place between two writes: of our plugin, which makes the group and adopts it, or of the data mover, which
takes its members, makes them bases and releases the group before. A run sees a few, drawn by chance.py.
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
from call_gate import CallGate
from changes import Changes
from moved_groups import CLAIMS

POINTS = {"plugin": range(38), "controller": range(1, 51)}
LEAST_POINTS = {"plugin": 36, "controller": 24}  # That every backup has.
ADOPTED = range(28, 36)  # About here the plugin makes single snapshots of a group that has gone.
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

    def phase(self, backup):
        return (self.bed.api.get("backups", backup, self.bed.namespace) or {}).get("status", {}).get("phase")

    def await_end(self, backup):
        """Waits until a backup and its DataUploads have ended; returns its phase and those that were moved."""
        phase = self.bed.wait_phase("backups", backup, ENDED, SECONDS_MAX)["status"]["phase"]

        def ended():
            found = self.database.uploads(backup)
            return found if all(u["status"].get("phase") in mover.ENDED for u in found.values()) else None
        uploads = self.bed.wait_for(lambda: ended() is not None, SECONDS_MAX, "end of the DataUploads") and ended()
        print(f"{backup}: {phase}: {({claim: u['status'] for claim, u in uploads.items()})}")
        return phase, {claim: u for claim, u in uploads.items() if u["status"]["phase"] == "Completed"}

    def check_backup(self, stem):
        """One more backup has all claims, and nothing is left but its group."""
        backup, uploads = self.database.back_up(stem)
        self.check_moved(backup, uploads)

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


def drawn(kind):
    """How many writes have passed before the kill."""
    if chance.EVERYTHING:
        return POINTS[kind]
    drawing = chance.draw("moved group", kind)
    if kind == "plugin":
        return [drawing.randrange(ADOPTED.start), drawing.choice(ADOPTED)]
    return [drawing.choice(POINTS[kind][:LEAST_POINTS[kind]])]


def given_to_the_dead(bed, backup):
    """The claims for which Velero called a plugin that was killed: it may call it several times before it notices."""
    errors = [line for line in bed.error_lines(backup) if "code = Unavailable" in line]
    return {claim for claim in CLAIMS if any(f"name={claim})" in line for line in errors)}


def labels_a_claim(method, path):
    """The first write of a group that is made."""
    return method == "PATCH" and "/persistentvolumeclaims/" in path


@pytest.mark.parametrize("point", drawn("plugin"))
def test_a_plugin_that_is_killed_between_two_writes_costs_what_it_was_given(story, point, record_property):
    with CallGate(story.bed) as gate:
        gate.hold_after(point, labels_a_claim, writes_only=True)
        name = story.begin(f"plugin-{point}")
        met = gate.await_held(lambda: story.phase(name) in ENDED, SECONDS_MAX)
        record_property("points", int(met))
        assert met or point > LEAST_POINTS["plugin"], gate.calls()
        if met:
            print(f"killed before {gate.calls()[-1]}, {story.phase(name)}")
            for process in story.bed.plugin_processes():
                process.signal(signal.SIGKILL)
        gate.open()
        phase, moved = story.await_end(name)
    assert phase == "Completed" or (phase == "PartiallyFailed" and met)
    lost = set(CLAIMS) - set(moved)
    assert met or not lost
    assert lost == given_to_the_dead(story.bed, name)
    assert len({moving.annotation(upload, "volume-group-cut-at") for upload in moved.values()}) == 1
    story.check_backup(f"after-plugin-{point}")


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


@pytest.mark.parametrize("point", drawn("controller"))
def test_a_controller_that_is_killed_between_two_writes_goes_on_with_its_groups(story, point, record_property):
    bed = story.bed
    members = {"labelSelector": moved_groups.RECORD}
    with Changes(bed, [("volumesnapshotcontents", None, members), ("volumegroupsnapshotcontents", None, members)]) as changes:
        with stamps.Writer(bed, [bed.volume_path(claim, story.database.app) for claim in CLAIMS]):
            name = story.begin(f"controller-{point}")
            met = changes.await_count(point, takes_a_member, old_group_is_gone, SECONDS_MAX)
            record_property("points", int(met))
            assert met or point > LEAST_POINTS["controller"], changes.seen(takes_a_member)
            kill_controller(bed)
            print(f"killed after {changes.seen(takes_a_member)[-1:]}")
            phase, moved = story.await_end(name)
    assert phase == "Completed"
    story.check_moved(name, moved)
