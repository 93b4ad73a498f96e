"""The bed itself: stock Velero backs up and restores in it, and it goes away without a trace.

If this file fails, no other scenario means anything.
"""

import subprocess
import sys

import pytest

import data
import processes

MIB = 1 << 20
pytestmark = pytest.mark.bed

# A run that makes a bed with a claim, a mount and a loop device, and then is killed.
KILLED_RUN = """
import pathlib, subprocess, sys, time
import bed, processes
processes.RECORDS = pathlib.Path(sys.argv[1])
b = bed.Bed.up()
b.create_namespace("app")
b.create_claim("data", "app", 1 << 20)
image, mounted = b.state / "image", b.state / "mounted"
with open(image, "wb") as file:
    file.truncate(16 << 20)
mounted.mkdir()
subprocess.run(["mkfs.ext4", "-q", image], check=True)
device = subprocess.run(["losetup", "--find", "--show", image], check=True, capture_output=True,
                        text=True).stdout.strip()
subprocess.run(["mount", device, mounted], check=True)
print(b.name, b.state, flush=True)
time.sleep(3600)
"""


def test_stock_backup_and_restore_of_a_block_volume(stock_bed, workspace):
    bed = stock_bed
    # Below all contents are deleted: what an earlier test left to the controllers has to be gone by then.
    bed.wait_gone(lambda: not bed.api.list("volumesnapshotcontents"), 60, "end of the contents of earlier tests")
    before = bed.inventory()
    app, written = workspace.volume(bed, 64 * MIB)
    backup = workspace.backup(bed, "--include-namespaces", app)
    assert backup["status"]["csiVolumeSnapshotsCompleted"] == 1
    assert backup["status"].get("errors", 0) == 0
    assert len(bed.driver.snapshots()) == len(before["driver snapshots"]) + 1

    bed.delete_namespace(app)
    restore = bed.restore(workspace.name("restore"), "--from-backup", backup["metadata"]["name"])
    assert restore["status"].get("errors", 0) == 0
    bed.wait_bound("data", app)
    data.expect(bed.volume_path("data", app), written)

    workspace.clear()
    # Stock leaves the content that its restore made; there is no snapshot behind it any more.
    for content in bed.api.list("volumesnapshotcontents"):
        assert content["spec"]["deletionPolicy"] == "Retain"
        bed.api.delete("volumesnapshotcontents", content["metadata"]["name"])
    bed.wait_gone(lambda: bed.inventory() == before, 60,
                  lambda: f"what was there before, {before}, not {bed.inventory()}")


def test_killed_run_is_cleaned_up_by_the_next(killed_run):
    name, state = killed_run(KILLED_RUN)
    left = processes.traces(name, [state])
    assert any(t.startswith("process") for t in left), left
    assert any(t.startswith("mount") for t in left), left
    assert any(t.startswith("loop device") for t in left), left

    assert name in processes.wipe_orphans()
    assert processes.traces(name, [state]) == []


def test_an_orphan_record_never_ends_a_stranger(tmp_path, monkeypatch):
    """The pid of a dead component may be another process's by now; its start time tells."""
    monkeypatch.setattr(processes, "RECORDS", tmp_path)
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with stranger:
        real = processes.ProcessId.of(stranger.pid)
        earlier = processes.ProcessId(real.pid, real.start_ticks - 1)
        record = processes.Record("csd-stranger", [], owner=earlier, processes={"etcd": earlier})
        record.save()
        assert record.orphaned()
        record.wipe()
        assert stranger.poll() is None
        stranger.communicate(b"\n")
