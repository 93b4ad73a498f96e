"""What ./dev interop needs that others do not; as a script it compiles rustic and runs tests/interop/rustic.py with it."""

import os
import shutil
import sys

import console
import debian
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
    folder = console.cache_dir() / "rustic" / RUSTIC_VERSION
    program = folder / "bin" / "rustic"
    with debian.alone(folder):
        if not program.is_file():
            if not shutil.which("cargo"):
                raise Failure(f"rustic {RUSTIC_VERSION} is compiled here, without cargo: install Rust {RUST_VERSION_MIN} or later")
            with console.stage(f"build rustic {RUSTIC_VERSION}"):  # What an interrupted build made is used by the next.
                console.run(["cargo", "install", "--locked", "--quiet", "--debug", "--no-default-features", "--root", folder,
                             "-j", console.jobs(), f"rustic-rs@{RUSTIC_VERSION}"],
                            env={"CARGO_TARGET_DIR": folder / "build"}, limit_seconds=RUSTIC_BUILD_SECONDS_MAX)
            shutil.rmtree(folder / "build")
    return program


if __name__ == "__main__":
    try:
        rustic = ensure_rustic()
    except Failure as failure:
        sys.exit(f"interop: {failure}")
    say(f"interop: {console.output([rustic, '--version']).strip()}")
    os.execv(PYTHON, [PYTHON, str(ROOT / "tests" / "interop" / "rustic.py"), "--rustic", str(rustic), *sys.argv[1:]])
