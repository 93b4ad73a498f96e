"""Fixtures of the scenarios: beds that are shared by a whole run, and a workspace for each test."""

import collections
import os
import pathlib
import secrets

import pytest

import bed as bed_module
import components
import csi_drivers
import data
import metadata
import mover
import moving
import policy
import rights

PLUGIN = "plugin"  # Its account, among those whose requests are kept.
DESELECTED = pytest.StashKey()  # Files of tests that move volumes and that the caller left out.


def pytest_addoption(parser):
    parser.addoption("--csi-driver", default=None,
                     help="CSI driver to run instead of the project's own, by path")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "own_driver(reason): cannot run against a driver that is given by path")
    config.addinivalue_line("markers", "upstream_driver: shows what upstream's host-path driver does, and runs with it alone")
    config.addinivalue_line("markers", "sweep: CI sees a sample of its points, ./dev sweep all of them")
    config.addinivalue_line("markers", "long: too long for CI, part of every sweep")
    config.addinivalue_line("markers", "group: of volume groups, as ./dev e2e group runs them")
    config.addinivalue_line("markers", "moves: its bed has a node, the metadata sidecar and the data mover")
    if config.getoption("--csi-driver"):
        os.environ["CSI_DELTA_CSI_DRIVER"] = os.path.abspath(config.getoption("--csi-driver"))


def pytest_deselected(items):
    for item in items:
        if item.get_closest_marker("moves"):
            item.config.stash.setdefault(DESELECTED, set()).add(item.path.name)


def pytest_collection_modifyitems(config, items):
    upstream = bed_module.driver_path().name == csi_drivers.UPSTREAM_PROGRAM
    elsewhere = {"long"} if os.environ.get("CSI_DELTA_SWEEP") != "all" else set()
    elsewhere |= set() if upstream else {"upstream_driver"}
    left_out = [item for item in items if elsewhere & {marker.name for marker in item.iter_markers()}]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    # The judgement of what was asked for comes when everything else has run.
    items.sort(key=lambda item: item.path.name == "test_privileges.py")
    for item in items if upstream else []:
        marker = item.get_closest_marker("own_driver")
        if marker:
            item.add_marker(pytest.mark.skip(reason=f"{csi_drivers.UPSTREAM_PROGRAM}: {marker.args[0]}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Keeps the logs of all beds when a test fails, and says where."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and "beds" in getattr(item, "funcargs", {}):
        for running in item.funcargs["beds"].running():
            report.sections.append((f"logs of bed {running.name}", str(running.save_logs())))


class BedPool:
    """The beds of a run. Starting one takes seconds, so tests share them and tidy up instead."""

    def __init__(self):
        self._beds = {}
        self._requests = collections.defaultdict(list)  # In beds that are down, by account.

    def get(self, *, velero="1.18.1", namespace="velero", plugin=True, node=False, **groups):
        """A running bed with Velero's default flags, with or without our plugin, a node, and what `groups` says.

        `groups` are the settings whose names begin so.
        """
        key = (velero, namespace, node, *sorted(groups.items()))
        if key not in self._beds:
            self._make_room()
            settings = bed_module.Settings(velero=velero, namespace=namespace, plugin=plugin,
                                           node=node, **groups)
            self._beds[key] = bed_module.Bed.up(settings)
        bed = self._beds[key]
        proxy = (components.GROUP_PROXY,) if bed.settings.group_version else ()
        for name in (*proxy, *components.ORDER):  # A test that failed may have left something off.
            if not bed.alive(name):
                bed.stop(name)
                bed.start(name)
        for name in components.ON_DEMAND:
            if name in bed.dead():
                bed.stop(name)
        bed.driver.clear_faults()
        bed.configure_driver()
        bed.configure_velero()
        bed.set_plugin(plugin)
        return bed

    def _make_room(self):
        """One bed at a time: two cores run two of them slower than one after the other."""
        for key in list(self._beds):
            bed = self._beds.pop(key)
            for account, requests in self._requests_in(bed).items():
                self._requests[account] += requests
            bed.down()

    @staticmethod
    def _requests_in(bed):
        users = {bed.plugin_user: PLUGIN, **{mover.user(a): a for a in (mover.CONTROLLER, mover.WORKER)}}
        found = collections.defaultdict(list)
        for event in bed.events_with_rights(users):
            found[users[event["user"]["username"]]].append(event)
        return {account: rights.requests_of(events) for account, events in found.items()}

    def requests(self, account):
        """All that an account of ours asked of the API servers in this run, but where it was to be refused."""
        return self._requests[account] + [
            r for bed in self.running() for r in self._requests_in(bed).get(account, [])]

    def plugin_requests(self):
        return self.requests(PLUGIN)

    def running(self):
        return list(self._beds.values())

    def down(self):
        self._make_room()


@pytest.fixture(scope="session")
def beds():
    pool = BedPool()
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
    """Velero 1.18.1 with our plugin; in tests marked `moves`, with a node and the data mover on it."""
    moves = request.node.get_closest_marker("moves") is not None
    bed = beds.get(node=moves)
    if moves:
        metadata.serve(bed)
        mover.serve(bed)
        moving.forget_deletions(bed)
    return bed


@pytest.fixture
def stock_bed(beds):
    """Velero 1.18.1 without our plugin."""
    return beds.get(plugin=False)


@pytest.fixture
def node_bed(beds):
    """Velero 1.18.1 without our plugin, and a node that runs Pods."""
    return beds.get(plugin=False, node=True)


@pytest.fixture
def old_bed(beds):
    """Velero 1.13.1 with our plugin."""
    return beds.get(velero="1.13.1")


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

    def clear(self):
        """Deletes everything; waits until it is gone. Called at the end of the test, or by it."""
        while self._backups:
            bed, name = self._backups.pop()
            if bed.api.get("backups", name, bed.namespace):
                bed.delete_backup(name)
        while self._policies:
            bed, name, _ = self._policies.pop()
            bed.api.delete("configmaps", name, bed.namespace)
        while self._namespaces:
            bed, name = self._namespaces.pop()
            if bed.api.get("namespaces", name):
                bed.delete_namespace(name, empty_is_enough=True)


@pytest.fixture
def workspace():
    space = Workspace()
    yield space
    space.clear()


@pytest.fixture
def moving_app(bed, workspace):
    """A namespace with one written claim. Afterwards nothing of single moves is left, in cluster and driver."""
    before = moving.snapshots_but_bases(bed)
    name = workspace.namespace(bed, labels=mover.RESTRICTED)
    bed.create_claim("data", name, moving.MOVING_BYTES)
    data.fill(bed.volume_path("data", name), 1, moving.MOVING_BYTES)
    yield name
    bed.driver.clear_faults()
    moving.await_nothing_left(bed, moving.UPLOADS)
    bed.wait_for(lambda: moving.snapshots_but_bases(bed) <= before, moving.GONE_SECONDS_MAX,
                 lambda: f"no snapshots but bases: {moving.snapshots_but_bases(bed) - before}")


@pytest.fixture(scope="module")
def shared_workspace():
    """What the tests of one file share."""
    space = Workspace()
    yield space
    space.clear()
