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


def run(*words, show=True, text_input=None):
    """Runs a command, shows both sides of the conversation, and returns its output."""
    if show:
        say(f"\n$ {shlex.join(words)}")
    done = subprocess.run(words, check=False, text=True, input=text_input, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if show and done.stdout:
        say(done.stdout.rstrip())
    if done.returncode != 0:
        raise DemoFailed(f"`{words[0]}` ended with {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def write_photo(path, seed):
    pathlib.Path(path).write_bytes(random.Random(seed).randbytes(PHOTO_BYTES))


def make_volume():
    """An image with an ext4 file system that holds photos and a letter."""
    say(f"A volume: {IMAGE_BYTES // MIB} MiB with an ext4 file system, and in it "
        f"{PHOTOS * PHOTO_BYTES // MIB} MiB of photos.")
    os.makedirs("tree/photos")
    os.mkdir("tree/letters")
    for number in range(PHOTOS):
        write_photo(f"tree/photos/{number:02}.jpg", number)
    pathlib.Path("tree/letters/first.txt").write_text("Dear reader,\n", encoding="ascii")
    run("mke2fs", "-q", "-F", "-t", "ext4", "-d", "tree", "volume.img", f"{IMAGE_BYTES // MIB}M")
    shutil.rmtree("tree")


def change_files():
    """A new letter, one photo less, another replaced: done by the file system's own tool."""
    pathlib.Path("second.txt").write_text(LETTER, encoding="ascii")
    write_photo("new.jpg", PHOTOS)
    commands = ("rm photos/07.jpg\nrm photos/08.jpg\nwrite new.jpg photos/08.jpg\n"
                "write second.txt letters/second.txt\n")
    say("\n$ debugfs -w volume.img    # a new letter, one photo less, another replaced")
    run("debugfs", "-w", "-f", "-", "volume.img", show=False, text_input=commands)


def list_changes():
    """Where two states of the volume differ, as csi-delta reads it; returns the number of bytes."""
    with open("before.img", "rb") as before, open("volume.img", "rb") as after:
        changed = [offset for offset in range(0, IMAGE_BYTES, COMPARE_BYTES)
                   if before.read(COMPARE_BYTES) != after.read(COMPARE_BYTES)]
    base = json.loads(run("csi-delta", "snapshots", "--json", show=False))[-1]["id"]
    lines = [{"base": base}, *({"offset": offset, "length": COMPARE_BYTES} for offset in changed), {"end": True}]
    pathlib.Path("changed.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="ascii")
    return len(changed) * COMPARE_BYTES


def checksum(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def back_up():
    """The full backup, the change, and the increment."""
    run("csi-delta", "init")
    run("csi-delta", "backup", "volume.img")
    run("cp", "--sparse=always", "volume.img", "before.img", show=False)
    change_files()
    say(f"\nA storage system that tracks changed blocks would list them; here both states are compared: "
        f"{list_changes() / MIB:.1f} MiB differ.")
    run("csi-delta", "backup", "volume.img", "--extents", "changed.jsonl")
    run("csi-delta", "snapshots")


def restore():
    """Restores over a target full of other bytes, and reads a file out of the result."""
    with open("restored.img", "wb") as target:
        for _ in range(IMAGE_BYTES // MIB):
            target.write(b"\xa5" * MIB)
    say(f"\nThe target is full of other bytes: {IMAGE_BYTES // MIB} MiB of 0xA5.")
    run("csi-delta", "restore", "latest", "--target", "restored.img")
    if checksum("volume.img") != checksum("restored.img"):
        raise DemoFailed("the restored image differs from the volume")
    say("\nBoth images have the same SHA-256.")
    run("e2fsck", "-f", "-n", "restored.img")
    if LETTER not in run("debugfs", "-R", "cat letters/second.txt", "restored.img"):
        raise DemoFailed("the file in the restored image is not what was written")


def judge():
    """What stock restic makes of the repository."""
    say("\nThe check, by stock restic:")
    run("restic", "--no-cache", "check", "--read-data")
    say("\nAnd without csi-delta at all:")
    found = run("sh", "-c", "restic --no-cache dump latest /image | tar -xOf - | sha256sum").split()[0]
    if found != checksum("volume.img"):
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
    with tempfile.TemporaryDirectory(prefix="csi-delta-demo-") as folder:
        os.environ.update(PATH=f"{program.parent}:/usr/sbin:/sbin:{os.environ['PATH']}", LC_ALL="C",
                          RESTIC_REPOSITORY=f"{folder}/repository", RESTIC_PASSWORD="demo")
        os.chdir(folder)
        try:
            for part in (make_volume, back_up, restore, judge):
                part()
        except (DemoFailed, OSError) as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    say(f"\nDone in {time.monotonic() - began:.0f} s; nothing of it is left.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
