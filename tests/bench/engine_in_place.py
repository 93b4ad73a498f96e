"""The row about restoring over a volume of which little changed: what differs is written, and no more."""

import dataclasses
import os
import pathlib
import random
import subprocess

import engine_lab as lab_module
import engine_rows
import engine_tools as tools
from engine_world import Outcome, Verdict, duel

PIECE_BYTES = 64 << 10
FRACTION = 0.01
SECTOR_BYTES = 512
WRITTEN_MAX = 1.1


def pieces(size_bytes, seed):
    """Extents of 64 KiB, 1 % of the volume, at any byte; none overlaps another."""
    numbers = random.Random(seed)
    slots = numbers.sample(range(size_bytes // (2 * PIECE_BYTES)), round(size_bytes * FRACTION / PIECE_BYTES))
    return [(2 * PIECE_BYTES * slot + numbers.randrange(PIECE_BYTES), PIECE_BYTES) for slot in sorted(slots)]


def change(device, extents, seed):
    numbers = random.Random(seed)
    with open(device, "r+b", buffering=0) as volume:
        for offset, length in extents:
            os.pwrite(volume.fileno(), numbers.randbytes(length), offset)
        os.fsync(volume.fileno())


def written_bytes(device):
    """By the device's own counter."""
    return int(pathlib.Path(f"/sys/block/{device.name}/stat").read_text(encoding="ascii").split()[6]) * SECTOR_BYTES


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to give the volume its bytes back. `words` of csi-delta; without them dd writes everything."""

    name: str
    words: tuple = ()
    place: object = None

    @property
    def family(self):
        return self.name

    def run(self, world, source, device):
        if not self.words:
            return world.lab.measure(["dd", f"if={source}", f"of={device}", "bs=4M", "iflag=direct", "oflag=direct",
                                      "conv=fsync,notrunc"])
        return world.ours._call(world.lab, self.place, [*self.words, "--target", device])


def ways(place):
    return [Way("everything, by dd"), Way("restore", ("restore", "latest"), place),
            Way("restore --differing", ("restore", "latest", "--differing"), place)]


def in_place(world):
    """restore in place: 1 % differs, in pieces of 64 KiB at random offsets"""
    source = world.image("random")
    extents = pieces(world.image_bytes, 11)
    changed = sum(length for _, length in extents)
    written = {}
    with world.clone(world.ours, "random") as place, \
            engine_rows.loop_device(world.lab.folder, world.image_bytes) as device:
        subprocess.run(["dd", f"if={source}", f"of={device}", "bs=4M", "oflag=direct", "conv=fsync", "status=none"],
                       check=True)

        def run(way):
            change(device, extents, len(written.setdefault(way.name, [])))
            before = written_bytes(device)
            sample = way.run(world, source, device)
            written[way.name].append(written_bytes(device) - before)
            subprocess.run(["cmp", source, device], check=True)
            return sample

        outcome = duel(world, ways(place), run, Outcome())
    whole = lab_module.median(outcome.samples["everything, by dd"])
    name = "restore --differing"
    outcome.verdicts.append(Verdict(f"{name}: written, of what differs", max(written[name]) / changed, WRITTEN_MAX,
                                    at_most=True))
    outcome.verdicts.append(Verdict(f"{name}: everything by dd takes", whole / lab_module.median(outcome.samples[name]),
                                    None))
    document = tools.result(outcome.samples[name][-1])
    outcome.remarks.append(f"{name}: counted {document['written_bytes']} written and {document['compared_bytes']} compared")
    outcome.raw["written_bytes"] = written
    outcome.raw["changed_bytes"] = changed
    return outcome
