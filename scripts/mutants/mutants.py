"""./dev mutants: breaks the program on purpose and expects a test to notice.

The unit tests of a folder of src/ should notice small changes of its sources. The work is done in a scratch copy of
the working tree, kept in the cache, so that only what a change touches is compiled again. A verdict counts for a later
run only if that has the same seed and the same tree.
"""

import argparse
import collections
import fcntl
import json
import random
import re
import time

import console
import mutate
from console import ROOT, Failure, say, stage

PRESET = "tidy"  # Quickest to build again: clang without optimization, precompiled headers, united sources.
TEST_SECONDS_MAX = 3600
BATCH = 25  # Mutants that one build holds.
GRACE_SECONDS = 10  # Beyond five times what a program takes without a mutant; then it hangs, which is a failure.
KILLED, SURVIVED, INVALID = "killed", "SURVIVED", "does not compile"


class Scratch:
    """A copy of the working tree, in a git repository of its own. Its build folder outlasts a run."""

    def __init__(self):
        self.root = console.cache_dir() / "mutants"
        self.build = self.root / "build" / PRESET
        self.env = {"CCACHE_BASEDIR": self.root}
        self.root.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.root.with_suffix(".lock"), "w", encoding="ascii")  # Until this process ends.
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure("another ./dev mutants is running") from None

    def refresh(self):
        """Makes the copy equal to the tree again, touching only files that differ. Returns the tree's name."""
        copy = {"GIT_DIR": self.root / ".git", "GIT_WORK_TREE": self.root}
        ours = copy | {"GIT_WORK_TREE": ROOT, "GIT_INDEX_FILE": self.root / ".git" / "tree.index"}
        console.output(["git", "init", "-q"], env=copy)
        console.output(["git", "-C", ROOT, "add", "--all"], env=ours)
        tree = console.output(["git", "write-tree"], env=ours).strip()
        console.output(["git", "read-tree", "--reset", "-u", tree], env=copy)
        return tree

    def programs(self, folder):
        """The unit test programs of a folder, as ctest lists them."""
        tests = self.build / "tests" / folder
        listing = console.output(["ctest", "--test-dir", tests, "-N", "-L", "^unit$"]) if tests.is_dir() else ""
        return sorted(set(re.findall(r" Test +#\d+: (\w+)", listing)))  # Without the number of a shard.


def changed_lines(revision):
    """The lines of src/ that differ from a revision: (file, line)."""
    found, file = set(), ""
    diff = console.output(["git", "diff", "--unified=0", revision, "--", "src"])
    for name, begin, count in re.findall(r"^\+\+\+ b/(.+)|^@@ \S+ \+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE):
        file = name or file
        found |= {(file, int(begin) + at) for at in range(int(count or 1) if begin else 0)}
    return found


class Generated:
    """One run: builds batches and judges their mutants. A run of the same seed over the same tree goes on with it."""

    def __init__(self, scratch, seed, tree, minutes):
        self._scratch, self._seed, self.end = scratch, seed, time.monotonic() + 60 * minutes
        self._state = console.cache_dir() / f"mutants-{seed}-{tree}.json"  # A verdict on each line.
        self.judged = dict(map(json.loads, self._state.read_text().splitlines())) if self._state.is_file() else {}
        self._sources = {}

    def candidates(self, folder, first=()):
        """Those of a folder of src/ in the order of the seed, but those of some lines first."""
        paths = sorted((self._scratch.root / "src" / folder).rglob("*.cc"))
        sources = {str(path.relative_to(self._scratch.root)): path.read_bytes() for path in paths}
        self._sources |= sources
        found = [one for file, data in sources.items() for one in mutate.find(file, data)]
        random.Random(f"{self._seed} {folder}").shuffle(found)
        return sorted(found, key=lambda one: (one.file, one.lines[0]) not in first)

    def batch(self, candidates):
        """The next ones that no two of touch the same text."""
        chosen = []
        for one in candidates:
            if len(chosen) < BATCH and one.key not in self.judged and not any(one.touches(other) for other in chosen):
                chosen.append(one)
        return chosen

    def _note(self, one, verdict):
        self.judged[one.key] = verdict
        with open(self._state, "a", encoding="ascii") as state:
            state.write(json.dumps([one.key, verdict]) + "\n")
        say(f"{verdict}: {one.key[:200]}")

    def _write(self, batch=()):
        for file, data in self._sources.items():
            mine = [(number, one) for number, one in enumerate(batch, 1) if one and one.file == file]
            target, data = self._scratch.root / file, mutate.apply(data, mine) if mine else data
            if target.read_bytes() != data:
                target.write_bytes(data)

    def _compile(self, batch, programs):
        """Builds test programs with the batch; those that do not compile become None. Clang names their lines."""
        command = ["ninja", "-k", "0", "-C", self._scratch.build, "-j", console.jobs(), *programs]
        while True:
            self._write(batch)
            code, lines = console.execute(command, cwd=self._scratch.root, env=self._scratch.env, keep=True, quiet=True)
            if code == 0:
                return
            wrong = re.findall(r"\b(src/[\w/]+\.cc):(\d+):\d+: error", "\n".join(lines))
            suspects = [at for at, one in enumerate(batch) if one and one.file in dict(wrong)]
            there = [at for at in suspects if any((batch[at].file, str(line)) in wrong for line in batch[at].lines)]
            # Or a constant is used that is none any more; or it is somewhere in the files that are named.
            guilty = there or [at for at in suspects if len(batch[at].edits) > 1] or suspects
            if not guilty:
                say("\n".join(lines[-40:]))
                raise Failure(f"{' '.join(programs)}: does not build")
            for at in guilty:
                self._note(batch[at], INVALID)
                batch[at] = None

    def _passes(self, program, number, limit):
        """The seconds in which a test program passes with a mutant. None: it fails, crashes or hangs."""
        command = ["timeout", "--kill-after=9", f"{limit:.0f}", self._scratch.build / "bin" / program]
        options, start = ["--gtest_brief=1", "--gtest_fail_fast"], time.monotonic()
        env = self._scratch.env | {mutate.VARIABLE: number}
        code, _ = console.execute([*command, *options], cwd=self._scratch.build, env=env, quiet=True)
        return time.monotonic() - start if code == 0 else None

    def judge(self, folder, programs, candidates):
        """One batch of a folder's candidates. False where nothing is left of it."""
        batch, limits = self.batch(candidates), {}
        if not batch:
            return False
        with stage(f"{folder}: {len(batch)} mutants"):
            self._compile(batch, programs)
            for program in programs:
                seconds = self._passes(program, 0, TEST_SECONDS_MAX)
                if seconds is None:
                    raise Failure(f"{program} fails without a mutant")
                limits[program] = 5 * seconds + GRACE_SECONDS
            for number, one in enumerate(batch, 1):
                if one and time.monotonic() < self.end:
                    lives = all(self._passes(name, number, limits[name]) for name in sorted(limits, key=limits.get))
                    self._note(one, SURVIVED if lives else KILLED)
            self._write()
        return True

    def report(self):
        """Says the counts of each folder, and the survivors."""
        counts = collections.Counter((key.split("/")[1], verdict) for key, verdict in self.judged.items())
        say(f"{'folder':<20} {'mutants':>7} {'killed':>6} {'share':>5}")
        for folder in sorted({folder for folder, _ in counts}):
            killed, survived = counts[folder, KILLED], counts[folder, SURVIVED]
            say(f"{folder:<20} {killed + survived:>7} {killed:>6} {killed / (killed + survived or 1):>5.0%}")
        survivors = sorted(key for key, verdict in self.judged.items() if verdict == SURVIVED)
        for key in survivors:
            say(f"survived: {key}")
        killed = list(self.judged.values()).count(KILLED)
        say(f"seed {self._seed}: {killed} of {killed + len(survivors)} mutants killed")


def run(arguments):
    """Judges mutants until the time is over, as the arguments ask. Survivors are work, not a failure of the run."""
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--generated", type=float, default=60, metavar="MINUTES", help="for so long; %(default)s")
    parser.add_argument("--since", metavar="REVISION", help="those of lines that changed since come first")
    parser.add_argument("--folder", action="append", help="only this folder of src/; may be given again")
    parser.add_argument("--seed", type=int, default=random.getrandbits(24), help="which mutants, and in which order")
    options = parser.parse_args(arguments)
    say(f"./dev mutants --generated {options.generated:g} --seed {options.seed} goes on with this run")
    scratch = Scratch()
    generated = Generated(scratch, options.seed, scratch.refresh(), options.generated)
    say(f"{len(generated.judged)} candidates were judged by earlier runs")
    console.run(["cmake", "--preset", PRESET], cwd=scratch.root, env=scratch.env, quiet=True)
    first = changed_lines(options.since) if options.since else set()
    names = [path.name for path in sorted((ROOT / "src").iterdir()) if path.name in (options.folder or [path.name])]
    folders = [(name, tests, generated.candidates(name, first)) for name in names if (tests := scratch.programs(name))]
    if not folders:
        raise Failure("no such folder of src/, or it has no tests")
    folders.sort(key=lambda folder: -sum((one.file, one.lines[0]) in first for one in folder[2]))
    while folders and time.monotonic() < generated.end:
        folders = [folder for folder in folders if time.monotonic() >= generated.end or generated.judge(*folder)]
    generated.report()
    return True
