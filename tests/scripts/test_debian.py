"""Which archive other releases come from, and when a missing or stale one is a failure."""

import os

import console
import debian
import pytest

LISTING = """'http://deb.example/debian/dists/bookworm/InRelease' deb.example_debian_dists_bookworm_InRelease 0
'http://deb.example/debian/dists/bookworm-updates/InRelease' deb.example_updates_InRelease 0
'http://deb.example/debian-security/dists/bookworm-security/InRelease' deb.example_security_InRelease 0
"""


class Mirror:
    """Stands for debian.fetch(): what a mirror has, by release, or the error that it answers with."""

    def __init__(self, folder):
        self.versions, self.asked, self.folder = {"bookworm": "0.14.0", "trixie": "0.18.0", "sid": "0.19.1"}, [], folder

    def fetch(self, release, package, name, program):
        self.asked.append((release, package, name))
        if isinstance(self.versions[release], Exception):
            raise self.versions[release]
        program.write_text(self.versions[release])

    def another_day(self):
        for path in self.folder.iterdir():
            os.utime(path, (0, 0))
        debian.ensure_restics(newest=True)

    def found(self):
        return [(self.folder / release).read_text() for release in debian.RESTIC_RELEASES]


@pytest.fixture(name="mirror")
def _mirror(tmp_path, monkeypatch):
    mirror = Mirror(tmp_path / "restic")
    monkeypatch.setenv("CSI_DELTA_CACHE", str(tmp_path))
    monkeypatch.setattr(debian, "fetch", mirror.fetch)
    return mirror


@pytest.mark.parametrize("listing, archive", [
    (LISTING, "http://deb.example/debian"),
    ("'http://deb.example/debian/dists/stable/InRelease' x 0\n", "http://deb.example/debian"),
    ("'http://other.example/apt/dists/nodistro/InRelease' x 0\n", None)])
def test_the_archive_is_that_of_the_machines_own_release(listing, archive):
    assert debian.archive_in(listing, "bookworm") == archive


def test_each_release_is_fetched_once_a_day(mirror):
    for newest in (False, False, True):
        debian.ensure_restics(newest)
    mirror.versions["sid"] = "0.20.0"
    debian.ensure_restics(newest=True)
    assert len(mirror.asked) == 2 and mirror.found() == ["0.18.0", "0.19.1"]
    mirror.another_day()
    assert len(mirror.asked) == 4 and mirror.found() == ["0.18.0", "0.20.0"]


def test_a_mirror_without_sid_is_said_and_no_failure(mirror):
    mirror.versions["sid"] = debian.NoSuchRelease("the mirror does not carry Debian's sid")
    debian.ensure_restics(newest=True)
    assert "does not carry" in (mirror.folder / "sid.missing").read_text()
    assert list(debian.restics()) == ["bookworm", "trixie"]
    mirror.versions["sid"] = "0.19.1"
    mirror.another_day()
    assert not (mirror.folder / "sid.missing").exists() and mirror.found() == ["0.18.0", "0.19.1"]


@pytest.mark.parametrize("release, error", [
    ("trixie", debian.NoSuchRelease("the mirror does not carry Debian's trixie")), ("trixie", console.Failure("no route")),
    ("sid", console.Failure("no route"))])
def test_a_restic_that_cannot_be_had_is_a_failure_unless_there_is_an_older_one(mirror, release, error):
    versions, mirror.versions = mirror.versions, mirror.versions | {release: error}
    with pytest.raises(console.Failure, match=str(error)):
        debian.ensure_restics(newest=False)
    mirror.versions = versions
    debian.ensure_restics(newest=False)
    mirror.versions = dict.fromkeys(versions, console.Failure("no route"))
    mirror.another_day()
    assert mirror.found() == ["0.18.0", "0.19.1"]


def test_promtool_is_fetched_once_unless_it_is_installed(mirror, monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert str(debian.promtool()) == "/usr/bin/promtool" and not mirror.asked
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    assert debian.promtool() == debian.promtool() and debian.promtool().is_file()
    assert mirror.asked == [("bookworm", "prometheus", "promtool")]
