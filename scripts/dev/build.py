"""./dev build: configures and builds a preset; and what depends on nothing but the build tree."""

import collections
import json
import re
import threading

import console
import progress
import results
from console import ROOT, Failure, stage

PLUGIN = "velero-plugin-for-csi-delta"
PROGRAM = "csi-delta"
_EDGE = re.compile(r"^\[\d+/\d+\]")
_LOCKS = collections.defaultdict(threading.Lock)  # One build at a time in a tree.


def presets():
    """The names of the presets that can be built."""
    document = json.loads((ROOT / "CMakePresets.json").read_text())
    return [entry["name"] for entry in document["buildPresets"] if entry["name"] == entry["configurePreset"]]


def folder(preset):
    return ROOT / "build" / preset


_CONFIGURED = set()  # Once is enough for a run: ninja does it again where a file of CMake's changed.
_CONFIGURING = threading.Lock()


def configure(preset):
    """Configures a preset. Quiet unless it fails; cheap when nothing changed."""
    with _CONFIGURING:
        if preset in _CONFIGURED:
            return
        code, lines = console.execute(["cmake", "--preset", preset], keep=True, quiet=True)
        if code != 0:
            console.say("\n".join(lines))
            raise Failure(f"`cmake --preset {preset}` failed with code {code}")
        _CONFIGURED.add(preset)


def build(preset, targets=(), limit_seconds=None):
    """Builds a preset, or only some targets of it."""
    if preset not in presets():
        raise Failure(f"no such preset: {preset}; there are {' '.join(presets())}")
    name = f"build {preset}"
    with _LOCKS[preset], stage(name):
        configure(preset)
        command = ["cmake", "--build", "--preset", preset, "-j", console.jobs()]
        if targets:
            command += ["--target", *targets]
        seen = getattr(console.here, "part", None)
        code, lines = console.execute(command, limit_seconds=limit_seconds, watch=progress.part().edge, keep=True,
                                      quiet=seen is not None,
                                      log=results.log_file(f"{name} {' '.join(targets)[:60]}".strip()))
        if code != 0:
            if seen is not None:
                console.say("\n".join(line for line in lines if not _EDGE.match(line)))
            raise Failure(f"`{console.shorten(command)}` failed with code {code}")
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
