"""./dev interop: repositories shared with the restic of each Debian release, and with rustic; formats of volumes."""

import fcntl
import os
import re
import shutil

import account
import build
import console
import packages
import prepare
import results
import tiers
from console import ROOT, Failure, say

PYTHON = "/usr/bin/python3"
RUSTIC_VERSION = "0.11.4"
RUST_VERSION_MIN = (1, 91)  # What this rustic asks for.
RUSTIC_BUILD_SECONDS_MAX = 3600
# What tests/interop/marks.py makes volumes with, and ends restores with.
FORMAT_PACKAGES = ("btrfs-progs", "cryptsetup-bin", "dosfstools", "erofs-utils", "exfatprogs", "f2fs-tools", "fdisk",
                   "genisoimage", "genromfs", "gfs2-utils", "jfsutils", "nilfs-tools", "ntfs-3g", "reiserfsprogs",
                   "squashfs-tools", "strace", "udftools", "xfsprogs")


def parse_rust_version(text):
    """(major, minor) of `rustc --version`'s words, or None."""
    found = re.match(r"rustc (\d+)\.(\d+)\.", text)
    return (int(found[1]), int(found[2])) if found else None


def require_rust():
    """A Failure that says what is missing, unless rustic can be compiled here."""
    if not shutil.which("cargo") or not shutil.which("rustc"):
        raise Failure(f"rustic {RUSTIC_VERSION} is compiled here, and there is no cargo: install Rust "
                      f"{RUST_VERSION_MIN[0]}.{RUST_VERSION_MIN[1]} or later")
    version = parse_rust_version(console.output(["rustc", "--version"]))
    if not version or version < RUST_VERSION_MIN:
        raise Failure(f"rustic {RUSTIC_VERSION} needs Rust {RUST_VERSION_MIN[0]}.{RUST_VERSION_MIN[1]}, and this is "
                      f"{version}")


def ensure_rustic():
    """The path of rustic, compiled once from crates.io into the cache."""
    folder = console.cache_dir() / "rustic"
    program = folder / RUSTIC_VERSION / "bin" / "rustic"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.is_file():
            return program
        require_rust()
        # Products of an interrupted build are used by the next.
        env = {"CARGO_TARGET_DIR": folder / "build"}
        with console.stage(f"build rustic {RUSTIC_VERSION}"):
            console.run(["cargo", "install", "--locked", "--quiet", "--debug", "--no-default-features",
                         "--root", folder / "new", "-j", console.jobs(), f"rustic-rs@{RUSTIC_VERSION}"],
                        env=env, limit_seconds=RUSTIC_BUILD_SECONDS_MAX)
        os.rename(folder / "new", folder / RUSTIC_VERSION)
        shutil.rmtree(folder / "build")
    return program


def _run_script(into, name, words):
    """A script of tests/interop that prints PASS or FAIL for each of its stories."""
    with tiers.tier(name, into) as this:
        script = ROOT / "tests" / "interop" / f"{name}.py"
        code, lines = console.execute([PYTHON, script, *words], keep=True, limit_seconds=tiers.LIMIT_SECONDS[name])
        this.tests = results.read_lines(name, lines)
        this.ran = bool(this.tests)
        if code != 0 and not this.count(results.FAILED):
            raise Failure(f"the runner failed with code {code}")


def run():
    """Every restic, then every format, then rustic. False if something went wrong."""
    packages.ensure_debian(FORMAT_PACKAGES)
    program = build.build_program()
    prepare.later_restics()
    build.build("release", [prepare.RESTIC])

    def work(into):
        tiers.run_restic(into, later=True)
        _run_script(into, "marks", ["--program", program])
        rustic = ensure_rustic()
        say(f"interop: {console.output([rustic, '--version']).strip()}")
        _run_script(into, "rustic", ["--rustic", rustic, "--program", program])
    return account.of_one("interop", work)
