"""Restores of a snapshot that the storage does not have any more: said early, and nothing deleted."""

import datetime

import pytest

from promises import within

MIB = 1 << 20

pytestmark = pytest.mark.own_driver("needs a snapshot removed behind the driver's back")


def _saved_and_gone(bed, workspace):
    """A backup whose snapshot has vanished: (namespace, backup name, handle)."""
    before = set(bed.driver.snapshots())
    app, _ = workspace.volume(bed, MIB)
    backup = workspace.backup(bed, *workspace.by_policy(bed, app))["metadata"]["name"]
    handle, = set(bed.driver.snapshots()) - before
    bed.driver.remove_snapshot(handle)
    return app, backup, handle


def _restore(bed, workspace, app, backup, expect):
    """Restores into another namespace; returns that, and what `velero restore describe --details` shows."""
    copy, restore = workspace.copy(bed, backup, app, expect=expect)
    return copy, bed.velero("restore", "describe", restore["metadata"]["name"], "--details").stdout


@pytest.mark.journey
def test_driver_lists_snapshots(bed, workspace):
    app, backup, handle = _saved_and_gone(bed, workspace)
    copy, shown = _restore(bed, workspace, app, backup, "PartiallyFailed")
    assert handle in shown
    assert bed.api.get("persistentvolumeclaims", "data", copy) is None


def test_driver_does_not_list_snapshots(bed, workspace):
    bed.configure_driver("--no-list-snapshots")
    app, backup, handle = _saved_and_gone(bed, workspace)
    app, shown = _restore(bed, workspace, app, backup, "PartiallyFailed")
    claim = bed.api.get("persistentvolumeclaims", "data", app)
    assert claim["status"]["phase"] == "Pending"
    events = [e for e in bed.api.list("events", app)
              if e["involvedObject"]["uid"] == claim["metadata"]["uid"]]
    refusal = next(e for e in events if "code = NotFound" in e["message"])
    ours, = (e for e in events if e["source"].get("component") == "velero-plugin-for-csi-delta")
    assert handle in ours["message"] and f"{app}/data" in ours["message"]
    assert ours["message"] in shown
    waited = (datetime.datetime.fromisoformat(ours["firstTimestamp"])
              - datetime.datetime.fromisoformat(refusal["firstTimestamp"]))
    assert waited.total_seconds() <= within(30, "a restore of a snapshot that is gone fails, after the driver's refusal,")
