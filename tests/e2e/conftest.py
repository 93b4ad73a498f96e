"""Fixtures of the scenarios: beds that are shared by a whole run, and a workspace for each test."""

import os
import secrets

import pytest

import bed as bed_module
import components
import csi_drivers
import policy
import rights


def pytest_addoption(parser):
    parser.addoption("--csi-driver", default=None,
                     help="CSI driver to run instead of the project's own, by path")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "own_driver(reason): cannot run against a driver that is given by path")
    if config.getoption("--csi-driver"):
        os.environ["CSI_DELTA_CSI_DRIVER"] = os.path.abspath(config.getoption("--csi-driver"))


def pytest_collection_modifyitems(items):
    # The judgement of what the plugin asked for comes when everything else has run.
    items.sort(key=lambda item: item.path.name == "test_privileges.py")
    driver = bed_module.driver_path()
    if driver.name != csi_drivers.UPSTREAM_PROGRAM:
        return
    for item in items:
        marker = item.get_closest_marker("own_driver")
        if marker:
            item.add_marker(pytest.mark.skip(reason=f"{driver.name}: {marker.args[0]}"))


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
        self._requests = []  # Of our plugin, in beds that are down.

    def get(self, *, velero="1.18.1", namespace="velero", plugin=True, node=False):
        """A running bed with Velero's default flags, with or without our plugin and a node."""
        key = (velero, namespace, node)
        if key not in self._beds:
            self._make_room()
            settings = bed_module.Settings(velero=velero, namespace=namespace, plugin=plugin,
                                           node=node)
            self._beds[key] = bed_module.Bed.up(settings)
        bed = self._beds[key]
        for name in components.ORDER:  # A test that failed may have left something off.
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
            self._requests += self._requests_in(bed)
            bed.down()

    @staticmethod
    def _requests_in(bed):
        return rights.requests_of(bed.plugin_events())

    def plugin_requests(self):
        """All that our plugin asked of the API servers in this run, but where it was to be refused."""
        return self._requests + [r for bed in self.running() for r in self._requests_in(bed)]

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
def bed(beds):
    """Velero 1.18.1 with our plugin."""
    return beds.get()


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
        """Creates a ConfigMap of volume policies in Velero's namespace; returns its name."""
        name = self.name(f"policy-{len(self._policies)}")
        bed.api.create("configmaps", policy.config_map(name, bed.namespace, rules))
        self._policies.append((bed, name))
        return name

    def clear(self):
        """Deletes everything; waits until it is gone. Called at the end of the test, or by it."""
        while self._backups:
            bed, name = self._backups.pop()
            if bed.api.get("backups", name, bed.namespace):
                bed.delete_backup(name)
        while self._policies:
            bed, name = self._policies.pop()
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


@pytest.fixture(scope="module")
def shared_workspace():
    """What the tests of one file share."""
    space = Workspace()
    yield space
    space.clear()
