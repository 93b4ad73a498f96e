"""Which restics and which promtool are tested with? Programs of Debian's packages, unpacked into the cache, never installed.

The archive's address is that of the machine's own apt sources with another release's name in it. apt itself
fetches, with lists of its own per release, so that signatures and checksums are proven as ever.

    debian/<release>/     apt's lists
    restic/<release>      the restic of a release; <release>.missing says why none exists
    promtool/promtool     Prometheus' checker of rules, without its server
"""

import contextlib
import fcntl
import pathlib
import platform
import shutil
import tempfile
import time

import console
from console import Failure, say

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FRESH_SECONDS = 20 * 3600  # A release that moves is asked once a day.
RESTIC_RELEASES = ("trixie", "sid")
UNSTABLE = "sid"  # The one release that a mirror need not have.


class NoSuchRelease(Failure):
    """The mirror does not carry a release."""


def archive():
    """The address from which this machine's own release comes."""
    for release in (platform.freedesktop_os_release().get("VERSION_CODENAME"), "stable", "oldstable"):
        wanted = ["--no-release-info", "--format", "$(SITE)", "Created-By: Packages", "Component: main", f"Release: {release}"]
        if sites := console.output(["apt-get", "indextargets", *wanted]):
            return sites.split()[0]
    raise Failure("apt's sources name no Debian archive; add one to /etc/apt/sources.list")


def fetch(release, package, name, program):
    """Makes `program` the one of this name that the mirror has in a package today. NoSuchRelease if it has no such."""
    folder = console.cache_dir() / "debian" / release
    for place in ("etc/apt", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / "etc" / "apt" / "sources.list").write_text(
        f"deb [target=Packages signed-by={KEYRING}] {archive()} {release} main\n")
    apt = ["apt-get", f"-oDir={folder}", "-oDir::State::status=/dev/null", "-oAcquire::Retries=3", "-oAPT::Update::Error-Mode=any"]
    how = {"env": {"LC_ALL": "C"}, "keep": True, "quiet": True}
    code, lines = console.execute([*apt, "update"], **how)
    if any("does not have a Release file" in line for line in lines):
        raise NoSuchRelease(f"the mirror does not carry Debian's {release}")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if code == 0:
            code, lines = console.execute([*apt, "download", package], cwd=scratch, **how)
        if code != 0:
            raise Failure("\n".join([f"apt cannot fetch {package} of Debian's {release}:", *lines]))
        file = next(pathlib.Path(scratch).glob("*.deb"))
        say(f"setup: {package} of Debian's {release}: {file.stem}")
        console.output(["dpkg-deb", "-x", file, f"{scratch}/root"])
        made = pathlib.Path(scratch, "root", "usr", "bin", name)
        made.touch()  # When the mirror was asked.
        made.replace(program)


@contextlib.contextmanager
def alone(folder):
    """Makes the folder, and holds it against other runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _ensure_restic(release, folder, newest):
    program, missing = folder / release, folder / f"{release}.missing"
    asked = [path.stat().st_mtime for path in (program, missing) if path.exists()]
    if asked and (not newest or time.time() - max(asked) < FRESH_SECONDS):
        return
    try:
        fetch(release, "restic", "restic", program)
        missing.unlink(missing_ok=True)
    except NoSuchRelease as error:
        if release != UNSTABLE:
            raise
        program.unlink(missing_ok=True)
        missing.write_text(f"{error}\n")
        say(f"setup: {error}; its restic is not tested with")
    except Failure as error:
        if not program.exists():
            raise
        say(f"setup: {error}\nsetup: so the restic that is here stays")


def ensure_restics(newest):
    """Has the restic of every release at hand; with `newest` the one that the mirror has today."""
    with alone(console.cache_dir() / "restic") as folder:
        for release in RESTIC_RELEASES:
            _ensure_restic(release, folder, newest)


def restics():
    """{release: path} of the restics there are, oldest first; fetched if need be."""
    ensure_restics(newest=False)
    later = {release: console.cache_dir() / "restic" / release for release in RESTIC_RELEASES}
    return {"bookworm": pathlib.Path("/usr/bin/restic"), **{release: path for release, path in later.items() if path.exists()}}


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
    with alone(console.cache_dir() / "promtool") as folder:
        if not (folder / "promtool").exists():
            fetch("bookworm", "prometheus", "promtool", folder / "promtool")
    return folder / "promtool"


if __name__ == "__main__":
    ensure_restics(newest=True)
    say("\n".join(f"restic: {line}" for line in describe_restics()))
