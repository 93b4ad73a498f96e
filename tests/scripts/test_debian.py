"""Which archive other releases come from, and when a missing or stale one is a failure."""

import os
import time

import console
import debian
import pytest

LISTING = """'http://deb.example/debian/dists/bookworm/InRelease' deb.example_debian_dists_bookworm_InRelease 0
'http://deb.example/debian/dists/bookworm-updates/InRelease' deb.example_updates_InRelease 0
'http://deb.example/debian-security/dists/bookworm-security/InRelease' deb.example_security_InRelease 0
"""


class Mirror:
    """Stands for debian.Release: a mirror that has some releases, each with one version of restic."""

    versions = {}
    error = None
    asked = 0

    def __init__(self, name):
        self._name = name

    def refresh(self):
        Mirror.asked += 1
        if Mirror.error:
            raise Mirror.error
        if self._name not in Mirror.versions:
            raise debian.NoSuchRelease(f"the mirror does not carry Debian's {self._name}")

    def unpack(self, package):
        folder = console.cache_dir() / "debian" / f"{package}_{Mirror.versions[self._name]}_amd64"
        (folder / "usr" / "bin").mkdir(parents=True, exist_ok=True)
        for program in {"prometheus": ("prometheus", "promtool")}.get(package, (package,)):
            (folder / "usr" / "bin" / program).write_text(Mirror.versions[self._name])
        return folder


@pytest.fixture(name="cache")
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CSI_DELTA_CACHE", str(tmp_path))
    monkeypatch.setattr(debian, "Release", Mirror)
    Mirror.versions = {"trixie": "0.18.0-1", "sid": "0.19.1-1"}
    Mirror.error = None
    Mirror.asked = 0
    return tmp_path


def _age(path):
    then = time.time() - debian.FRESH_SECONDS - 60
    os.utime(path, (then, then), follow_symlinks=False)


def test_the_archive_is_that_of_the_machines_own_release():
    assert debian.archive_in(LISTING, "bookworm") == "http://deb.example/debian"
    assert debian.archive_in("'http://deb.example/debian/dists/stable/InRelease' x 0\n",
                             "bookworm") == "http://deb.example/debian"
    assert debian.archive_in("'http://other.example/apt/dists/nodistro/InRelease' x 0\n", "bookworm") is None


def test_each_release_is_fetched_once(cache):
    debian.ensure_restics(newest=False)
    assert (cache / "restic" / "trixie").read_text() == "0.18.0-1"
    assert (cache / "restic" / "sid").read_text() == "0.19.1-1"
    debian.ensure_restics(newest=False)
    debian.ensure_restics(newest=True)
    assert Mirror.asked == 2


def test_a_release_that_moved_is_asked_for_again_the_next_day(cache):
    debian.ensure_restics(newest=False)
    Mirror.versions["sid"] = "0.20.0-1"
    _age(cache / "restic" / "sid")
    debian.ensure_restics(newest=False)
    assert (cache / "restic" / "sid").read_text() == "0.19.1-1"
    debian.ensure_restics(newest=True)
    assert (cache / "restic" / "sid").read_text() == "0.20.0-1"
    assert not list((cache / "debian").glob("restic_0.19*"))


def test_a_mirror_without_sid_is_said_and_no_failure(cache):
    del Mirror.versions["sid"]
    debian.ensure_restics(newest=True)
    assert "does not carry" in (cache / "restic" / "sid.missing").read_text()
    assert list(debian.restics()) == ["bookworm", "trixie"]
    Mirror.versions["sid"] = "0.19.1-1"
    _age(cache / "restic" / "sid.missing")
    debian.ensure_restics(newest=True)
    assert not (cache / "restic" / "sid.missing").exists()


def test_a_mirror_without_trixie_is_a_failure(cache):
    del cache, Mirror.versions["trixie"]
    with pytest.raises(console.Failure, match="does not carry Debian's trixie"):
        debian.ensure_restics(newest=False)


@pytest.mark.parametrize("release", debian.RESTIC_RELEASES)
def test_a_mirror_that_cannot_be_read_is_a_failure_unless_there_is_one_already(cache, release):
    Mirror.error = console.Failure("no route to host")
    with pytest.raises(console.Failure, match="no route"):
        debian.ensure_restics(newest=False)
    Mirror.error = None
    debian.ensure_restics(newest=False)
    Mirror.error = console.Failure("no route to host")
    _age(cache / "restic" / release)
    debian.ensure_restics(newest=True)
    assert (cache / "restic" / release).exists()


def test_promtool_is_fetched_once_and_without_the_server(cache, monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    Mirror.versions["bookworm"] = "2.42.0"
    assert [debian.promtool().read_text() for _ in range(2)] == ["2.42.0"] * 2
    assert Mirror.asked == 1
    assert not list((cache / "debian").glob("prometheus_*"))


def test_an_installed_promtool_is_taken(cache, monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert str(debian.promtool()) == "/usr/bin/promtool"
    assert Mirror.asked == 0 and not (cache / "promtool").exists()
