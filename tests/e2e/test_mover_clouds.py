"""The data mover's whole work in buckets of Azure and Google, as emulators have them."""

import contextlib
import itertools
import json

import pytest

import clouds
import data
import mover
from moving import (CHUNK_BYTES, MIB, MOVED_SECONDS_MAX, await_completed, await_nothing_left, await_phase, check_increment, mode,
                    upload, write_chunks)
from test_mover_checks import ALL_AT_ONCE, check_now, spare_others
from test_mover_delete import await_deleted

VOLUME_BYTES = 64 * MIB
WRITTEN_CHUNKS = (0, 17, 18, 90, 127)

pytestmark = pytest.mark.moves


def completed(bed, backup, name):
    """Waits for a backup and its DataUpload, which is returned."""
    await_phase(bed, name, *mover.ENDED, seconds=MOVED_SECONDS_MAX)
    made = upload(bed, name)
    assert made["status"]["phase"] == "Completed", made["status"]["message"]
    await_completed(bed, backup)
    return made


def journey(bed, workspace, place):
    """From a volume to what is left of its first backup. Each `yield` is a time to look after the others."""
    app, _ = workspace.volume(bed, VOLUME_BYTES, stem=place.provider, labels=mover.RESTRICTED, written_bytes=VOLUME_BYTES // 2)
    full = place.begin_backup(workspace, app, f"{place.provider}-full")
    yield
    first = completed(bed, *full)
    assert mode(first) == "full"
    write_chunks(bed, app, WRITTEN_CHUNKS, 2)
    written = data.checksum(bed.volume_path("data", app))
    begun = place.begin_backup(workspace, app, f"{place.provider}-second")
    yield
    second = completed(bed, *begun)
    check_increment(second, len(WRITTEN_CHUNKS))
    restore, target = place.begin_restore(workspace, app, begun[0], second)
    yield
    bed.wait_bound("data", target)
    bed.wait_phase("restores", restore, ("Completed",))
    data.expect(bed.volume_path("data", target), written)
    checked = check_now(bed, app)
    assert not checked.get("finding") and checked["readBytes"] > VOLUME_BYTES // 2 - CHUNK_BYTES, checked
    place.delete(full[0], first)
    yield
    await_deleted(bed, full[0])
    place.restic_of(second, "check", "--read-data")
    left, = json.loads(place.restic_of(second, "snapshots", "--json"))
    assert left["id"] == second["status"]["snapshotID"].split("/")[5]


@pytest.mark.journey
def test_volumes_are_moved_restored_checked_and_deleted_in_azure_and_google(bed, workspace):
    spare_others(bed, "")
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(location(bed, workspace)) for location in (clouds.azure, clouds.google)]
        with mover.configured(bed, ALL_AT_ONCE):
            for _ in itertools.zip_longest(*(journey(bed, workspace, place) for place in places)):
                pass
            await_nothing_left(bed)
