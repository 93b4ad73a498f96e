"""Trouble during a backup: each has its phase and message; nothing hangs, and nothing stays behind."""

import contextlib
import signal

import pytest

from bed import ENDED

MIB = 1 << 20

pytestmark = pytest.mark.own_driver("needs injected faults")


@pytest.fixture
def app(bed, workspace):
    """A namespace with one written claim. Afterwards one more backup must succeed and clean up."""
    before = bed.inventory()
    name, _ = workspace.volume(bed, MIB)
    yield name
    bed.driver.clear_faults()
    workspace.backup(bed, *_flags(bed, workspace, name), stem="after")
    bed.wait_snapshots_gone(name)
    workspace.clear()
    bed.wait_gone(lambda: bed.inventory() == before, 90,
                  lambda: f"nothing left behind: {before} == {bed.inventory()}")


def _flags(bed, workspace, app):
    return [*workspace.by_policy(bed, app), "--csi-snapshot-timeout", "60s"]


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
