"""./dev mutants: breaks the program on purpose and expects a test to notice.

    ./dev mutants [--generated MINUTES] ...   small changes of src/ that the unit tests of their folder should notice

It works in a scratch copy of the working tree, kept in the cache, so that only what a change touches is compiled
again. Nothing that a run found is taken for a verdict of a later one.
"""

import argparse
import collections
import fcntl
import json
import os
import random
import re
import time

import console
import mutate
import results
from console import ROOT, Failure, say, stage

PRESET = "tidy"  # Quickest to build again: clang without optimization, precompiled headers, united sources.
TEST_SECONDS_MAX = 3600
MINUTES = 60
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
    for line in console.output(["git", "diff", "--unified=0", revision, "--", "src"]).splitlines():
        if line.startswith("+++ b/"):
            file = line[len("+++ b/"):]
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            found |= {(file, int(hunk[1]) + at) for at in range(int(hunk[2] or 1))}
    return found


class Folder:
    """One folder of src/: its candidates in the order of the seed, and the programs that test it."""

    def __init__(self, name, programs, seed, first):
        self.name, self.programs = name, programs
        self.sources = {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted((ROOT / "src" / name).rglob("*.cc"))}
        self.candidates = [one for file, data in self.sources.items() for one in mutate.find(file, data)]
        random.Random(f"{seed} {name}").shuffle(self.candidates)
        self.candidates.sort(key=lambda one: (one.file, one.lines[0]) not in first)  # Stable.

    def batch(self, judged, size):
        """The next candidates that no two of touch the same text."""
        chosen = []
        for one in self.candidates:
            if len(chosen) < size and one.key not in judged and not any(one.touches(other) for other in chosen):
                chosen.append(one)
        return chosen


class Generated:
    """One run: builds batches and judges their mutants until the time is over."""

    def __init__(self, scratch, seed, minutes):
        self._scratch, self._end = scratch, time.monotonic() + 60 * minutes
        self._build = scratch.build
        self._state = console.cache_dir() / f"mutants-{seed}.json"
        self.seed, self.judged = seed, {}

    def resume(self, tree):
        """Goes on with a run of the same seed over the same tree, if there is one."""
        if self._state.is_file():
            state = json.loads(self._state.read_text())
            if state["tree"] == tree:
                self.judged = state["judged"]
                say(f"this run goes on: {len(self.judged)} candidates were judged already")
        self._tree = tree

    def _note(self, one, folder, verdict, seconds):
        self.judged[one.key] = [folder.name, verdict]
        results.write_state(self._state, json.dumps({"tree": self._tree, "judged": self.judged}, indent=0))
        say(f"{verdict}: {one.key[:200]} ({seconds:.1f} s)")

    def time_is_over(self):
        return time.monotonic() >= self._end

    def _write(self, folder, batch):
        for file, data in folder.sources.items():
            mine = [(number, one) for number, one in enumerate(batch, 1) if one is not None and one.file == file]
            target, data = self._scratch.root / file, mutate.apply(data, mine) if mine else data
            if target.read_bytes() != data:
                target.write_bytes(data)

    def _compile(self, folder, batch):
        """Builds the folder's tests with the batch; those that do not compile become None. Clang names their lines."""
        while any(one is not None for one in batch):
            self._write(folder, batch)
            code, lines = console.execute(
                ["ninja", "-k", "0", "-C", self._build, "-j", console.jobs(), *folder.programs],
                cwd=self._scratch.root, env=self._scratch.env, keep=True, quiet=True)
            if code == 0:
                return
            wrong = {(found[1], int(found[2])) for line in lines
                     if (found := re.search(r"\b(src/[\w/]+\.cc):(\d+):\d+: error", line))}
            guilty = [at for at, one in enumerate(batch) if one is not None and any(
                one.file == file and line in one.lines for file, line in wrong)]
            if not guilty:  # Where a constant is used that is none any more; or somewhere in the files that are named.
                mine = [at for at, one in enumerate(batch) if one is not None and one.file in {file for file, _ in wrong}]
                guilty = [at for at in mine if len(batch[at].edits) > 1] or mine
            if not guilty:
                say("\n".join(lines[-40:]))
                raise Failure(f"the tests of {folder.name} do not build")
            for at in guilty:
                self._note(batch[at], folder, INVALID, 0)
                batch[at] = None

    def _fails(self, program, number, limit):
        """Whether a test program fails, crashes or hangs with a mutant; None where it passes."""
        command = [self._build / "bin" / program, "--gtest_brief=1", "--gtest_fail_fast"]
        try:
            code, _ = console.execute(command, cwd=self._build, keep=True, quiet=True, limit_seconds=limit,
                                      env={**self._scratch.env, mutate.VARIABLE: number})
        except console.OutOfTime:
            return True
        return code != 0

    def judge(self, folder):
        """One batch of a folder. False where nothing is left of it."""
        batch = folder.batch(self.judged, BATCH)
        if not batch:
            return False
        with stage(f"{folder.name}: {len(batch)} mutants"):
            self._compile(folder, batch)
            if not any(batch):
                return True
            limits = {}
            for program in folder.programs:
                start = time.monotonic()
                if self._fails(program, 0, TEST_SECONDS_MAX):
                    raise Failure(f"{program} fails without a mutant")
                limits[program] = 5 * (time.monotonic() - start) + GRACE_SECONDS
            for number, one in enumerate(batch, 1):
                if one is None or self.time_is_over():
                    continue
                start = time.monotonic()
                dies = any(self._fails(program, number, limits[program]) for program in sorted(limits, key=limits.get))
                self._note(one, folder, KILLED if dies else SURVIVED, time.monotonic() - start)
            self._write(folder, [])
        return True

    def report(self):
        """The counts of each folder and the survivors, as lines."""
        counts = collections.defaultdict(collections.Counter)
        for folder, verdict in self.judged.values():
            counts[folder][verdict] += 1
        lines = [f"{'folder':<20} {'mutants':>7} {'killed':>6} {'share':>5}"]
        for folder, count in sorted(counts.items()):
            valid = count[KILLED] + count[SURVIVED]
            lines.append(f"{folder:<20} {valid:>7} {count[KILLED]:>6} {count[KILLED] / valid if valid else 0:>5.0%}")
        lines += [f"survived: {text}" for text, (_, verdict) in sorted(self.judged.items()) if verdict == SURVIVED]
        valid = sum(verdict != INVALID for _, verdict in self.judged.values())
        killed = sum(verdict == KILLED for _, verdict in self.judged.values())
        return lines + [f"seed {self.seed}: {killed} of {valid} mutants killed, in {len(counts)} folders"]


def run_generated(arguments):
    """Judges generated mutants until the time is over. Survivors are work, not a failure of the run."""
    seed = arguments.seed or int.from_bytes(os.urandom(3), "big")
    say(f"seed {seed}: ./dev mutants --generated {arguments.generated:g} --seed {seed} goes on with this run")
    scratch = Scratch()
    tree = scratch.refresh()
    console.run(["cmake", "--preset", PRESET], cwd=scratch.root, env=scratch.env, quiet=True)
    run = Generated(scratch, seed, arguments.generated)
    first = changed_lines(arguments.since) if arguments.since else set()
    names = [path.name for path in sorted((ROOT / "src").iterdir()) if path.name in (arguments.folder or [path.name])]
    programs = {name: found for name in names if (found := scratch.programs(name))}
    if not programs:
        raise Failure("no such folder of src/, or it has no tests")
    run.resume(tree)
    folders = [Folder(name, found, seed, first) for name, found in programs.items()]
    if first:
        folders.sort(key=lambda folder: -sum((one.file, one.lines[0]) in first for one in folder.candidates))
    while folders and not run.time_is_over():
        folders = [folder for folder in folders if run.time_is_over() or run.judge(folder)]
    for line in run.report():
        say(line)
    return True


def run(arguments):
    """Does what the arguments after `./dev mutants` ask for."""
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--generated", type=float, default=MINUTES, metavar="MINUTES", help="generate mutants for so long; %(default)s")
    parser.add_argument("--since", metavar="REVISION", help="those of lines that changed since come first")
    parser.add_argument("--folder", action="append", help="only this folder of src/; may be given again")
    parser.add_argument("--seed", type=int, help="which mutants, and in which order")
    return run_generated(parser.parse_args(arguments))
