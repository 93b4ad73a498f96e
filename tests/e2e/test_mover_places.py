"""Buckets that fail, keys that change, and other clusters on the same bucket."""

import contextlib

import pytest

import data
import mover
import pki
import places
from bed import ENDED
from moving import (HELD, MIB, MOVE, MOVED_SECONDS_MAX, await_completed, await_nothing_left, await_phase, back_up, begin,
                    restored_checksum, undone, upload)
from promises import within

VOLUME_BYTES = 8 * MIB
REFUSED_SECONDS_MAX = 180
FULL_SECONDS_MAX = 50  # Promised: less than a place that is busy is waited for.
HIDDEN = "bucket.behind.test"
NEW_KEYS = ("secondaccess", "secondsecret")

pytestmark = pytest.mark.moves


@pytest.fixture
def app(bed, workspace):
    """A namespace with one written claim."""
    return workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)[0]


def make_place(bed, workspace, reach=lambda place: contextlib.nullcontext(), **of_place):
    """A place for one test. Afterwards nothing of single moves is left, and no lock in its repositories."""
    place = places.Place(bed, workspace.name("place"), **of_place)
    try:
        with reach(place):
            place.await_available()
            yield place
            if place.gate:
                place.gate.open()
            workspace.clear()
            bed.wait_for(lambda: not undone(bed), REFUSED_SECONDS_MAX, lambda: f"all data deleted: {undone(bed)}")
            await_nothing_left(bed)
            assert not [name for name in place.objects() if "/locks/" in name]
    finally:
        place.remove()
        bed.api.delete("secrets", f"csi-delta-keys-{bed.namespace}.{place.name}", mover.NAMESPACE)


@pytest.fixture
def place(bed, workspace, app):
    del app  # Its end comes after this one's.
    yield from make_place(bed, workspace)


@pytest.fixture
def hidden_place(bed, workspace, app):
    """One behind TLS, with a certificate that only the bed knows, and with a name that only a proxy knows."""
    del app
    pki.make_server(bed.pki, "hidden", f"DNS:{HIDDEN}")

    @contextlib.contextmanager
    def by_proxy(place):
        place.proxy = places.Proxy(bed, HIDDEN, place.server.port)
        bed.configure_velero(server_env={"HTTPS_PROXY": place.proxy.url, "NO_PROXY": bed.host})
        try:
            with mover.configured(bed, {"proxy": {"https": place.proxy.url}}):
                yield
        finally:
            bed.configure_velero()
            place.proxy.close()
    yield from make_place(bed, workspace, by_proxy, tls="hidden", host=HIDDEN)


def flags(place):
    return ("--storage-location", place.name, *MOVE)


def check_fails_and_recovers(bed, workspace, app, place, *words, seconds=REFUSED_SECONDS_MAX):
    """A backup whose upload fails in time with these words in its message; then one that succeeds."""
    backup, name = begin(bed, workspace, app, "refused", *flags(place)[:2])
    await_phase(bed, name, "Failed", seconds=seconds)
    message = upload(bed, name)["status"]["message"]
    for word in (places.BUCKET, f"{app}/data", *words):
        assert word in message, message
    await_nothing_left(bed)
    assert bed.wait_phase("backups", backup, ENDED)["status"]["phase"] == "PartiallyFailed"
    assert place.gate.refused
    place.gate.open()
    check_backup_restores(bed, workspace, app, place, "after")


def check_backup_restores(bed, workspace, app, place, stem):
    backup, _ = back_up(bed, workspace, app, stem, *flags(place))
    written = data.checksum(bed.volume_path("data", app))
    data.same(restored_checksum(bed, workspace, app, backup, f"r-{stem}"), written)


def test_a_bucket_that_is_busy_for_half_a_minute_costs_nothing_but_time(bed, workspace, app, place):
    place.gate.refuse(503, "SlowDown", seconds=30)
    check_backup_restores(bed, workspace, app, place, "busy")
    assert place.gate.refused


@pytest.mark.journey
def test_a_bucket_that_refuses_fails_the_upload_and_says_so(bed, workspace, app, place):
    # All but the writing of data, so that its lock can go.
    place.gate.rule = lambda method, path: (403, "AccessDenied") if method == "PUT" and "/data/" in path else None
    check_fails_and_recovers(bed, workspace, app, place, "403 AccessDenied", "check the rights")


def test_a_bucket_that_is_full_fails_the_upload_within_seconds(bed, workspace, app, place):
    place.gate.rule = lambda method, path: (507, "XMinioStorageFull") if method == "PUT" and "/data/" in path else None
    check_fails_and_recovers(bed, workspace, app, place, "the bucket is full", "507 XMinioStorageFull", "make room",
                             seconds=within(FULL_SECONDS_MAX, "an upload to a full bucket fails"))


def test_a_bucket_that_is_gone_fails_the_upload_and_says_so(bed, workspace, app, place):
    back_up(bed, workspace, app, "before", *flags(place))
    place.gate.refuse(404, "NoSuchBucket", method="GET", part="")
    check_fails_and_recovers(bed, workspace, app, place, "NoSuchBucket", "make the bucket, or correct its name")


def test_credentials_that_change_between_two_backups(bed, workspace, app, place):
    back_up(bed, workspace, app, "old", *flags(place))
    place.server.take_only(NEW_KEYS)
    place.hand_out(NEW_KEYS)
    place.await_available()
    check_backup_restores(bed, workspace, app, place, "new")


@pytest.mark.own_driver("needs injected faults")
def test_credentials_that_change_while_a_volume_is_uploaded(bed, workspace, app, place):
    with bed.driver.faults(HELD):
        backup, name = begin(bed, workspace, app, "rotated", *flags(place)[:2])
        await_phase(bed, name, "InProgress")
        bed.driver.await_calls(HELD["method"], held=1)  # Its repository is made and open.
        place.server.take_only(NEW_KEYS)
        place.hand_out(NEW_KEYS)
    await_phase(bed, name, "Completed", seconds=MOVED_SECONDS_MAX)
    await_completed(bed, backup)


def test_a_bucket_that_a_proxy_alone_reaches_with_a_certificate_of_ones_own(bed, workspace, app, hidden_place):
    check_backup_restores(bed, workspace, app, hidden_place, "hidden")
    assert set(hidden_place.proxy.asked) == {f"{HIDDEN}:{hidden_place.server.port}"}
