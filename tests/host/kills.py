"""The plugin is killed between any two of its calls to the API server, in a backup, a restore and a deletion.

An unbroken run tells the calls of a phase. Then each of them is a case: a cluster of its own, the plugin killed before
that call does its work, and what a user does afterwards. In the end nothing is left of all backups, and what was
restored has the data. Cases overlap, because whoever comes after a dead plugin waits for its lease.

Between two calls that only read the cluster is the same, unless Velero writes there, as it does in a restore. Without
--every-call the points of a backup and a deletion are therefore the calls that follow a write, and the first: each
state that a dead plugin can leave behind. Groups are swept with the newest Velero then.
"""

import threading

from cases import Case
from world import rule

EXTRA_POINTS = 1  # Beyond the unbroken run: the plugin may have a call more.
SLACK = 3  # So many calls more than in another run the unbroken one may have had: looks at what is not there yet.
READING = ("get", "list", "watch")


class Sweep:
    """All points of one phase of one story."""

    def __init__(self, name, phase, at_least, **options):
        self.name, self.phase, self.at_least, self.options = name, phase, at_least, options
        self.group = "db" if options.get("groups") else None
        self._met = {}
        self._points = {}
        self._lock = threading.Lock()

    def __str__(self):
        return f"kill in {self.name} at call N"

    def _begin(self, world):
        world.claims("one", "two", group=self.group)
        world.policy(rule("snapshot"))

    def _backup(self, world, name):
        backup = world.backup(name)
        assert backup.phase == "Completed", f"{name}: {backup.errors}"
        return backup

    def _restore(self, world, name, backup, namespace):
        phase, errors, _ = world.restore(name, backup, mapping={"app": namespace})
        assert phase == "Completed", f"{name}: {errors}"
        world.wait_for(lambda: world.data(namespace) == world.data("app"), lambda: f"data: {world.data(namespace)}")

    def _broken(self, world, call, backups):
        """The phase with a kill at a call; 0: without."""
        world.forget_calls()
        if call:
            world.kill_at(call)
        if self.phase == "backup":
            backups.append(world.backup("b1"))
        elif self.phase == "restore":
            world.restore("r1", backups[0], mapping={"app": "copy"}, timeout_s=5)
        else:
            world.delete(backups[0], stop=True)
        world.clear()

    def _prepare(self, world):
        self._begin(world)
        if self.phase == "backup":
            return []
        backups = [self._backup(world, "b1")]
        if self.phase == "deletion":
            self._restore(world, "r0", backups[0], "copy")
        return backups

    def _after(self, world, backups):
        if self.phase == "backup":
            backups.append(self._backup(world, "b2"))
            self._restore(world, "r2", backups[-1], "copy")
        elif self.phase == "restore":
            world.drop_namespace("copy")
            world.wait_for(lambda: not world.data("copy"), "the end of the copy")
            self._restore(world, "r2", backups[0], "again")
        for backup in backups:
            errors, _ = world.delete(backup)
            assert not errors, f"delete {backup.name}: {errors}"
        world.expect_nothing_left()

    def points(self, stage):
        """The calls before which the plugin is to be killed, from 1."""
        with stage.world(**self.options) as world:
            backups = self._prepare(world)
            self._broken(world, 0, backups)
            calls = world.calls()
        writes = [number for number, call in enumerate(calls, 1) if call.split()[0] not in READING]
        if stage.every_call or self.phase == "restore":
            return list(range(1, len(calls) + 1 + EXTRA_POINTS)), len(calls)
        return sorted({1, *(number + 1 for number in writes)}), len(calls)

    def point(self, stage, call):
        with stage.world(**self.options) as world:
            backups = self._prepare(world)
            self._broken(world, call, backups)
            met = world.kills()
            with self._lock:
                self._met.setdefault(stage, set()).update([call] if met else [])
            self._after(world, backups)

    def cases(self, stage):
        points, calls = self.points(stage)
        self._points[stage] = (points, calls)
        return [Case(f"kill in {self.name} at call {call}", lambda stage, call=call: self.point(stage, call))
                for call in points]

    def summarize(self, stage, report, filtered):
        if stage not in self._points:
            return
        met = self._met.get(stage, set())
        points, calls = self._points[stage]
        report.say(f"host: {self.name}: killed at {len(met)} of {len(points)} points; it has {calls} calls")
        if not filtered:
            wanted = [point for point in points if point <= calls - SLACK]
            problem = None if len(met) >= self.at_least and set(wanted) <= met else (
                f"killed at {len(met)} points, at least {self.at_least} wanted; not met: {sorted(set(wanted) - met)}")
            report.add(f"{stage.release.version[1:]}/host/kills in {self.name} were met", report.started, problem,
                       "tests/host/run.py")

SWEEPS = [
    Sweep("a backup", "backup", 10),
    Sweep("a restore", "restore", 10),
    Sweep("a deletion", "deletion", 10),
    Sweep("a backup of a group", "backup", 20, groups="v1"),
    Sweep("a restore of a group", "restore", 20, groups="v1"),
    Sweep("a deletion of a group", "deletion", 8, groups="v1"),
]


def all_cases(stage, report, filters=()):
    cases = []
    for sweep in SWEEPS:
        if sweep.group and not stage.sweeps_groups:
            continue
        # A filter may be the name of any call's case, of those that follow a read, too.
        if not filters or any(text in f"kill in {sweep.name}" or f"kill in {sweep.name}" in text for text in filters):
            try:
                cases += sweep.cases(stage)
            except AssertionError as problem:
                report.add(f"{stage.release.version[1:]}/host/{sweep}", report.started, problem, "tests/host/run.py")
    return cases


def summarize(stage, report, filtered):
    for sweep in SWEEPS:
        sweep.summarize(stage, report, filtered)
