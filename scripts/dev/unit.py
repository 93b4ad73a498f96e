"""Runs test programs, several at once, and shows of each only the tests that failed, in full.

The whole output of each lies in build/results/<tier>/<program>.log beside GoogleTest's report.
"""

import concurrent.futures
import dataclasses
import re

import console
import durations
import manifest
import progress
import results
from console import Failure, OutOfTime, Stopped, say
from results import FAILED, PASSED, Test

_BEGIN = re.compile(r"^\[ RUN      \] (\S+)$")
_END = re.compile(r"^\[(       OK |  FAILED  |  SKIPPED )\] ([^\s,]+).* \((\d+) ms\)$")
_LEFT_OUT = re.compile(r"^left out (?:under|beside) .+: .+$")  # What tests/support/sanitized.h and await.h print.
_WORDS_MAX = 200  # Lines of one test; the log has all.


@dataclasses.dataclass(frozen=True)
class Run:
    """What to run, and how."""

    only: dict = dataclasses.field(default_factory=dict)  # Program: patterns of --gtest_filter; none: all of it.
    left_out: tuple = ()  # Patterns of tests that do not run in this tier.
    env: dict = dataclasses.field(default_factory=dict)
    root: bool = False
    at_once: int = 0  # Processes; 0: as many as there are cores.


@dataclasses.dataclass(frozen=True)
class Job:
    """One process: a program, or the share of its tests that has this index."""

    program: manifest.Program
    index: int = 0
    count: int = 1

    @property
    def name(self):
        return self.program.name if self.count == 1 else f"{self.program.name}.{self.index + 1}of{self.count}"


def jobs_of(programs, run, known):
    """The processes of these programs, the longest first. What runs a few named tests is not shared out."""
    jobs = []
    for program in programs:
        count = 1 if program.name in run.only or program.kind != manifest.GTEST else max(1, program.shards)
        jobs += [Job(program, index, count) for index in range(count)]
    return sorted(jobs, key=lambda job: (-manifest.seconds_of(job.program, known) / job.count, job.name))


def _sections(lines):
    """(test, outcome or "", its lines) as a GoogleTest program printed them; without outcome: it ended in that one."""
    name, words = None, []
    for line in lines:
        begin, end = _BEGIN.match(line), _END.match(line)
        if begin:
            name, words = begin[1], []
        elif end and end[2] == name:
            yield name, end[1].strip(), words, int(end[3]) / 1000
            name = None
        elif name:
            words.append(line)
    if name:
        yield name, "", words, 0.0


def _shown(test_id, words):
    cut = words if len(words) <= _WORDS_MAX else [*words[:_WORDS_MAX], f"... {len(words) - _WORDS_MAX} more lines"]
    say("\n".join([f"---- {test_id}", *cut]))


def judge(job, code, lines, report, ran_out=""):
    """The tests of one process; prints those that failed. A process that failed without a failing test counts as one."""
    name = job.program.name
    if job.program.kind != manifest.GTEST:
        failed = bool(code) or bool(ran_out)
        if failed:
            _shown(name, [*lines[-_WORDS_MAX:], ran_out or f"ended with code {code}"])
        return [Test(name, FAILED if failed else PASSED, ran_out)]
    sections = list(_sections(lines))
    if report.is_file():
        tests = results.read_gtest(report, name)
    else:
        kinds = {"OK": PASSED, "SKIPPED": results.SKIPPED}
        tests = [Test(f"{name}::{test}", kinds.get(word, FAILED), "" if word else ran_out or f"ended with code {code}",
                      seconds) for test, word, _, seconds in sections]
    for test, word, words, _ in sections:
        if word not in ("OK", "SKIPPED"):
            end = [] if word else [ran_out or f"the program ended here with code {code}", f"log: {results.shown(report.with_suffix('.log'))}"]
            _shown(f"{name}::{test}", [*words, *end])
    if (code or ran_out) and all(test.outcome != FAILED for test in tests):
        why = ran_out or f"ended with code {code}"
        _shown(name, [*lines[-40:], why])
        tests.append(Test(name, FAILED, why))
    return tests


def _command(job, run, report):
    program = job.program
    if program.kind != manifest.GTEST:
        return list(program.command), {}
    wanted = ":".join(run.only.get(program.name, ())) or "*"
    chosen = f"{wanted}-{':'.join(run.left_out)}" if run.left_out else wanted
    env = {"GTEST_TOTAL_SHARDS": job.count, "GTEST_SHARD_INDEX": job.index} if job.count > 1 else {}
    return [*program.command, f"--gtest_output=xml:{report}", f"--gtest_filter={chosen}", "--gtest_color=no"], env


def _run(job, run, folder, part):
    """(tests, what they left out) of one process."""
    report = folder / f"{job.name}.xml"
    command, env = _command(job, run, report)
    limit_seconds = job.program.timeout_seconds
    part.note = job.name
    try:
        code, lines = console.execute(console.as_root(command) if run.root else command, keep=True, quiet=True,
                                      log=report.with_suffix(".log"), limit_seconds=limit_seconds, env={**run.env, **env})
        ran_out = ""
    except Stopped:
        raise
    except OutOfTime as error:
        code, ran_out = 1, str(error)
        lines = report.with_suffix(".log").read_text(errors="replace").splitlines()
    try:
        notes = [f"{job.program.name}: {line}" for line in lines if _LEFT_OUT.match(line)]
        return judge(job, code, lines, report, ran_out), notes
    finally:
        part.step()


def run_programs(this, programs, run):
    """Runs programs that are built as the tests of a tier."""
    if not programs:
        raise Failure("no test program has what this wants")
    folder = results.fresh_folder(this.name)
    part = progress.part()
    jobs = jobs_of(programs, run, durations.history())
    part.done, part.total = 0, len(jobs)
    with progress.pool(run.at_once) as pool:
        futures = [pool.submit(_run, job, run, folder, part) for job in jobs]
        try:
            for future in concurrent.futures.as_completed(futures):
                tests, notes = future.result()
                this.tests += tests
                this.notes += notes
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    part.note = ""
    this.ran = bool(this.tests)
