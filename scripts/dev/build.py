"""./dev build: configures and builds a preset; and what depends on nothing but the build tree."""

import json
import subprocess

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


def configure(preset):
    """Configures a preset. Quiet unless it fails; cheap when nothing changed."""
    done = subprocess.run(["cmake", "--preset", preset], cwd=ROOT, env=console.environment(), check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        console.say(done.stdout)
        raise Failure(f"`cmake --preset {preset}` failed with code {done.returncode}")


def build(preset, targets=(), limit_seconds=None):
    """Builds a preset, or only some targets of it."""
    if preset not in presets():
        raise Failure(f"no such preset: {preset}; there are {' '.join(presets())}")
    with stage(f"build {preset}"):
        configure(preset)
        command = ["cmake", "--build", "--preset", preset, "-j", console.jobs()]
        if targets:
            command += ["--target", *targets]
        console.run(command, limit_seconds=limit_seconds)
    return folder(preset)


def _built(name):
    program = folder("release") / "bin" / name
    if not program.is_file():
        raise Failure(f"the build made no {program.relative_to(ROOT)}")
    return program


def build_release():
    """The stripped programs that are shipped; returns the paths of the plugin and of csi-delta."""
    build("release")
    return _built(PLUGIN), _built(PROGRAM)


def build_program():
    """csi-delta alone; returns its path."""
    build("release", [PROGRAM])
    return _built(PROGRAM)


def targets(preset):
    """The names of all targets of a configured preset."""
    listing = console.output(["ninja", "-C", folder(preset), "-t", "targets", "all"])
    return [line.split(":")[0] for line in listing.splitlines() if ":" in line]
