"""Programs of Debian's packages, also of other releases, unpacked into the cache and never installed.

The archive's address is that of the machine's own apt sources with another release's name in it. apt itself
fetches, with lists of its own per release, so that signatures and checksums are proven as ever.

    debian/<release>/              apt's lists
    debian/<package>_<version>/    a package, unpacked; kept while a release has it
    restic/<release>               link to the restic of a release; <release>.missing says why none exists
    promtool/promtool              Prometheus' checker of rules, without its server
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import console
from console import Failure, say

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
OS_RELEASE = pathlib.Path("/etc/os-release")
FRESH_SECONDS = 20 * 3600  # A release that moves is asked once a day.
RESTIC_RELEASES = ("trixie", "sid")
UNSTABLE = "sid"  # The one release that a mirror need not have.
PROMTOOL_RELEASE, PROMTOOL_PACKAGE = "bookworm", "prometheus"

_ARCHIVE = re.compile(r"^'([^']+?)/?dists/([a-z]+)/InRelease'", re.MULTILINE)
_FILE = re.compile(r"^'[^']*' (\S+\.deb) \d+", re.MULTILINE)
_NO_RELEASE = "does not have a Release file"


class NoSuchRelease(Failure):
    """The mirror does not carry a release."""


def archive_in(listing, codename):
    """The archive that `apt-get --print-uris update` names for this machine's own release, or None."""
    for address, release in _ARCHIVE.findall(listing):
        if release in (codename, "stable", "oldstable"):
            return address
    return None


def _apt(options, arguments, cwd=None):
    """Runs apt-get. Returns (exit code, its words)."""
    command = ["apt-get", *(word for option in options for word in ("-o", option)), *arguments]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=cwd, env={**os.environ, "LC_ALL": "C"})
    return done.returncode, done.stdout


def _archive():
    codename = re.search(r"^VERSION_CODENAME=(\w+)", OS_RELEASE.read_text(), re.MULTILINE)
    with tempfile.TemporaryDirectory() as empty:
        _, listing = _apt([f"Dir::State::lists={empty}"], ["--print-uris", "update"])
    found = archive_in(listing, codename[1] if codename else "stable")
    if not found:
        raise Failure("apt's sources name no Debian archive; add one to /etc/apt/sources.list")
    return found


class Release:
    """One of Debian's releases, as the machine's mirror has it today."""

    def __init__(self, name):
        self.name = name
        self._folder = console.cache_dir() / "debian" / name
        self._options = [f"Dir::Etc::sourcelist={self._folder}/sources.list", "Dir::Etc::sourceparts=-",
                         f"Dir::State={self._folder}", f"Dir::State::lists={self._folder}/lists",
                         "Dir::State::status=/dev/null", f"Dir::Cache={self._folder}/cache",
                         "Acquire::Retries=3", "APT::Update::Error-Mode=any"]

    def refresh(self):
        """Fetches the lists. NoSuchRelease if the mirror has none of this name."""
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "sources.list").write_text(
            f"deb [target=Packages signed-by={KEYRING}] {_archive()} {self.name} main\n")
        code, words = _apt(self._options, ["update"])
        if _NO_RELEASE in words:
            raise NoSuchRelease(f"the mirror does not carry Debian's {self.name}")
        if code != 0:
            raise Failure(f"apt cannot read the lists of Debian's {self.name}:\n{words.strip()}")

    def unpack(self, package):
        """The folder of a package, unpacked once per version. REQUIRES refresh()."""
        code, words = _apt(self._options, ["--print-uris", "download", package])
        found = _FILE.search(words)
        if code != 0 or not found:
            raise Failure(f"Debian's {self.name} has no {package}:\n{words.strip()}")
        target = self._folder.parent / found[1].removesuffix(".deb")
        if target.is_dir():
            return target
        say(f"setup: {package} of Debian's {self.name}: {target.name}")
        with tempfile.TemporaryDirectory(dir=self._folder.parent) as scratch:
            code, words = _apt(self._options, ["download", package], cwd=scratch)
            if code != 0:
                raise Failure(f"apt cannot fetch {package} of Debian's {self.name}:\n{words.strip()}")
            console.output(["dpkg-deb", "-x", next(pathlib.Path(scratch).glob("*.deb")), f"{scratch}/root"])
            os.rename(f"{scratch}/root", target)
        return target


@contextlib.contextmanager
def _alone(folder):
    """Holds the folder against other runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _point(link, program):
    """Makes the link point there, as one step."""
    beside = link.with_name(f"{link.name}.new")
    beside.unlink(missing_ok=True)
    beside.symlink_to(os.path.relpath(program, link.parent))
    beside.rename(link)


def _is_fresh(link, missing, newest):
    """Is what the cache says about a release to be believed without asking the mirror?"""
    if not newest and (link.exists() or missing.exists()):
        return True
    said = [path.lstat().st_mtime for path in (link, missing) if path.exists()]
    return bool(said) and time.time() - max(said) < FRESH_SECONDS


def _ensure_restic_of(release, folder, newest):
    link, missing = folder / release, folder / f"{release}.missing"
    if _is_fresh(link, missing, newest):
        return
    mirror = Release(release)
    try:
        mirror.refresh()
        _point(link, mirror.unpack("restic") / "usr" / "bin" / "restic")
        missing.unlink(missing_ok=True)
    except NoSuchRelease as error:
        if release != UNSTABLE:
            raise
        link.unlink(missing_ok=True)
        missing.write_text(f"{error}\n")
        say(f"setup: {error}; its restic is not tested with")
    except Failure as error:
        if not link.exists():
            raise
        say(f"setup: {error}\nsetup: so the restic that is here stays")


def _forget_unused(folder):
    """Removes unpacked versions that no release has any more."""
    used = {(folder / release).resolve().parents[2] for release in RESTIC_RELEASES if (folder / release).exists()}
    for path in (console.cache_dir() / "debian").glob("restic_*"):
        if path not in used:
            shutil.rmtree(path)


def ensure_restics(newest):
    """Has the restic of every release at hand; with `newest` the one that the mirror has today."""
    folder = console.cache_dir() / "restic"
    with _alone(folder):
        for release in RESTIC_RELEASES:
            _ensure_restic_of(release, folder, newest)
        if newest:
            _forget_unused(folder)


def restics():
    """The path of the restic of each release that has one here, oldest first; fetched if need be."""
    ensure_restics(newest=False)
    folder = console.cache_dir() / "restic"
    found = {"bookworm": pathlib.Path("/usr/bin/restic")}
    found.update({release: folder / release for release in RESTIC_RELEASES if (folder / release).exists()})
    return found


def describe_restics():
    """One line per restic that is judged with: "sid: restic 0.19.1 compiled with ..."."""
    lines = [f"{release}: {console.output([program, 'version']).strip()}" for release, program in restics().items()]
    missing = (console.cache_dir() / "restic").glob("*.missing")
    return lines + [f"{path.stem}: none: {path.read_text().strip()}" for path in missing]


def promtool():
    """The path of promtool: the one that is installed, else that of Debian's package, fetched once."""
    installed = shutil.which("promtool")
    if installed:
        return pathlib.Path(installed)
    program = console.cache_dir() / "promtool" / "promtool"
    if program.exists():
        return program
    with _alone(program.parent):
        if not program.exists():
            release = Release(PROMTOOL_RELEASE)
            release.refresh()
            folder = release.unpack(PROMTOOL_PACKAGE)
            os.replace(folder / "usr" / "bin" / "promtool", program)
            shutil.rmtree(folder)
    return program
