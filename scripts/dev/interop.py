"""./dev interop: do the restic of each Debian release, and rustic, share our repositories? Do formats of volumes survive kills?"""

import os
import shutil

import account
import build
import console
import debian
import packages
import prepare
import results
import tiers
from console import ROOT, Failure, say

PYTHON = "/usr/bin/python3"
RUSTIC_VERSION = "0.11.4"
RUST_VERSION_MIN = "1.91"  # What this rustic asks for; cargo names it where it is too old.
RUSTIC_BUILD_SECONDS_MAX = 3600
# What tests/interop/marks.py makes volumes with, and ends restores with.
FORMAT_PACKAGES = ("btrfs-progs", "cryptsetup-bin", "dosfstools", "erofs-utils", "exfatprogs", "f2fs-tools", "fdisk",
                   "genisoimage", "genromfs", "gfs2-utils", "jfsutils", "nilfs-tools", "ntfs-3g", "reiserfsprogs",
                   "squashfs-tools", "strace", "udftools", "xfsprogs")


def ensure_rustic():
    """The path of rustic, compiled once from crates.io into the cache."""
    folder = console.cache_dir() / "rustic"
    program = folder / RUSTIC_VERSION / "bin" / "rustic"
    with debian.alone(folder):
        if program.is_file():
            return program
        if not shutil.which("cargo"):
            raise Failure(f"rustic {RUSTIC_VERSION} is compiled here, and there is no cargo: install Rust {RUST_VERSION_MIN} or later")
        with console.stage(f"build rustic {RUSTIC_VERSION}"):  # What an interrupted build made is used by the next.
            console.run(["cargo", "install", "--locked", "--quiet", "--debug", "--no-default-features", "--root", folder / "new",
                         "-j", console.jobs(), f"rustic-rs@{RUSTIC_VERSION}"],
                        env={"CARGO_TARGET_DIR": folder / "build"}, limit_seconds=RUSTIC_BUILD_SECONDS_MAX)
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
