"""The programs that are compared, each behind the same few words. Every call is one process and its Sample."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess

MIB = 1 << 20
PASSWORD = "bench"
MEMORY_LIMIT_BYTES = 256 * MIB
TO_DEVICE = "dd of={} bs=4M iflag=fullblock oflag=direct conv=fsync status=none"


def first_line(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    return (done.stdout.strip().splitlines() or ["unknown"])[0]


@dataclasses.dataclass(frozen=True)
class Place:
    """A repository with the caches and settings that the program keeps beside it."""

    folder: pathlib.Path
    url: str = ""

    @property
    def repo(self):
        return self.url or str(self.folder / "repo")

    @property
    def home(self):
        return self.folder / "home"


class Tool:
    """What csi-delta and restic have in common."""

    def version(self):
        return first_line([self.program, "version"])

    def _environment(self):
        return {"RESTIC_PASSWORD": PASSWORD, **dict(self.environment)}

    def check(self, lab, place):
        return self._call(lab, place, ["check", "--read-data"])


@dataclasses.dataclass(frozen=True)
class CsiDelta(Tool):
    """Ours, as shipped, under a memory limit."""

    program: pathlib.Path
    level: str = "auto"
    flags: tuple = ()
    environment: tuple = ()
    limit_bytes: int = MEMORY_LIMIT_BYTES

    family = "csi-delta"

    @property
    def name(self):
        return " ".join(("csi-delta" if self.level == "auto" else f"csi-delta --compression={self.level}", *self.flags))

    def _call(self, lab, place, words, durable=None, **options):
        return lab.measure([self.program, "-r", place.repo, *words, "--json", *self.flags], self._environment(),
                           home=place.home, durable=durable, limit_bytes=self.limit_bytes, **options)

    def init(self, lab, place):
        lab.measure([self.program, "-r", place.repo, "init", "-q"], self._environment(), home=place.home, cold=False)

    def _since_newest(self, lab, place, extents):
        """The list, which begins with what its extents changed since."""
        snapshots = json.loads(self._call(lab, place, ["snapshots"], cold=False).output)
        newest = max(snapshots, key=lambda snapshot: snapshot["time"])
        listing = lab.folder / "since-newest.jsonl"
        listing.write_text(json.dumps({"base": newest["id"]}) + "\n" + extents.read_text(encoding="ascii"))
        return listing

    def backup(self, lab, place, image, extents=None, force=False):
        words = ["backup", image, "--host", "bench", "--path", "/volume", "--compression", self.level]
        words += ["--extents", self._since_newest(lab, place, extents)] if extents else []
        words += ["--force"] if force else []
        return self._call(lab, place, words, place.folder)

    def restore(self, lab, place, target):
        target.mkdir()
        return self._call(lab, place, ["restore", "latest", "--target", target / "volume.img"], target)

    def restore_device(self, lab, place, device):
        return self._call(lab, place, ["restore", "latest", "--target", device], place.folder)


def result(sample):
    """The document on the last line of csi-delta's output."""
    return json.loads(sample.output.strip().splitlines()[-1])


@dataclasses.dataclass(frozen=True)
class Restic(Tool):
    """Stock restic, of some version, with its defaults or other flags."""

    program: pathlib.Path
    number: str
    flags: tuple = ()
    environment: tuple = ()

    family = "restic"

    @property
    def name(self):
        return " ".join((f"restic {self.number}", *self.flags))

    def _call(self, lab, place, words, durable=None, **options):
        return lab.measure([self.program, "-r", place.repo, "-q", *words, *self.flags], self._environment(),
                           home=place.home, durable=durable, **options)

    def init(self, lab, place):
        self._call(lab, place, ["init"], cold=False)

    def backup(self, lab, place, image, extents=None, force=False):
        del extents  # It reads everything.
        words = ["backup", "--host", "bench", image.parent, *(["--force"] if force else [])]
        return self._call(lab, place, words, place.folder)

    def restore(self, lab, place, target):
        return self._call(lab, place, ["restore", "latest", "--target", target], target.parent)

    def restore_device(self, lab, place, device):
        listing = self._call(lab, place, ["ls", "latest"], cold=False).output
        path = next(line for line in listing.splitlines() if line.endswith("/volume.img"))
        script = '"$0" -r "$1" -q dump latest "$2" | ' + TO_DEVICE.format('"$3"')
        return lab.measure(["/bin/sh", "-c", script, self.program, place.repo, path, device], self._environment(),
                           home=place.home, durable=place.folder)


@dataclasses.dataclass(frozen=True)
class Kopia:
    """Kopia's own program, with all the parallelism it has."""

    program: pathlib.Path
    splitter: str = ""

    @property
    def family(self):
        return "kopia" if not self.splitter else "kopia with another splitter"

    @property
    def name(self):
        return "kopia" + (f" {self.splitter}" if self.splitter else "")

    def version(self):
        return "kopia " + first_line([self.program, "--version"])

    @staticmethod
    def _environment(place):
        return {"KOPIA_PASSWORD": PASSWORD, "KOPIA_CHECK_FOR_UPDATES": "false",
                "KOPIA_CONFIG_PATH": str(place.home / "kopia.config"),
                "KOPIA_CACHE_DIRECTORY": str(place.home / "kopia")}

    def _call(self, lab, place, words, durable=None, **options):
        return lab.measure([self.program, "--no-auto-maintenance", *words], self._environment(place), home=place.home,
                           durable=durable, **options)

    def init(self, lab, place):
        (place.folder / "repo").mkdir(parents=True, exist_ok=True)
        words = ["repository", "create", "filesystem", "--path", place.repo]
        words += [f"--object-splitter={self.splitter}"] if self.splitter else []
        self._call(lab, place, words, cold=False)
        self._call(lab, place, ["policy", "set", "--global", "--parallel-upload-above-size-mib=64",
                                f"--max-parallel-file-reads={2 * os.cpu_count()}"], cold=False)

    def backup(self, lab, place, image, extents=None, force=False):
        del extents
        words = ["snapshot", "create", image.parent, f"--parallel={2 * os.cpu_count()}", "--no-progress"]
        return self._call(lab, place, [*words, *(["--force-hash=100"] if force else [])], place.folder)

    def _root(self, lab, place):
        listing = self._call(lab, place, ["snapshot", "list", "--all", "--json"], cold=False).output
        return json.loads(listing)[-1]["rootEntry"]["obj"]

    def restore(self, lab, place, target):
        return self._call(lab, place, ["restore", self._root(lab, place), target, "--parallel=8", "--no-progress"],
                          target.parent)

    def restore_device(self, lab, place, device):
        listing = self._call(lab, place, ["ls", "-l", self._root(lab, place)], cold=False).output
        file = re.search(r"\s([0-9a-zA-Z]{20,})\s+volume\.img", listing)[1]
        script = '"$0" show "$1" | ' + TO_DEVICE.format('"$2"')
        return lab.measure(["/bin/sh", "-c", script, self.program, file, device], self._environment(place),
                           home=place.home, durable=place.folder)
