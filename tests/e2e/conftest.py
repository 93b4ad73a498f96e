"""Fixtures of the scenarios: beds that are shared by a whole run, and a workspace for each test."""

import collections
import os
import pathlib
import secrets
import signal
import subprocess
import sys

import pytest

import bed as bed_module
import chance
import cluster_api
import components
import csi_drivers
import data
import leftovers
import mover
import moving
import policy
import processes
import promises
import rights

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "docs"))  # For tests of pages.

PLUGIN = "plugin"  # Its account, among those whose requests are kept.
DESELECTED = pytest.StashKey()  # Files of tests that move volumes and that the caller left out.
POOL = pytest.StashKey()
CURRENT = pytest.StashKey()  # The test that runs.
ORDER = pytest.StashKey()
SETTINGS = pytest.StashKey()  # What a test says of its bed.
BEDS_UP = pytest.StashKey()  # How many beds the run has started.
OLD_VELERO = "1.13.1"
LEFT_SECONDS_MAX = 60
TROUBLE = (bed_module.BedError, cluster_api.ApiError, subprocess.CalledProcessError, OSError, ValueError)  # Of a bed that is ill.
# Tests of these fixtures, and which bed that is.
OF_FIXTURE = {"stock_bed": {"plugin": False}, "node_bed": {"plugin": False, "node": True}, "old_bed": {"velero": OLD_VELERO}}


def pytest_addoption(parser):
    parser.addoption("--csi-driver", default=None,
                     help="CSI driver to run instead of the project's own, by path")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "own_driver(reason): cannot run against a driver that is given by path")
    config.addinivalue_line("markers", "upstream_driver: shows what upstream's host-path driver does, and runs with it alone")
    config.addinivalue_line("markers", "journey: one of the few on the real stack that every run of ./dev test has")
    config.addinivalue_line("markers", "bed: judges the test bed or upstream's programs, nothing of csi-delta; runs when they change")
    config.addinivalue_line("markers", "cluster(second, **settings): its bed, as BedPool.get takes it; `second`: with another one "
                            "on the same storage")
    config.addinivalue_line("markers", "sweep: a run sees a sample of its points, another one each day; ./dev sweep all of them")
    config.addinivalue_line("markers", "long: too long even for `./dev test --all`, part of every sweep")
    config.addinivalue_line("markers", "group: of volume groups, as ./dev e2e group runs them")
    config.addinivalue_line("markers", "moves: its bed has a node, the metadata sidecar and the data mover")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # The beds go down in order, as after Ctrl-C.
    if config.getoption("--csi-driver"):
        os.environ["CSI_DELTA_CSI_DRIVER"] = os.path.abspath(config.getoption("--csi-driver"))


def pytest_deselected(items):
    for item in items:
        if item.get_closest_marker("moves"):
            item.config.stash.setdefault(DESELECTED, set()).add(item.path.name)


def pytest_collection_modifyitems(config, items):
    upstream = bed_module.driver_path().name == csi_drivers.UPSTREAM_PROGRAM
    elsewhere = {"long"} if os.environ.get("CSI_DELTA_SWEEP") != "all" else set()
    elsewhere |= {"bed"} if os.environ.get("CSI_DELTA_BED_TESTS") == "0" else set()
    elsewhere |= set() if upstream else {"upstream_driver"}
    left_out = [item for item in items if elsewhere & {marker.name for marker in item.iter_markers()}]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    sort_by_bed(items)
    for item in items:
        if item.get_closest_marker("journey"):  # The report tells it: a failed one runs once more.
            item.user_properties.append(("journey", True))
    for item in items if upstream else []:
        marker = item.get_closest_marker("own_driver")
        if marker:
            item.add_marker(pytest.mark.skip(reason=f"{csi_drivers.UPSTREAM_PROGRAM}: {marker.args[0]}"))


def key_of(*, velero="1.18.3", namespace="velero", plugin=True, node=False, **groups):
    """Tests with the same key share a bed, whose driver takes groups wherever a test does not say otherwise."""
    del plugin  # A restart of Velero, not another bed.
    if velero != OLD_VELERO and not groups:
        groups = {"groups": True}
    return (velero, namespace, node, *sorted(groups.items()))


def settings_of(item):
    """What a test says of its bed, by fixture and marker."""
    found = {"node": True} if item.get_closest_marker("moves") else {}
    for fixture, settings in OF_FIXTURE.items():
        if fixture in getattr(item, "fixturenames", ()):
            found |= settings
    for marker in reversed(list(item.iter_markers("cluster"))):  # The closest decides.
        found |= marker.kwargs
    return found


def sort_by_bed(items):
    """Each bed is started once, and Velero restarted seldom: with plugin first, without it later; with a second cluster last.

    The check result of what was asked for comes when everything else has run, in the bed that most others have.
    """
    first_seen, everyday = {}, key_of()
    for item in items:
        settings = item.stash[SETTINGS] = settings_of(item)
        second = settings.pop("second", False)
        judges = item.path.name == "test_privileges.py"
        key = key_of(**settings)
        item.stash[ORDER] = (judges, key == everyday, first_seen.setdefault(key, len(first_seen)), second,
                             not settings.get("plugin", True))
    items.sort(key=lambda item: item.stash[ORDER])


def pytest_runtest_setup(item):
    item.session.stash[CURRENT] = item
    pool = item.session.stash.get(POOL, None)
    if pool:
        pool.begin()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Keeps the logs of all beds when a test fails, and says where; and whether it may be tried again."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    pool = item.session.stash.get(POOL, None)
    if pool:
        pool.failed()
        for running in pool.running():
            report.sections.append((f"logs of bed {running.name}", str(running.save_logs())))
    if item.get_closest_marker("sweep"):
        report.sections.append(("what was drawn, once more", chance.replay(item.nodeid)))
    # A second try would find other data and a clean bed, and pass: the runner must not make it.
    final = "lost data" if call.excinfo.errisinstance(data.LostData) else "a failed clean-up" if (
        report.when == "teardown" or call.excinfo.errisinstance(processes.LeftBehind)) else None
    if final:
        for properties in (item.user_properties, report.user_properties):
            properties.append(("never_retry", final))


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"beds started: {config.stash.get(BEDS_UP, 0)}; drawn with CSI_DELTA_SWEEP="
                                f"{'all' if chance.EVERYTHING else chance.SEED}")
    for promise in sorted(promises.not_asserted):
        terminalreporter.write_line(f"not asserted beside other work (CSI_DELTA_QUIET=1 does): {promise}")


class BedPool:
    """The beds of a run. Starting one takes seconds, so tests share them and tidy up instead."""

    def __init__(self, session):
        self._session = session
        self._beds = {}
        self._seconds = {}  # Second clusters, by the bed whose storage they are on.
        self._leftovers = {}
        self._requests = collections.defaultdict(list)  # In beds that are down, by account.
        self._left = []
        self._failed = set()  # Keys of the beds that were up when a test failed, until the next one begins.

    def get(self, **asked):
        """A running bed with Velero's default flags, with or without our plugin, a node, and what the rest says.

        `asked` are settings of bed.Settings: velero, namespace, plugin, node, and those of groups. A test says with a marker
        what it will ask for, so that tests of one bed run one after the other.
        """
        key, plugin = key_of(**asked), asked.get("plugin", True)
        item = self._session.stash[CURRENT]
        said = key_of(**item.stash[SETTINGS])
        if said != key:
            raise bed_module.BedError(f"{item.nodeid} asks for a bed {key} and its marker `cluster` says {said}")
        if key not in self._beds:
            self._make_room()
            settings = bed_module.Settings(**{**asked, "plugin": plugin, **dict(key[3:])})
            self._beds[key] = self._up(settings)
            self._leftovers[key] = leftovers.Leftovers(self._beds[key].inventory())
        bed = self._beds[key]
        self._revive(bed)
        bed.driver.clear_faults()
        bed.configure_driver()
        bed.configure_velero()
        bed.set_plugin(plugin)
        return bed

    def second(self, bed):
        """A second cluster on the storage of a bed, whose Velero sees v1beta1 of the kinds of groups alone; shared, too."""
        if bed not in self._seconds:
            settings = bed_module.Settings(
                velero=bed.settings.velero, namespace="velero-two", plugin=True, groups=bed.settings.groups,
                group_version="v1beta1" if bed.settings.groups else "")
            self._seconds[bed] = self._up(settings, storage_of=bed)
        self._revive(self._seconds[bed])
        return self._seconds[bed]

    def _up(self, settings, **kwargs):
        config = self._session.config
        config.stash[BEDS_UP] = config.stash.get(BEDS_UP, 0) + 1
        return bed_module.Bed.up(settings, **kwargs)

    @staticmethod
    def _revive(bed):
        """Starts what a test that failed may have left off, and what ended with the driver of the other cluster."""
        proxy = (components.GROUP_PROXY,) if bed.settings.group_version else ()
        for name in (*proxy, *components.ORDER):
            if not bed.alive(name) and (name != "csi-driver" or bed.owns_storage):
                bed.stop(name)
                bed.start(name)
        for name in components.ON_DEMAND:
            if name in bed.dead():
                bed.stop(name)

    def failed(self):
        """The test that runs has failed: what it made it may not have deleted."""
        self._failed = set(self._beds)

    def begin(self):
        """Another test begins, or none does any more."""
        for key, left in self._leftovers.items():
            bed = self._beds[key]
            try:
                if key in self._failed:
                    self._recover(bed)
                left.begin(bed.things(), key in self._failed)
                self._failed.discard(key)
            except TROUBLE as error:  # The next test of this bed is told; and it counts.
                bed_module.build.say(f"bed: {error}")

    def _recover(self, bed):
        """What a test that failed left off, held or lying keeps others from tidying up."""
        self._revive(bed)
        bed.driver.clear_faults()

    def _make_room(self, count=True):
        """One bed at a time: two cores run two of them slower than one after the other."""
        self.begin()
        while self._seconds:
            _, second = self._seconds.popitem()
            if count:
                self._judge(second, lambda second=second: (self._revive(second), second.await_endings()))  # By its own provisioner.
            second.down()
        for key in list(self._beds):
            bed, left = self._beds.pop(key), self._leftovers.pop(key)
            if count:
                self._judge(bed, lambda bed=bed, left=left: self._await_nothing_left(bed, left))
            for account, requests in self._requests_in(bed).items():
                self._requests[account] += requests
            bed.down()
        self._failed.clear()

    def _judge(self, bed, clean_up):
        """What a clean-up has to say is kept for the end of the run: the next test has nothing to do with it."""
        try:
            clean_up()
        except TROUBLE as error:
            bed_module.build.say(f"bed: {error}; logs kept in {bed.save_logs()}")
            self._left.append(str(error))

    @staticmethod
    def _await_nothing_left(bed, leftovers_of):
        """Each test tidied up without waiting for the end of all of it."""
        def left():
            return leftovers_of.left(bed.inventory())
        bed.wait_gone(lambda: not left(), LEFT_SECONDS_MAX, lambda: f"nothing left behind in bed {bed.name}: {left()}")

    @staticmethod
    def _requests_in(bed):
        users = {bed.plugin_user: PLUGIN, **{mover.user(a): a for a in (mover.CONTROLLER, mover.WORKER)}}
        found = collections.defaultdict(list)
        for event in bed.events_with_rights(users):
            found[users[event["user"]["username"]]].append(event)
        return {account: rights.requests_of(events) for account, events in found.items()}

    def requests(self, account):
        """All that an account of csi-delta asked of the API servers in this run, but where it was to be refused."""
        return self._requests[account] + [
            r for bed in self.running() for r in self._requests_in(bed).get(account, [])]

    def plugin_requests(self):
        return self.requests(PLUGIN)

    def running(self):
        return list(self._beds.values())

    def down(self, count=True):
        """Ends all; fails when something was left in any of them. Without `count` what is left now is meant to be."""
        self._make_room(count)
        if self._left:
            raise processes.LeftBehind("\n".join(self._left))


@pytest.fixture(scope="session")
def beds(request):
    pool = request.session.stash[POOL] = BedPool(request.session)
    yield pool
    pool.down()


@pytest.fixture
def left_out(request):
    """The files with tests that move volumes of which some do not run."""
    there = {file.name for file in pathlib.Path(__file__).parent.glob("test_*.py") if "pytest.mark.moves" in file.read_text()}
    run = {item.path.name for item in request.session.items}
    return (there - run) | request.config.stash.get(DESELECTED, set())


@pytest.fixture
def bed(beds, request):
    """Velero 1.18.3 with our plugin; in tests marked `moves`, with a node and the data mover on it."""
    moves = request.node.get_closest_marker("moves") is not None
    bed = beds.get(**request.node.stash[SETTINGS])
    if moves:
        mover.serve(bed)
        moving.forget_deletions(bed)
    return bed


@pytest.fixture
def stock_bed(beds):
    """Velero 1.18.3 without our plugin."""
    return beds.get(plugin=False)


@pytest.fixture
def node_bed(beds):
    """Velero 1.18.3 without our plugin, and a node that runs Pods."""
    return beds.get(plugin=False, node=True)


@pytest.fixture
def old_bed(beds):
    """Velero 1.13.1 with our plugin."""
    return beds.get(velero=OLD_VELERO)


@pytest.fixture
def second(beds, bed):
    """A second cluster on the storage of `bed`; see BedPool.second."""
    return beds.second(bed)


# The namespace of a claim, and the CSI handles of its two volume snapshots, which are named so.
Snapshotted = collections.namedtuple("Snapshotted", ["namespace", "one", "two"])


class Workspace:
    """Unique names for one test, and the deletion of what it made under them.

    What a test makes in a bed is made here, or deleted by the test.
    """

    def __init__(self):
        self._suffix = secrets.token_hex(3)
        self._namespaces = []
        self._backups = []
        self._policies = []

    def name(self, stem):
        return f"{stem}-{self._suffix}"

    def namespace(self, bed, stem="app", labels=None):
        """Creates a namespace; returns its name."""
        name = self.name(stem)
        self.expect_namespace(bed, name)
        bed.create_namespace(name, labels)
        return name

    def volume(self, bed, size_bytes, seed=1, *, stem="app", labels=None, written_bytes=None, **claim):
        """A namespace with the claim "data", of which the first bytes are written, by default all; its name, and their SHA-256."""
        app = self.namespace(bed, stem, labels)
        bed.create_claim("data", app, size_bytes, **claim)
        return app, data.fill(bed.volume_path("data", app), seed, written_bytes or size_bytes)

    def volume_with_snapshots(self, bed, size_bytes, write):
        """A claim that was written, snapshotted as "one", written, and snapshotted as "two". `write` takes a path and a seed."""
        app = self.namespace(bed)
        bed.create_claim("data", app, size_bytes)
        handles = []
        for seed, name in enumerate(("one", "two")):
            write(bed.volume_path("data", app), seed)
            handles.append(bed.create_snapshot(name, app, "data"))
        return Snapshotted(app, *handles)

    def expect_namespace(self, bed, name):
        """Also deletes a namespace that something else creates, such as a restore."""
        self._namespaces.append((bed, name))

    def backup(self, bed, *flags, stem="backup", **kwargs):
        """Makes a backup (see Bed.backup) that is deleted in the end; returns the Backup."""
        name = self.name(stem)
        self.expect_backup(bed, name)
        return bed.backup(name, *flags, **kwargs)

    def expect_backup(self, bed, name):
        """Also deletes a backup that the test makes by itself."""
        self._backups.append((bed, name))

    def policy(self, bed, *rules):
        """The name of a ConfigMap of these volume policies in Velero's namespace; made when it is asked for first.

        A new one Velero may not find for a while after the API server was away: it looks into its cache.
        """
        for other_bed, name, made_of in self._policies:
            if other_bed is bed and made_of == rules and bed.api.get("configmaps", name, bed.namespace):
                return name
        name = self.name(f"policy-{len(self._policies)}")
        bed.api.create("configmaps", policy.config_map(name, bed.namespace, rules))
        self._policies.append((bed, name, rules))
        return name

    def copy(self, bed, backup, app, *flags, stem="copy", **kwargs):
        """Restores a backup of a namespace into another one; that one's name, and the Restore."""
        target = self.name(stem)
        self.expect_namespace(bed, target)
        return target, bed.restore(self.name(f"r-{stem}"), "--from-backup", backup, "--namespace-mappings", f"{app}:{target}",
                                   *flags, **kwargs)

    def by_policy(self, bed, app, value="snapshot"):
        """Flags of a backup of a namespace, whose claims a volume policy gives to us."""
        return "--include-namespaces", app, "--resource-policies-configmap", self.policy(bed, policy.rule(value))

    def clear(self):
        """Deletes everything, by the shortest way. Called at the end of the test, or by it.

        Velero's own way takes two seconds for each content of a snapshot, and Pods for the data of a moved volume: a test
        for which that is the promise calls `Bed.delete_backup`. Here go the backup, what its archive names in the storage,
        and the repositories of the namespaces. What a backup left beside that is counted when the bed ends, or by the test.
        """
        snapshotted = []
        for bed, name in self._backups:
            contents = bed.archived(name, "volumesnapshotcontents"), bed.archived(name, "volumegroupsnapshotcontents")
            snapshotted.append((bed, *({h for c in found for h in bed_module.handles_of(c)} for found in contents)))
        while self._backups:
            bed, name = self._backups.pop()
            backup = bed.api.get("backups", name, bed.namespace)
            if backup and backup.get("status", {}).get("phase") in bed_module.ENDED and bed.driver.can_inject_faults:
                bed.drop_backup(name)
            elif backup:
                bed.delete_backup(name)
        while self._policies:
            bed, name, _ = self._policies.pop()
            bed.api.delete("configmaps", name, bed.namespace)
        while self._namespaces:
            bed, name = self._namespaces.pop()
            if bed.api.get("namespaces", name):
                bed.begin_to_delete_namespace(name)
            moving.forget_moved(bed, name)
        for bed, handles, group_handles in snapshotted:
            if bed.driver.can_inject_faults:
                bed.remove_snapshots(handles, group_handles)


@pytest.fixture
def killed_run(tmp_path, monkeypatch):
    """Runs a script that makes a bed and prints its name and state folder, and is killed then; returns both."""
    monkeypatch.setattr(processes, "RECORDS", tmp_path)  # So that no other run cleans up first.

    def run_and_kill(script):
        with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).resolve().parent)}) as run:
            name, state = run.stdout.readline().split()
            run.send_signal(signal.SIGKILL)
        return name, state
    return run_and_kill


@pytest.fixture
def workspace():
    space = Workspace()
    yield space
    space.clear()


@pytest.fixture
def moving_app(bed, workspace):
    """A namespace with one written claim. Afterwards nothing of single moves is left, in cluster and driver."""
    before = moving.snapshots_but_bases(bed)
    yield workspace.volume(bed, moving.MOVING_BYTES, labels=mover.RESTRICTED)[0]
    bed.driver.clear_faults()
    moving.await_nothing_left(bed, moving.UPLOADS)
    bed.wait_gone(lambda: moving.snapshots_but_bases(bed) <= before, moving.GONE_SECONDS_MAX,
                  lambda: f"no snapshots but bases: {moving.snapshots_but_bases(bed) - before}")


@pytest.fixture(scope="module")
def shared_workspace():
    """What the tests of one file share."""
    space = Workspace()
    yield space
    space.clear()
