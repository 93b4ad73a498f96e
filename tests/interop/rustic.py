#!/usr/bin/python3
"""csi-delta and rustic on one repository. Prints PASS or FAIL and a name per story.

    rustic.py --rustic PROGRAM --program CSI_DELTA
"""

import argparse
import filecmp
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

MIB = 1 << 20


class Story:
    """A folder with a volume in it and a repository that both programs work on."""

    def __init__(self, folder, options):
        self.folder = pathlib.Path(folder)
        self._options = options
        self._env = {**os.environ, "HOME": str(folder), "RESTIC_PASSWORD": "secret", "RUSTIC_PASSWORD": "secret",
                     "RESTIC_REPOSITORY": f"{folder}/repo", "RUSTIC_REPOSITORY": f"{folder}/repo",
                     "RUSTIC_NO_CACHE": "true"}
        self._dice = random.Random(1)
        self.image = self.folder / "image"
        with open(self.image, "wb") as file:
            file.write(self._dice.randbytes(3 * MIB))
            file.truncate(66 * MIB)
            file.seek(66 * MIB)
            file.write(self._dice.randbytes(1234567))

    def _run(self, program, arguments):
        done = subprocess.run([program, *map(str, arguments)], check=False, env=self._env, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{program} {' '.join(map(str, arguments))}: code {done.returncode}\n"
                                 f"{done.stdout}{done.stderr}")
        return done.stdout

    def ours(self, *arguments):
        return self._run(self._options.program, arguments)

    def rustic(self, *arguments):
        return self._run(self._options.rustic, arguments)

    def back_up(self, *more):
        """Backs the volume up; returns the result's document."""
        words = self.ours("backup", "--json", "--path", "/volume", self.image, *more)
        return json.loads(words.splitlines()[-1])

    def back_up_change(self, offset, count):
        """Changes the volume and backs up what changed, as an increment."""
        with open(self.image, "r+b") as file:
            file.seek(offset)
            file.write(self._dice.randbytes(count))
        newest = max(json.loads(self.ours("snapshots", "--json")), key=lambda snapshot: snapshot["time"])
        lines = ({"base": newest["id"]}, {"offset": offset, "length": count}, {"end": True})
        (self.folder / "list").write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = self.back_up("--extents", "list")
        assert result["mode_done"] == "incremental", result
        return result["snapshot_id"]

    def expect_ours_restores(self, snapshot):
        self.ours("restore", snapshot, "--target", "target")
        assert filecmp.cmp(self.image, self.folder / "target", shallow=False), "csi-delta restored other bytes"

    def expect_rustic_restores(self, snapshot):
        tree = self.folder / f"tree-{snapshot[:8]}"
        self.rustic("restore", snapshot, tree)
        with open(self.folder / "joined", "wb") as joined:
            for file in sorted(tree.glob("image/*/*/data")):
                joined.write(file.read_bytes())
        assert filecmp.cmp(self.image, self.folder / "joined", shallow=False), "rustic restored other bytes"

    def expect_whole(self):
        self.rustic("check", "--read-data")
        self.ours("check", "--read-data")


def ours_is_read_by_rustic(story):
    """Lists, checks and restores a full and an increment."""
    story.ours("init")
    full = story.back_up()["snapshot_id"]
    increment = story.back_up_change(300_000, 5000)
    listed = story.rustic("snapshots", "--json")
    assert full in listed and increment in listed, listed
    story.expect_whole()
    story.expect_rustic_restores(increment)


def theirs_is_read_by_us(story):
    """A repository that rustic made: checked by us, a volume goes into it and comes back."""
    story.rustic("init")
    (story.folder / "folder").mkdir()
    (story.folder / "folder" / "file").write_bytes(random.Random(2).randbytes(3 * MIB))
    story.rustic("backup", story.folder / "folder")
    story.ours("check", "--read-data")
    story.back_up()
    story.expect_ours_restores(story.back_up_change(300_000, 5000))
    story.expect_whole()


def a_chain_pruned_by_rustic_goes_on(story):
    """forget and prune by rustic, then our next increment."""
    story.ours("init")
    full = story.back_up()["snapshot_id"]
    last = story.back_up_change(300_000, 400_000)
    story.rustic("forget", full)
    story.rustic("prune", "--max-unused", "0", "--instant-delete")
    story.expect_ours_restores(last)
    following = story.back_up_change(900_000, 300_000)
    story.expect_ours_restores(following)
    story.expect_rustic_restores(following)
    story.expect_whole()


def a_chain_half_pruned_by_rustic_goes_on(story):
    """prune by rustic that only marks what it will delete another day."""
    story.ours("init")
    full = story.back_up()["snapshot_id"]
    story.back_up_change(300_000, 400_000)
    story.rustic("forget", full)
    story.rustic("prune", "--max-unused", "0")
    story.expect_ours_restores(story.back_up_change(900_000, 300_000))
    story.ours("prune", "--max-unused", "0")
    story.expect_whole()


STORIES = (ours_is_read_by_rustic, theirs_is_read_by_us, a_chain_pruned_by_rustic_goes_on,
           a_chain_half_pruned_by_rustic_goes_on)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rustic", required=True)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    failed = 0
    for tell in STORIES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                tell(Story(folder, options))
                print(f"PASS {tell.__name__}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"{error}\nFAIL {tell.__name__}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
