#!/usr/bin/python3
"""./dev demo: a volume backed up in full and by its changes, restored, and checked by restic.

    demo.py [--program FILE]

The volume is an image file with a real ext4 file system; neither cluster nor root is needed. Prints what a
person would type and what the programs answer. Exits 1 if a byte is not what it was.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MIB = 1 << 20
IMAGE_BYTES = 512 * MIB
PHOTOS, PHOTO_BYTES = 48, 2 * MIB
COMPARE_BYTES = 4096  # A block of the file system.
LETTER = "Dear reader,\nthis line was written between the first backup and the second.\n"


class DemoFailed(Exception):
    """The demo showed that something does not work."""


def say(text=""):
    print(text, flush=True)


def run(folder, environment, *words, show=True, text_input=None):
    """Runs a command in the demo's folder, shows both sides of the conversation, and returns its output."""
    if show:
        say(f"\n$ {shlex.join(words)}")
    done = subprocess.run(words, cwd=folder, env=environment, check=False, text=True, input=text_input,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if show and done.stdout:
        say(done.stdout.rstrip())
    if done.returncode != 0:
        raise DemoFailed(f"`{words[0]}` ended with {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def make_volume(folder, environment):
    """An image with an ext4 file system that holds photos and a letter."""
    tree = folder / "tree"
    (tree / "photos").mkdir(parents=True)
    (tree / "letters").mkdir()
    numbers = random.Random(1)
    for number in range(PHOTOS):
        (tree / "photos" / f"{number:02}.jpg").write_bytes(numbers.randbytes(PHOTO_BYTES))
    (tree / "letters" / "first.txt").write_text("Dear reader,\n")
    (folder / "volume.img").touch()
    os.truncate(folder / "volume.img", IMAGE_BYTES)
    run(folder, environment, "mke2fs", "-q", "-F", "-t", "ext4", "-d", "tree", "volume.img")
    shutil.rmtree(tree)


def change_files(folder, environment):
    """A new letter, one photo less, another replaced: done by the file system's own tool."""
    (folder / "second.txt").write_text(LETTER)
    (folder / "new.jpg").write_bytes(random.Random(2).randbytes(PHOTO_BYTES))
    commands = ("rm photos/07.jpg\nrm photos/08.jpg\nwrite new.jpg photos/08.jpg\n"
                "write second.txt letters/second.txt\n")
    say("\n$ debugfs -w volume.img    # a new letter, one photo less, another replaced")
    run(folder, environment, "debugfs", "-w", "-f", "-", "volume.img", show=False, text_input=commands)


def newest_snapshot(folder, environment):
    """The id of the only snapshot there is yet."""
    listed = subprocess.run(["csi-delta", "snapshots", "--json"], cwd=folder, env=environment, check=True, capture_output=True)
    return json.loads(listed.stdout)[-1]["id"]


def list_changes(folder, base):
    """Where two states of the volume differ, as csi-delta reads it; returns the number of bytes."""
    extents = []
    with open(folder / "before.img", "rb") as before, open(folder / "volume.img", "rb") as after:
        for offset in range(0, IMAGE_BYTES, COMPARE_BYTES):
            if before.read(COMPARE_BYTES) == after.read(COMPARE_BYTES):
                continue
            if extents and sum(extents[-1]) == offset:
                extents[-1][1] += COMPARE_BYTES
            else:
                extents.append([offset, COMPARE_BYTES])
    lines = [json.dumps({"offset": offset, "length": length}) for offset, length in extents]
    (folder / "changed.jsonl").write_text("\n".join([json.dumps({"base": base}), *lines, '{"end":true}']) + "\n")
    return sum(length for _, length in extents)


def checksum(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def back_up(folder, environment):
    """The full backup, the change, and the increment."""
    run(folder, environment, "csi-delta", "init")
    run(folder, environment, "csi-delta", "backup", "volume.img")
    run(folder, environment, "cp", "--sparse=always", "volume.img", "before.img", show=False)
    change_files(folder, environment)
    changed_bytes = list_changes(folder, newest_snapshot(folder, environment))
    say(f"\nA storage system that tracks changed blocks would list them; here both states are compared: "
        f"{changed_bytes / MIB:.1f} MiB differ.")
    run(folder, environment, "csi-delta", "backup", "volume.img", "--extents", "changed.jsonl")
    run(folder, environment, "csi-delta", "snapshots")


def restore(folder, environment):
    """Restores over a target full of other bytes, and reads a file out of the result."""
    with open(folder / "restored.img", "wb") as target:
        for _ in range(IMAGE_BYTES // MIB):
            target.write(b"\xa5" * MIB)
    say(f"\nThe target is full of other bytes: {IMAGE_BYTES // MIB} MiB of 0xA5.")
    run(folder, environment, "csi-delta", "restore", "latest", "--target", "restored.img")
    same = checksum(folder / "volume.img") == checksum(folder / "restored.img")
    say(f"\nBoth images {'have the same SHA-256' if same else 'DIFFER'}.")
    if not same:
        raise DemoFailed("the restored image differs from the volume")
    run(folder, environment, "e2fsck", "-f", "-n", "restored.img")
    letter = run(folder, environment, "debugfs", "-R", "cat letters/second.txt", "restored.img")
    if LETTER not in letter:
        raise DemoFailed("the file in the restored image is not what was written")


def judge(folder, environment):
    """What stock restic makes of the repository."""
    say("\nThe check, by stock restic:")
    run(folder, environment, "restic", "--no-cache", "check", "--read-data")
    say("\nAnd without csi-delta at all:")
    script = "restic --no-cache dump latest /image | tar -xOf - | sha256sum"
    found = run(folder, environment, "sh", "-c", script).split()[0]
    if found != checksum(folder / "volume.img"):
        raise DemoFailed("restic dumped another image")
    say("which is the volume's.")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/csi-delta")
    program = parser.parse_args(arguments).program.absolute()
    if not program.is_file():
        print(f"demo: no {program}: ./dev build makes it", file=sys.stderr)
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="csi-delta-demo-") as name:
        folder = pathlib.Path(name)
        environment = {**os.environ, "PATH": f"{program.parent}:/usr/sbin:/sbin:{os.environ['PATH']}",
                       "RESTIC_REPOSITORY": str(folder / "repository"), "RESTIC_PASSWORD": "demo",
                       "LC_ALL": "C"}
        say(f"A volume: {IMAGE_BYTES // MIB} MiB with an ext4 file system, and in it "
            f"{PHOTOS * PHOTO_BYTES // MIB} MiB of photos.")
        try:
            make_volume(folder, environment)
            back_up(folder, environment)
            restore(folder, environment)
            judge(folder, environment)
        except (DemoFailed, OSError) as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    say(f"\nDone in {time.monotonic() - began:.0f} s; nothing of it is left.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
