"""The plugin is killed between any two of its calls to the API server, in a backup, a restore and a deletion.

An unbroken run tells the states of a phase: what is written so far, by the plugin or by Velero, and the calls of the
plugin in each. Then each of them is a case: a cluster of its own, the plugin killed in that state before its call does its
work, and what a user does afterwards. What archives need is never taken from the driver. In the end nothing is left of
all backups, and what was restored has the data of its backup. Cases overlap, because the process after a dead plugin
waits for its lease.

Between two calls that only read the cluster is the same, unless the controllers change it meanwhile, as they do in a
restore. Without --every-call the points of a backup and a deletion are therefore the first calls of each state. Groups
are swept with the newest Velero then.
"""

import collections
import threading

from cases import Case
from world import rule

Point = collections.namedtuple("Point", ["writes", "call"])  # before this call, from 1, after so many writes


def points_of(calls):
    """Those before each of an unbroken run's calls, in order."""
    points = []
    for call in calls:
        same = points and points[-1].writes == call["writes"]
        points.append(Point(call["writes"], points[-1].call + 1 if same else 1))
    return points


class Sweep:
    """All points of one phase of one story."""

    def __init__(self, name, phase, at_least, **options):
        self.name, self.phase, self.at_least, self.options = name, phase, at_least, options
        self.group = "db" if options.get("groups") else None
        self._met = {}
        self._points = {}
        self._lock = threading.Lock()

    def __str__(self):
        return f"kill in {self.name} after write N"

    def _world(self, stage):
        """One without TLS: the plugin is started a dozen times here, and each handshake takes both sides as long as all
        its calls. What is between them is that of the single cases.
        """
        return stage.world(tls=False, **self.options)

    def _begin(self, world):
        world.claims("one", "two", group=self.group)
        world.policy(rule("snapshot"))

    def _backup(self, world, name):
        backup = world.backup(name)
        assert backup.phase == "Completed", f"{name}: {backup.errors}"
        return backup

    def _told(self, world, backups):
        """The phase itself: how it ended."""
        if self.phase == "backup":
            backups.append(world.backup("b1"))
            return backups[0].phase, backups[0].errors
        if self.phase == "restore":
            phase, errors, _ = world.restore("r1", backups[0], mapping={"app": "copy"}, timeout_s=5)
            return phase, errors
        errors, _ = world.delete(backups[0], stop=True)
        return "Failed" if errors else "Completed", errors

    def _prepare(self, world):
        self._begin(world)
        if self.phase == "backup":
            return []
        backups = [self._backup(world, "b1")]
        if self.phase == "deletion":
            world.must_restore("r0", backups[0], "copy")
        return backups

    def _after(self, world, backups, newest_last):
        if self.phase == "backup":
            world.expect_held(*backups)
            backups.append(self._backup(world, "b2"))
            world.expect_held(*backups)
            world.must_restore("r2", backups[-1], "copy")
        elif self.phase == "restore":
            world.expect_held(*backups)
            world.drop_namespace("copy")
            world.wait_for(lambda: not world.data("copy"), "the end of the copy")
            world.must_restore("r2", backups[0], "again")
        for backup in list(backups) if newest_last else list(reversed(backups)):
            if self.phase != "deletion":
                world.expect_held(*backups)
            errors, _ = world.delete(backup)
            assert not errors, f"delete {backup.name}: {errors}"
            backups.remove(backup)
        world.expect_nothing_left()

    def points(self, stage):
        """Where the plugin is to be killed; and all that there are."""
        with self._world(stage) as world:
            backups = self._prepare(world)
            world.forget_calls()
            phase, errors = self._told(world, backups)
            assert phase == "Completed", f"the unbroken run: {phase}, {errors}"
            every = points_of(world.calls())
        if stage.every_call or self.phase == "restore":
            return every, every
        return [point for point in every if point.call == 1], every

    def point(self, stage, point):
        with self._world(stage) as world:
            backups = self._prepare(world)
            world.forget_calls()
            world.kill_after(point.writes, point.call)
            self._told(world, backups)
            world.clear()
            met = [kill["writes"] for kill in world.kills()]
            with self._lock:
                self._met.setdefault(stage, set()).update([point] if met == [point.writes] else [])
            self._after(world, backups, newest_last=point.writes % 2 == 0)

    def cases(self, stage):
        self._points[stage] = self.points(stage)
        return [Case(self.name_of(point), lambda stage, point=point: self.point(stage, point))
                for point in self._points[stage][0]]

    def name_of(self, point):
        return f"kill in {self.name} after write {point.writes}" + (f" at call {point.call}" if point.call > 1 else "")

    def summarize(self, stage, report, filtered):
        if stage not in self._points:
            return
        met = self._met.get(stage, set())
        points, every = self._points[stage]
        report.say(f"host: {self.name}: killed at {len(met)} of {len(points)} points; it has {len(every)} calls")
        if filtered:
            return
        # A later call of a state may be one of a poll, which another run does not make.
        missed = [self.name_of(point) for point in points if point.call == 1 and point not in met]
        problem = None if len(met) >= self.at_least and not missed else (
            f"killed at {len(met)} points, at least {self.at_least} wanted; not met: {missed}")
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
