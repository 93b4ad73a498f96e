#!/usr/bin/python3
"""A restore that is killed leaves swap to libblkid, and nothing that the kernel mounts, for each format that Debian makes.

    marks.py --program CSI_DELTA

The target held an older volume of the same format. strace kills the restore at a system call that changes the target,
at POINTS_MAX of them. Prints PASS or FAIL and the name of the format. Runs as root, for the mounts.
"""

import argparse
import collections
import contextlib
import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MIB = 1 << 20
VOLUME_BYTES = 320 * MIB  # gfs2 and nilfs2 take no less than half of it.
POINTS_MAX = 20
CHANGES = ("pwrite64", "fallocate", "fsync", "fdatasync", "sync_file_range", "ftruncate")
KEPT_BACK_BYTES = MIB  # of either end
FOUND_NOTHING, FOUND_SEVERAL = 2, 8  # blkid's codes; a node neither formats nor mounts what is several things
MARKED = ("swap", "several")  # Other parts of the beginning are written before the mark goes.
# Mounted by their ends alone, until these are erased as well: the second change of a restore.
MOUNTED_BY_THE_END = ("nilfs2",)

# How to make each on IMAGE; FOLDER has a few files. The second word of a name tells apart what blkid calls the same.
FORMATS = {
    "ext2": "mkfs.ext2 -q -F IMAGE",
    "ext3": "mkfs.ext3 -q -F IMAGE",
    "ext4": "mkfs.ext4 -q -F IMAGE",
    "xfs": "mkfs.xfs -q -f IMAGE",
    "btrfs": "mkfs.btrfs -q -f IMAGE",
    "f2fs": "mkfs.f2fs -q -f IMAGE",
    "vfat": "mkfs.vfat -F 32 IMAGE",
    "exfat": "mkfs.exfat IMAGE",
    "ntfs": "mkfs.ntfs -q -F -Q IMAGE",
    "jfs": "mkfs.jfs -q IMAGE",
    "reiserfs": "mkfs.reiserfs -q -f -f IMAGE",
    "nilfs2": "mkfs.nilfs2 -q -f IMAGE",
    "udf": "mkfs.udf IMAGE",
    "gfs2": "mkfs.gfs2 -q -O -p lock_nolock IMAGE",
    "minix": "mkfs.minix -3 IMAGE",
    "bfs": "mkfs.bfs IMAGE",
    "swap": "mkswap IMAGE",
    "squashfs": "mksquashfs FOLDER IMAGE -noappend -no-progress -quiet",
    "erofs": "mkfs.erofs --quiet IMAGE FOLDER",
    "cramfs": "mkfs.cramfs FOLDER IMAGE",
    "romfs": "genromfs -d FOLDER -f IMAGE",
    "iso9660": "genisoimage -quiet -R -o IMAGE FOLDER",
    "luks1": "cryptsetup luksFormat --type luks1 -q --pbkdf-force-iterations 1000 IMAGE PASSWORD",
    "luks2": "cryptsetup luksFormat --type luks2 -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 IMAGE PASSWORD",
    "partitions dos": "sfdisk -q -X dos IMAGE",
    "partitions gpt": "sfdisk -q -X gpt IMAGE",
}


class Volume:
    """A volume of one format in a repository, and a target for restores."""

    def __init__(self, folder, program, name):
        self._folder, self._program, self.name = pathlib.Path(folder), program, name
        self._env = {**os.environ, "RESTIC_PASSWORD": "secret", "RESTIC_REPOSITORY": f"{folder}/repo",
                     "MKE2FS_DEVICE_SECTSIZE": "512"}
        files = self._folder / "files"
        files.mkdir()
        (files / "file").write_bytes(os.urandom(3 * MIB))
        (self._folder / "password").write_text("secret")
        self.image, self.before, self.target = (self._folder / one for one in ("image", "before", "target"))
        for path in (self.image, self.before):
            self._make(path)
        assert self.kind(self.image), f"blkid does not know the volume itself: {name}"
        self.ours("init")
        self.ours("backup", self.image)

    def run(self, words, given=""):
        done = subprocess.run([*map(str, words)], check=False, env=self._env, cwd=self._folder, input=given,
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def _expect(self, words, given=""):
        code, said = self.run(words, given)
        assert code == 0, f"{' '.join(map(str, words))}: code {code}\n{said}"

    def _make(self, path):
        path.write_bytes(b"")
        os.truncate(path, VOLUME_BYTES)
        places = {"IMAGE": path, "FOLDER": self._folder / "files", "PASSWORD": self._folder / "password"}
        words = [str(places.get(word, word)) for word in FORMATS[self.name].split()]
        words[0] = shutil.which(words[0], path="/usr/sbin:/sbin:/usr/bin:/bin") or words[0]
        self._expect(words, "1M,100M\n,\n" if "sfdisk" in words[0] else "")
        os.truncate(path, VOLUME_BYTES)  # Some make it as short as it can be.

    def ours(self, *words):
        self._expect([self._program, *words])

    def kind(self, path):
        """What libblkid finds, or nothing."""
        code, said = self.run(["/sbin/blkid", "-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE", path])
        assert code in (0, FOUND_NOTHING, FOUND_SEVERAL), said
        return {0: said.strip(), FOUND_SEVERAL: "several"}.get(code, "")

    def mounts(self, path):
        """Whether the kernel takes it for a file system."""
        point = self._folder / "mounted"
        point.mkdir(exist_ok=True)
        code, _ = self.run(["mount", "-o", "ro,loop", path, point])
        if code == 0:
            self._expect(["umount", point])
        return code == 0

    def prepare_target(self):
        self._expect(["cp", "--sparse=always", self.before, self.target])

    def changes(self):
        """The system calls that a whole restore changes its target by: (name, number within its thread)."""
        self.prepare_target()
        log = self._folder / "calls"
        self._expect(["strace", "-f", "-o", log, "-e", f"trace={','.join(CHANGES)}", self._program, "restore", "latest",
                      "--target", self.target])
        counts = collections.Counter()
        for line in log.read_text().splitlines():
            if found := re.match(rf"(\d+) +({'|'.join(CHANGES)})\(", line):
                counts[found.group(2), found.group(1)] += 1
        return sorted({(name, number) for (name, _), count in counts.items() for number in range(1, count + 1)})

    def has_only_begun(self):
        """Whether the target is the older volume, but for its beginning."""
        with self.before.open("rb") as before, self.target.open("rb") as target:
            for file in (before, target):
                file.seek(KEPT_BACK_BYTES)
            return all(before.read(MIB) == target.read(MIB) for _ in range(VOLUME_BYTES // MIB))

    def restore_killed_at(self, call, number):
        """Whether the restore was killed there."""
        self.prepare_target()
        code, said = self.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={number}",
                               self._program, "restore", "latest", "--target", self.target])
        assert code in (0, -9, 137), said
        return code != 0


def check(volume):
    """Kills restores of a volume, and looks at what each leaves; returns how many were killed."""
    points = volume.changes()
    assert filecmp.cmp(volume.image, volume.target, shallow=False), "the restore is not the volume"
    step = max(1, len(points) / POINTS_MAX)
    killed = 0
    for call, number in (points[int(i * step)] for i in range(min(POINTS_MAX, len(points)))):
        if not volume.restore_killed_at(call, number):
            continue  # By chance no thread did so many this time.
        killed += 1
        if any(filecmp.cmp(whole, volume.target, shallow=False) for whole in (volume.before, volume.image)):
            continue  # Not begun, or all is there.
        if volume.name in MOUNTED_BY_THE_END and volume.has_only_begun():
            continue
        found = volume.kind(volume.target)
        assert found in MARKED, f"killed at {call} {number}: blkid finds {found or 'nothing'}"
        assert not volume.mounts(volume.target), f"killed at {call} {number}: it mounts"
    volume.ours("restore", "latest", "--target", volume.target)
    assert filecmp.cmp(volume.image, volume.target, shallow=False), "after kills the restore is not the volume"
    assert volume.kind(volume.target) == volume.kind(volume.image)
    return killed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("formats", nargs="*", default=list(FORMATS))
    arguments = parser.parse_args()
    failed = False
    for name in arguments.formats:
        with tempfile.TemporaryDirectory(prefix="csi-delta-marks-") as folder:
            try:
                killed = check(Volume(folder, arguments.program, name))
                assert killed >= 3, f"only {killed} restores were killed"
                print(f"PASS {name}")
                print(f"  killed {killed} times", file=sys.stderr)
            except AssertionError as error:
                failed = True
                print(f"FAIL {name}\n{error}")
            sys.stdout.flush()
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
