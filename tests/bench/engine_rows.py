"""The rows of the engine's bench: what is done, by which tool, and what must come of it."""

import contextlib
import dataclasses
import pathlib
import shutil
import subprocess

import engine_disk
import engine_images as images
import engine_lab as lab_module
import engine_s3
import engine_tools as tools
from engine_world import Outcome, Verdict, duel, fastest, joined, judge

MIB = 1 << 20
GIB = 1 << 30
TUNED = ("--pack-size=64", "-o", "local.connections=4")
NOT_COMPRESSED = ("--compression=off", *TUNED)
LEAF_CHUNKS = 256
LEVEL1_CHUNKS = 256 * LEAF_CHUNKS
ENVELOPE_BYTES = 32


def with_flags(restics, flags):
    return [dataclasses.replace(restic, flags=flags) for restic in restics]


def full_random(world):
    """full, random data"""
    fixed = dataclasses.replace(world.kopia, splitter="FIXED-4M")
    restics = [*world.restics, *with_flags(world.restics, NOT_COMPRESSED)]
    contestants = [world.ours, *restics, world.kopia, fixed]
    outcome = duel(world, contestants, lambda tool: world.full(tool, "random"),
                   once=(fixed.family,))
    judge(outcome, world.ours, fastest(outcome, restics, ("restic",)), 3)
    judge(outcome, world.ours, world.kopia, 2.5)
    judge(outcome, world.ours, fixed, None)
    outcome.raw["stored_bytes"] = {tool.name: world.stored_bytes(tool, "random") for tool in (world.ours, world.restics[0], world.kopia)}
    outcome.remarks += [f"stored by {name}: {stored / MIB:.0f} MiB" for name, stored in outcome.raw["stored_bytes"].items()]
    for tool in with_flags(world.restics, NOT_COMPRESSED):
        world.drop(tool, "random")
    world.drop(fixed, "random")
    add_rate(outcome, world)
    add_wall(outcome, world, world.image_bytes, world.image_bytes)
    return outcome


def add_wall(outcome, world, read_bytes, write_bytes):
    """How near it comes to what plain reads and writes of as many bytes take."""
    wall = engine_disk.wall_seconds(world.lab, world.image("random"), read_bytes, write_bytes)
    seconds = lab_module.median(outcome.samples[world.ours.name])
    outcome.remarks.append(
        f"plain direct reads of {read_bytes / MIB:.0f} MiB and writes of {write_bytes / MIB:.0f} MiB take {wall:.2f} s: "
        f"{100 * wall / seconds:.0f} % of the time")


def add_rate(outcome, world):
    seconds = lab_module.median(outcome.samples[world.ours.name])
    outcome.remarks.append(f"{world.image_bytes / seconds / 1e6:.0f} MB/s of the volume")


def full_words(world):
    """full, compressible data: zstd level 1, and at equal stored size"""
    equal = dataclasses.replace(world.ours, level="better")
    restics = [*world.restics, *with_flags(world.restics[-1:], TUNED)]
    contestants = [world.ours, equal, *restics]
    samples = {}

    def run(tool):
        sample = world.full(tool, "words")
        samples.setdefault(tool.name, world.stored_bytes(tool, "words"))
        world.drop(tool, "words")
        return sample

    outcome = Outcome()
    for number in range(world.runs):
        remaining = contestants if number == 0 else [world.ours, equal, fastest(outcome, restics, ("restic",))]
        duel(world, remaining, run, outcome, rounds=1)
    other = fastest(outcome, restics, ("restic",))
    judge(outcome, world.ours, other, 2.4)
    judge(outcome, equal, other, 1.7)
    outcome.remarks += [f"stored by {name}: {stored / MIB:.0f} MiB" for name, stored in samples.items()]
    add_rate(outcome, world)
    return outcome


def increment(world, extents, must):
    """What changed in the random image goes into repositories that hold it as it was before."""
    image = world.image("random")
    listing = world.lab.folder / "changed.jsonl"
    images.write_list(listing, extents)
    contestants = [world.ours, *world.restics, *with_flags(world.restics, NOT_COMPRESSED), world.kopia]
    documents = []

    def run(tool):
        base = dataclasses.replace(tool, flags=()) if tool.family == "restic" else tool
        with world.clone(base, "random") as place:
            sample = tool.backup(world.lab, place, image, extents=listing)
        if tool is world.ours:
            documents.append(tools.result(sample))
        return sample

    for tool in (world.ours, *world.restics, world.kopia):
        world.ensure_base(tool, "random")
    with images.Changed(image, extents, 7):
        outcome = duel(world, contestants, run, once=("kopia",))
    judge(outcome, world.ours, fastest(outcome, contestants, ("restic",)), must)
    judge(outcome, world.ours, world.kopia, None)
    document = documents[-1]
    if document["mode_done"] != "incremental":
        raise lab_module.BenchError(f"not an increment: {document['reason']}")
    touched = images.touched_chunks(extents)
    outcome.remarks.append(
        f"{len(extents)} extents touch {touched} of {world.image_bytes // images.CHUNK_BYTES} chunks; "
        f"{document['read_bytes'] / MIB:.0f} MiB read, {document['audit_bytes'] / MIB:.0f} MiB audited, "
        f"{document['stored_bytes'] / MIB:.0f} MiB stored")
    judge_metadata(outcome, document, extents)
    add_wall(outcome, world, document["read_bytes"] + document["audit_bytes"], document["stored_bytes"])
    outcome.raw["documents"] = documents
    return outcome


def judge_metadata(outcome, document, extents):
    """Everything stored but the chunks themselves, beside the bound for it. Random data does not shrink."""
    leaves = len({offset // images.CHUNK_BYTES // LEAF_CHUNKS for offset, _ in extents})
    level1 = len({offset // images.CHUNK_BYTES // LEVEL1_CHUNKS for offset, _ in extents})
    chunks = images.touched_chunks(extents)
    metadata = document["stored_bytes"] - chunks * (images.CHUNK_BYTES + ENVELOPE_BYTES)
    bound = 256 * 1024 + 12 * 1024 * (leaves + level1) + 160 * chunks
    outcome.verdicts.append(Verdict(f"metadata ({leaves} leaves, {level1} level-1 trees, {chunks} new chunks)",
                                    metadata / 1024, bound / 1024, at_most=True, unit=" KiB"))
    outcome.verdicts.append(Verdict("leaves written", document["leaves_touched"], leaves, at_most=True, unit=""))


def increment_chunks(world):
    """1 % of chunks, uniform, list given"""
    return increment(world, images.uniform_chunks(world.image_bytes, 0.01, 5), 12)


def increment_pages(world):
    """4 KiB writes until 1 % of bytes changed"""
    return increment(world, images.uniform_pages(world.image_bytes, 0.01, 6), 4)


def rescan(world):
    """rescan without a list, nothing changed"""
    image = world.image("random")
    contestants = [world.ours, *world.restics, world.kopia]

    def run(tool):
        with world.clone(tool, "random") as place:
            return tool.backup(world.lab, place, image, force=True)

    outcome = duel(world, contestants, run, once=("kopia",))
    judge(outcome, world.ours, fastest(outcome, contestants, ("restic",)), 3)
    judge(outcome, world.ours, world.kopia, None)
    add_rate(outcome, world)
    add_wall(outcome, world, world.image_bytes, 0)
    return outcome


def restore_duel(world, restore):
    """`restore(tool, place, check)` gives a Sample, and calls `check(path)`, once for each program."""
    contestants = [world.ours, *world.restics, world.kopia]
    checked = set()

    def run(tool):
        def check_once(path):
            if tool.name not in checked:
                compare(world.image("random"), path)
                checked.add(tool.name)

        with world.clone(tool, "random") as place:
            return restore(tool, place, check_once)

    outcome = duel(world, contestants, run)
    judge(outcome, world.ours, fastest(outcome, contestants, ("restic", "kopia")), 2)
    add_rate(outcome, world)
    add_wall(outcome, world, world.image_bytes, world.image_bytes)
    return outcome


def restore_file(world):
    """restore to a file"""
    def restore(tool, place, check_once):
        target = world.lab.folder / "restored"
        try:
            sample = tool.restore(world.lab, place, target)
            check_once(next(target.rglob("volume.img")))
        finally:
            shutil.rmtree(target, ignore_errors=True)
        return sample

    return restore_duel(world, restore)


def compare(wanted, got):
    """A restore that is fast and wrong does not count."""
    if subprocess.run(["cmp", "-s", wanted, got], check=False).returncode != 0:
        raise lab_module.BenchError(f"{got} is not what was backed up")


@contextlib.contextmanager
def loop_device(folder, size_bytes):
    """A block device over a file whose space is allocated, without a cache of its own."""
    backing = folder / "device.img"
    subprocess.run(["fallocate", "-l", str(size_bytes), backing], check=True)
    done = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", backing], check=True, capture_output=True,
                          text=True)
    device = pathlib.Path(done.stdout.strip())
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        backing.unlink()


def restore_device(world):
    """restore to a device"""
    def restore(tool, place, check_once):
        with loop_device(world.lab.folder, world.image_bytes) as device:
            sample = tool.restore_device(world.lab, place, device)
            check_once(device)
        return sample

    return restore_duel(world, restore)


def check(world):
    """check --read-data"""
    contestants = [world.ours, *world.restics]

    def run(tool):
        with world.clone(tool, "random") as place:
            return tool.check(world.lab, place)

    outcome = duel(world, contestants, run)
    judge(outcome, world.ours, fastest(outcome, contestants, ("restic",)), 1)
    add_wall(outcome, world, world.image_bytes, 0)
    return outcome


def _s3_rounds(world, contestants, url, folder, extents, rounds):
    """Full and increment of each contestant, each in a repository of its own; their outcomes."""
    image = world.image("random")
    listing = world.lab.folder / "changed.jsonl"
    images.write_list(listing, extents)
    parts = {"full": Outcome(), "1 %": Outcome()}
    place_folder = world.lab.folder / "place-s3"

    def run(tool):
        shutil.rmtree(place_folder, ignore_errors=True)
        shutil.rmtree(folder / "repo", ignore_errors=True)
        place_folder.mkdir()
        place = tools.Place(place_folder, f"{url}/repo")
        tool.init(world.lab, place)
        sample = tool.backup(world.lab, place, image)
        with images.Changed(image, extents, 7):
            parts["1 %"].samples.setdefault(tool.name, []).append(tool.backup(world.lab, place, image, extents=listing))
        return sample

    duel(world, contestants, run, parts["full"], rounds)
    shutil.rmtree(place_folder)
    shutil.rmtree(folder / "repo")
    return parts


def s3(world):
    """S3 on loopback: full, and 1 % of chunks"""
    ours = dataclasses.replace(world.ours, environment=engine_s3.ENVIRONMENT)
    restics = [dataclasses.replace(restic, environment=engine_s3.ENVIRONMENT) for restic in world.restics]
    restics += with_flags(restics[-1:], ("--compression=off", "--pack-size=64", "-o", "s3.connections=8"))
    extents = images.uniform_chunks(world.image_bytes, 0.01, 5)
    with engine_s3.server(world.lab) as (url, folder):
        parts = _s3_rounds(world, [ours, *restics], url, folder, extents, world.runs)
    for outcome in parts.values():
        judge(outcome, ours, fastest(outcome, restics, ("restic",)), 2)
    return joined(parts)


def s3_far(world):
    """S3 with 50 ms latency, 1 GiB: full, and 1 % of chunks, by memory budget"""
    small = dataclasses.replace(world, image_bytes=GIB)
    ours = [dataclasses.replace(world.ours, environment=engine_s3.ENVIRONMENT, flags=(f"--memory-budget={budget}MiB",),
                                limit_bytes=budget * MIB) for budget in (256, 512)]
    restics = [dataclasses.replace(restic, environment=engine_s3.ENVIRONMENT) for restic in world.restics]
    extents = images.uniform_chunks(GIB, 0.01, 5)
    with engine_s3.server(world.lab) as (near, folder), engine_s3.far_away(world.lab, near, 50) as url:
        parts = _s3_rounds(small, [*ours, *restics], url, folder, extents, 1)
    for outcome in parts.values():
        for tool in ours:
            judge(outcome, tool, fastest(outcome, restics, ("restic",)), None)
            outcome.verdicts[-1].what = f"{tool.flags[0]}: {outcome.verdicts[-1].what}"
    return joined(parts)
