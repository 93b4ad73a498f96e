"""Trouble during a backup: each has its phase and message; nothing hangs, and nothing stays behind."""

import contextlib
import re
import signal

import pytest

import data
import policy
from bed import ENDED

MIB = 1 << 20

pytestmark = pytest.mark.own_driver("needs injected faults")


@pytest.fixture
def app(bed, workspace):
    """A namespace with one written claim. Afterwards one more backup must succeed and clean up."""
    before = bed.inventory()
    name = workspace.namespace(bed)
    bed.create_claim("data", name, MIB)
    data.fill(bed.volume_path("data", name), 1, MIB)
    yield name
    bed.driver.clear_faults()
    workspace.backup(bed, *_flags(bed, workspace, name), stem="after")
    bed.wait_snapshots_gone(name)
    workspace.clear()
    bed.wait_gone(lambda: bed.inventory() == before, 90,
                  lambda: f"nothing left behind: {before} == {bed.inventory()}")


def _flags(bed, workspace, app):
    return ["--include-namespaces", app, "--csi-snapshot-timeout", "60s",
            "--resource-policies-configmap", workspace.policy(bed, policy.rule("snapshot"))]


@contextlib.contextmanager
def _backup_held_in_create_snapshot(bed, workspace, app):
    """Starts a backup and holds the driver in CreateSnapshot for the body; yields its name."""
    name = workspace.name("held")
    workspace.expect_backup(bed, name)
    held = bed.driver.calls("CreateSnapshot")["held"]
    with bed.driver.faults({"method": "CreateSnapshot", "hold": True}):
        bed.velero("backup", "create", name, *_flags(bed, workspace, app))
        bed.driver.await_calls("CreateSnapshot", held=held + 1)
        yield name


def test_create_snapshot_fails(bed, workspace, app):
    refusal = {"method": "CreateSnapshot", "code": "INTERNAL", "message": "the array is on fire"}
    with bed.driver.faults(refusal):
        backup = workspace.backup(bed, *_flags(bed, workspace, app), "--csi-snapshot-timeout", "8s",
                                  expect="PartiallyFailed")
    assert backup["status"]["errors"] == 1
    error, = bed.error_lines(backup["metadata"]["name"])
    assert re.search(f"{app}/data.*the array is on fire", error)


def test_never_ready(bed, workspace, app):
    with bed.driver.faults({"method": "*", "lie": "not_ready"}):
        backup = workspace.backup(bed, *_flags(bed, workspace, app), "--item-operation-timeout",
                                  "10s", expect="PartiallyFailed")
    shown = bed.velero("backup", "describe", backup["metadata"]["name"], "--details").stdout
    # The operation is Velero's own action's, on the VolumeSnapshot that our plugin made; test_old_velero.py has a managed one.
    assert re.search(rf"Operation for volumesnapshots\S* {app}/velero-data-(?s:.)*Asynchronous action timed out", shown), shown


def test_api_server_restarted(bed, workspace, app):
    with _backup_held_in_create_snapshot(bed, workspace, app) as name:
        bed.restart("kube-apiserver", kill=True)
    backup = bed.wait_phase("backups", name, ENDED)
    assert backup["status"]["phase"] == "Completed", bed.error_lines(name)


@pytest.mark.journey
def test_plugin_killed_in_execute(bed, workspace, app):
    with _backup_held_in_create_snapshot(bed, workspace, app) as name:
        killed = bed.plugin_processes()
        assert killed
        for process in killed:
            process.signal(signal.SIGKILL)
        backup = bed.wait_phase("backups", name, ENDED)
    assert backup["status"]["phase"] == "PartiallyFailed"
    assert any("name=data" in error for error in bed.error_lines(name))


def test_access_refused(bed, workspace, app):
    with bed.plugin_without_rights():
        backup = workspace.backup(bed, *_flags(bed, workspace, app), expect="PartiallyFailed")
    error, = bed.error_lines(backup["metadata"]["name"])
    assert re.search(f"{app}/data.*forbidden", error)


@pytest.mark.parametrize("ends", ["as its pod", "alone"])
def test_server_restarted(bed, workspace, app, ends):
    with _backup_held_in_create_snapshot(bed, workspace, app) as name:
        plugins = bed.plugin_processes() if ends == "as its pod" else []
        for plugin in plugins:
            plugin.signal(signal.SIGSTOP)  # One that saw its server go would tidy up.
        bed.stop("velero", kill=True)
        for plugin in plugins:
            plugin.signal(signal.SIGKILL)
        bed.start("velero")
        backup = bed.wait_phase("backups", name, ENDED)
    assert backup["status"]["phase"] == "Failed"


def test_two_hundred_claims(bed, workspace):
    # Its default of one worker: with more, Velero 1.18 ends now and then with "concurrent map writes" of its own.
    bed.configure_velero(server_args=["--features=EnableCSI"])
    before = bed.inventory()
    app = workspace.namespace(bed)
    names = [f"data-{i:03}" for i in range(200)]
    bed.create_claims(names, app, MIB)
    snapshots = set(bed.driver.snapshots())
    with bed.driver.faults({"method": "*", "percent": 10, "seed": 1, "code": "UNAVAILABLE"}):
        backup = workspace.backup(bed, *_flags(bed, workspace, app))
    assert backup["status"].get("warnings", 0) == 0
    assert len(set(bed.driver.snapshots()) - snapshots) == 200
    bed.wait_snapshots_gone(app)
    # Velero takes two seconds for each content that it deletes: the storage is tidied up directly.
    bed.drop_backup(backup["metadata"]["name"])
    for handle in set(bed.driver.snapshots()) - snapshots:
        bed.driver.remove_snapshot(handle)
    workspace.clear()
    bed.wait_gone(lambda: bed.inventory() == before, 120,
                  lambda: f"nothing left behind: {before} == {bed.inventory()}")
