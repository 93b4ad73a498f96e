"""./dev build: configures and builds a preset. As a script, `build.py PRESET ::: TARGET...`, it is what ctest builds with."""

import functools
import json
import sys

import console
from console import ROOT, Failure, stage

PLUGIN = "velero-plugin-for-csi-delta"
PROGRAM = "csi-delta"


def presets():
    """The names of the presets that can be built."""
    document = json.loads((ROOT / "CMakePresets.json").read_text())
    return [entry["name"] for entry in document["buildPresets"] if entry["name"] == entry["configurePreset"]]


def folder(preset):
    return ROOT / "build" / preset


@functools.cache  # Once is enough for a run: ninja does it again where a file of CMake's changed.
def configure(preset):
    """Configures a preset. Quiet unless it fails."""
    code, lines = console.execute(["cmake", "--preset", preset], keep=True, quiet=True)
    if code != 0:
        console.say("\n".join(lines))
        raise Failure(f"`cmake --preset {preset}` failed with code {code}")


def make(preset, targets=()):
    """Builds a configured preset, or only some targets of it."""
    console.run(["cmake", "--build", "--preset", preset, "-j", console.jobs(), *(["--target", *targets] if targets else [])])


def build(preset, targets=()):
    """Builds a preset, or only some targets of it; returns its folder."""
    if preset not in presets():
        raise Failure(f"no such preset: {preset}; there are {' '.join(presets())}")
    with stage(f"build {preset}"):
        configure(preset)
        make(preset, targets)
    return folder(preset)


def _built(name):
    program = folder("release") / "bin" / name
    if not program.is_file():
        raise Failure(f"the build made no {program.relative_to(ROOT)}")
    return program


def build_release():
    """The stripped programs that are shipped; returns the paths of the plugin and of csi-delta."""
    build("release", [PLUGIN, PROGRAM])
    return _built(PLUGIN), _built(PROGRAM)


def build_program():
    """csi-delta alone; returns its path."""
    build("release", [PROGRAM])
    return _built(PROGRAM)


def targets(preset):
    """The names of all targets of a configured preset."""
    listing = console.output(["ninja", "-C", folder(preset), "-t", "targets", "all"])
    return [line.split(":")[0] for line in listing.splitlines() if ":" in line]


if __name__ == "__main__":
    if sys.argv[1] != "release":  # ctest has configured the tree that it runs.
        configure(sys.argv[1])
    make(sys.argv[1], sys.argv[2:])
