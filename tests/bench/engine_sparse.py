"""Rows about volumes that are mostly holes, and the chart of time over touched bytes."""

import contextlib
import os
import random
import shutil
import subprocess

import engine_images as images
import engine_tools as tools
from engine_world import Outcome, Verdict

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
DATA_PLACES = 16
FRACTIONS = (0, 0.001, 0.01, 0.1, 1)
SPARSE_GIB = (1, 4, 16, 64, 256)
SPARSE_CHUNKS = 82
WIDTH, HEIGHT, MARGIN = 360, 260, 48


@contextlib.contextmanager
def memory_folder(lab):
    """A folder in memory: other file systems have no files of 64 TiB."""
    folder = lab.folder / "memory"
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


def write_places(path, extents, seed):
    numbers = random.Random(seed)
    with open(path, "r+b") as file:
        for offset, length in extents:
            os.pwrite(file.fileno(), numbers.randbytes(length), offset)


def seconds_without_audit(sample):
    return sample.seconds - tools.result(sample)["duration_ms"].get("audit", 0) / 1000


def unchanged(world):
    """unchanged, sparse volume of 1 TiB and of 64 TiB, without the audit stage"""
    outcome = Outcome()
    counts = {}
    with memory_folder(world.lab) as folder:
        for size_tib in (1, 64):
            image = folder / f"{size_tib}" / "volume.img"
            images.make_sparse(image, size_tib * TIB)
            write_places(image, [(number * (size_tib * TIB // DATA_PLACES), MIB) for number in range(DATA_PLACES)], 3)
            place = tools.Place(folder / f"place-{size_tib}")
            world.ours.init(world.lab, place)
            world.ours.backup(world.lab, place, image)
            listing = folder / "nothing.jsonl"
            images.write_list(listing, [])
            runs = world.runs if size_tib == 1 else 1
            samples = [world.ours.backup(world.lab, place, image, extents=listing) for _ in range(runs)]
            outcome.samples[f"csi-delta, {size_tib} TiB"] = samples
            counts[size_tib] = judge_unchanged(outcome, size_tib, samples)
    outcome.verdicts.append(Verdict("requests at 64 TiB, less those at 1 TiB", counts[64][0] - counts[1][0], 0,
                                    at_most=True, unit=""))
    return outcome


def judge_unchanged(outcome, size_tib, samples):
    """Verdicts for one size; returns the numbers that must not depend on it."""
    document = tools.result(samples[-1])
    requests = document["requests"] - document["audit"]["requests"]
    seconds = sorted(seconds_without_audit(sample) for sample in samples)[len(samples) // 2]
    for what, value, must, unit in (("time", seconds, 2, " s"), ("stored", document["stored_bytes"] / 1024, 1024, " KiB"),
                                    ("requests", requests, 27, ""), ("writes", document["write_requests"], 10, "")):
        outcome.verdicts.append(Verdict(f"{size_tib} TiB: {what}", value, must, at_most=True, unit=unit))
    audit_ms = document["duration_ms"].get("audit", 0)
    outcome.remarks.append(f"{size_tib} TiB: the audit read {document['audit_bytes'] / GIB:.1f} GiB of holes in "
                           f"{audit_ms / 1000:.1f} s, with {document['audit']['requests']} requests")
    outcome.raw[f"document-{size_tib}"] = document
    return requests, document["write_requests"]


def chart(world):
    """time over touched bytes: fractions of a full volume, and sparse volumes of every size"""
    outcome = Outcome()
    image = world.image("random")
    listing = world.lab.folder / "changed.jsonl"
    world.ensure_base(world.ours, "random")
    by_fraction, by_size = [], []
    for fraction in FRACTIONS:
        extents = images.uniform_chunks(world.image_bytes, fraction, 8)
        images.write_list(listing, extents)
        if fraction == 1:
            sample = world.full(world.ours, "random")
        else:
            with images.Changed(image, extents, 9), world.clone(world.ours, "random") as place:
                sample = world.ours.backup(world.lab, place, image, extents=listing)
        by_fraction.append((fraction, seconds_without_audit(sample), sample.seconds))
    for size_gib in SPARSE_GIB:
        by_size.append((size_gib, *sparse_increment(world, size_gib, listing)))
    outcome.remarks += [f"{100 * fraction:5.1f} % of {world.image_bytes // GIB} GiB: {seconds:6.2f} s, {whole:.2f} s with "
                        f"the audit" for fraction, seconds, whole in by_fraction]
    outcome.remarks += [f"{SPARSE_CHUNKS} chunks of a sparse volume of {size_gib:3} GiB: {seconds:.2f} s, {whole:.2f} s "
                        f"with the audit" for size_gib, seconds, whole in by_size]
    outcome.raw.update(by_fraction=by_fraction, by_size=by_size, image_gib=world.image_bytes // GIB)
    return outcome


def sparse_increment(world, size_gib, listing):
    """Seconds without and with the audit, for the same number of changed chunks."""
    image = world.lab.folder / "sparse" / "volume.img"
    place = tools.Place(world.lab.folder / "repo-sparse")
    place.folder.mkdir()
    try:
        images.make_sparse(image, size_gib * GIB)
        world.ours.init(world.lab, place)
        world.ours.backup(world.lab, place, image)
        chunks = sorted(random.Random(size_gib).sample(range(size_gib * GIB // images.CHUNK_BYTES), SPARSE_CHUNKS))
        extents = [(chunk * images.CHUNK_BYTES, images.CHUNK_BYTES) for chunk in chunks]
        write_places(image, extents, size_gib)
        images.write_list(listing, extents)
        sample = world.ours.backup(world.lab, place, image, extents=listing)
    finally:
        shutil.rmtree(image.parent, ignore_errors=True)
        shutil.rmtree(place.folder)
    return seconds_without_audit(sample), sample.seconds


def _panel(left, title, labels, values, top_seconds):
    """Bars with their labels, as lines of SVG."""
    lines = [f'<text x="{left + WIDTH / 2}" y="18" text-anchor="middle" font-weight="bold">{title}</text>']
    step = (WIDTH - MARGIN) / len(values)
    for number, (label, value) in enumerate(zip(labels, values)):
        height = max(1, (HEIGHT - 2 * MARGIN) * value / top_seconds)
        x, y = left + MARGIN / 2 + number * step, HEIGHT - MARGIN - height
        lines += [f'<rect x="{x:.0f}" y="{y:.0f}" width="{step * 0.7:.0f}" height="{height:.0f}" fill="#3b6ea5"/>',
                  f'<text x="{x + step * 0.35:.0f}" y="{y - 4:.0f}" text-anchor="middle">{value:.2f} s</text>',
                  f'<text x="{x + step * 0.35:.0f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{label}</text>']
    return lines


def draw(outcome, path):
    """The chart as a picture."""
    fractions, sizes = outcome.raw["by_fraction"], outcome.raw["by_size"]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{HEIGHT}" '
             f'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
             *_panel(0, f"seconds, by the part that changed of {outcome.raw['image_gib']} GiB", [f"{100 * row[0]:g} %" for row in fractions],
                     [row[1] for row in fractions], max(row[1] for row in fractions)),
             *_panel(WIDTH, f"seconds for {SPARSE_CHUNKS} changed chunks, by size of the volume", [f"{row[0]} GiB" for row in sizes],
                     [row[1] for row in sizes], max(row[1] for row in fractions)),
             "</svg>"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
