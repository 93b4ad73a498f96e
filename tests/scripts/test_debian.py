"""Which archive other releases come from, and when a missing or stale one is a failure."""

import contextlib
import os

import console
import debian
import pytest

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


@pytest.mark.parametrize("release, found", [(debian.platform.freedesktop_os_release()["VERSION_CODENAME"], True), ("stable", True), ("else", False)])
def test_the_archive_is_that_of_the_machines_own_release(monkeypatch, release, found):
    monkeypatch.setattr(console, "output", lambda command: "http://deb.example/debian\n" * 2 if command[-1] == f"Release: {release}" else "")
    with contextlib.nullcontext() if found else pytest.raises(console.Failure, match="name no Debian archive"):
        assert debian.archive() == "http://deb.example/debian"


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
