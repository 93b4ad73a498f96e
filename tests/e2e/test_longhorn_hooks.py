"""Hooks of a Pod around a native snapshot of Longhorn: what is written after the second one is not in it."""

import pytest

import longhorn
import people
from test_mover_hooks import FREEZE, THAW, app, begin_writing, noted, told  # pylint: disable=unused-import

# pylint: disable=redefined-outer-name

pytestmark = [pytest.mark.cluster(node=True, driver_name="driver.longhorn.io"),
              pytest.mark.own_driver("its file systems are folders, of which the stand-in takes no snapshot")]


@pytest.mark.parametrize("state", ["attached", "detached"])
def test_a_native_snapshot_is_taken_between_the_hooks(bed, workspace, app, state, record_property):
    """Of a detached volume, too, which Longhorn attaches first: the second hook waits until it is taken."""
    with longhorn.running(bed, "--driver-state", str(bed.driver.state_dir)):
        longhorn.grant(bed)
        volume = bed.volume_handle("data", app)
        longhorn.create_volume(bed, volume, attached=state == "attached")
        begin_writing(bed, app, FREEZE, THAW, as_root=True)
        backup = workspace.backup(bed, *workspace.by_policy(bed, app, "longhorn"))
        assert backup["status"]["hookStatus"] == {"hooksAttempted": 2}
        copy, = (bed.driver.state_dir / "longhorn" / volume).iterdir()
        begun, taken, ended = noted(bed, app, "from"), copy.stat().st_mtime, noted(bed, app, "to")
        assert begun <= taken <= ended, (begun, taken, ended)
        with people.mounted(copy) as folder:
            assert (folder / "stamps").read_text() == told(bed, app, "cat /tmp/held")
    record_property("held_ms", round(1000 * (ended - begun)))
    print(f"{state}: held still for {ended - begun:.2f} s, taken after {taken - begun:.2f} s")
