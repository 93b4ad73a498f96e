#!/usr/bin/python3
"""Starts the plugin with Velero's own plugin manager, in the releases that matter.

    run.py [--version 118]... [--product FILE] [--scripted FILE] [--update] [--build-only]

For each Velero release a harness is built once (`harness/`, one go.mod per release) into

    ${CSI_DELTA_CACHE:-~/.cache/csi-delta}/pluginmanager/<release>-<sha256 of its inputs>/harness

and run over two plugins: the scripted one of tests/plugin, whose actions do what a case asks for,
and the product. Prints the harness's PASS and FAIL lines, each with release, plugin and command line
before the name of the case, and as the last line `N passed, N failed`. Exits non-zero unless everything passed.

Without --product or --scripted the binaries are those of build/release. --update has
Go complete the module files; needed once after a version changed.
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE = HERE / "harness"

sys.path.append(str(ROOT / "tests" / "e2e"))
import build as bed_build  # noqa: E402
from build import COMPILER_FLAGS, MODULES, TAGS, go_environment, go_version  # noqa: E402  (so packages are shared, too)
RUN_SECONDS_MAX = 300


@dataclasses.dataclass(frozen=True)
class Release:
    """One release of Velero and what differs in the harness built against it."""

    name: str
    version: str
    minor: int
    tags: str = ""

    @property
    def mod_file(self):
        """The versions that it is built with: those of the test bed's Velero, if that has this release."""
        of_bed = MODULES.get(f"velero{self.name}")
        return of_bed.folder / "go.mod" if of_bed else SOURCE / f"velero{self.name}.mod"


RELEASES = {
    release.name: release for release in (
        Release("118", "v1.18.3", 18, "itemblock"),
        Release("117", "v1.17.2", 17, "itemblock"),
        Release("116", "v1.16.2", 16, "itemblock"),
        Release("114", "v1.14.1", 14),
        Release("113", "v1.13.1", 13),
    )
}

# What an administrator may have written after `velero server`. Up to 1.14 the manager takes the
# features out of it and writes a command line of its own; later ones pass it on as it is.
COMMAND_LINES = {
    "plain": (),
    "csi": ("--features=EnableCSI", "--log-level=debug", "--uploader-type=kopia"),
    "words": ("--log-level", "info", "--features", "EnableCSI"),
}


def input_digest(release):
    """Names one state of everything that a harness depends on."""
    digest = hashlib.sha256(repr((release, COMPILER_FLAGS, TAGS, go_version())).encode())
    for path in [*sorted(SOURCE.glob("*.go")), release.mod_file]:
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def build(release, update=False):
    """Makes sure that the harness of one release exists; returns its path."""
    def make(folder):
        with go_environment(release.mod_file, update) as env:
            subprocess.run(["go", "build", "-p", "2", *COMPILER_FLAGS, "-tags", f"{TAGS},{release.tags}", "-ldflags", "-s -w",
                            "-o", folder / "harness", "."], cwd=SOURCE, env=env, check=True)
    cache = bed_build.cache_dir().with_name("pluginmanager")
    made = bed_build.cached(cache, release.name, lambda: cache / f"{release.name}-{input_digest(release)}", make, update)
    return made / "harness"


def run_harness(harness, release, suite, plugin, line):
    """One run over one plugin; (passed, failed)."""
    with tempfile.TemporaryDirectory(prefix="pm-") as folder:
        plugins, scratch = pathlib.Path(folder, "plugins"), pathlib.Path(folder, "tmp")
        plugins.mkdir()
        scratch.mkdir()
        shutil.copy2(plugin, plugins)
        env = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": str(scratch),
               "HARNESS_VELERO": str(release.minor), "HARNESS_SUITE": suite,
               "HARNESS_PLUGIN_DIR": str(plugins),
               "HARNESS_PREFIX": f"{release.version[1:]}/{suite}/{line}/",
               # Nothing listens there: what our actions leave alone they leave without asking.
               "CSI_DELTA_KUBECONFIG": f"{folder}/none"}
        try:
            done = subprocess.run([harness, "server", *COMMAND_LINES[line]], env=env, cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  timeout=RUN_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            print(f"FAIL {release.version[1:]}/{suite}/{line}: no end within {RUN_SECONDS_MAX} s")
            return 0, 1
        cases, _, summary = done.stdout.rstrip("\n").rpartition("\n")
        counts = re.match(r"(\d+) passed, (\d+) failed$", summary)
        print(cases if counts else done.stdout, flush=True)
        if not counts or (done.returncode == 0) != (counts[2] == "0"):
            print(f"FAIL {release.version[1:]}/{suite}/{line}: ended with code {done.returncode}")
            return 0, 1
        return int(counts[1]), int(counts[2])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="append", choices=list(RELEASES), default=[])
    parser.add_argument("--product", type=pathlib.Path,
                        default=ROOT / "build/release/bin/velero-plugin-for-csi-delta")
    parser.add_argument("--scripted", type=pathlib.Path,
                        default=ROOT / "build/release/bin/plugin_under_test")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--build-only", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    releases = [RELEASES[name] for name in arguments.version] or list(RELEASES.values())
    harnesses = [(release, build(release, arguments.update)) for release in releases]
    if arguments.build_only:
        return 0
    for binary in (arguments.product, arguments.scripted):
        if not binary.is_file():
            raise SystemExit(f"pluginmanager: no {binary}: build it first")
    passed = failed = 0
    for release, harness in harnesses:
        for suite, plugin in (("scripted", arguments.scripted), ("product", arguments.product)):
            for line in COMMAND_LINES:
                result = run_harness(harness, release, suite, plugin, line)
                passed, failed = passed + result[0], failed + result[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
