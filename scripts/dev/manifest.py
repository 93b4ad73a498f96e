"""The test programs that CMake made known: build/<preset>/test_programs.json, and what their sources hold."""

import dataclasses
import functools
import json
import re

import build
from console import ROOT, Failure

GTEST, COMMAND = "gtest", "command"


@dataclasses.dataclass(frozen=True)
class Program:
    """One program, or command, that tests something."""

    name: str
    folder: str  # "tests/csi"
    sources: tuple = ()  # Relative to the checkout.
    sweeps: tuple = ()  # Those sources that take a sample of something, or with CSI_DELTA_SWEEP=all everything.
    labels: frozenset = frozenset()
    command: tuple = ()
    kind: str = GTEST
    shards: int = 1
    timeout_seconds: int = 120


def parse(text):
    """The programs in the text of a manifest, by name."""
    programs = {}
    for entry in json.loads(text):
        known = {field.name: entry[field.name] for field in dataclasses.fields(Program) if field.name in entry}
        for name in ("sources", "sweeps", "command"):
            known[name] = tuple(known.get(name, ()))
        known["labels"] = frozenset(known.get("labels", ()))
        program = Program(**known)
        if program.name in programs:
            raise Failure(f"test_programs.json: {program.name} is there twice")
        programs[program.name] = program
    return programs


def read(preset="release"):
    """The programs of a preset, configured first: that builds nothing."""
    build.configure(preset)
    path = build.folder(preset) / "test_programs.json"
    if not path.is_file():
        raise Failure(f"`cmake --preset {preset}` left no {path.relative_to(ROOT)}")
    return parse(path.read_text())


_TEST = re.compile(r"^[ \t]*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_INSTANCES = re.compile(r"^[ \t]*INSTANTIATE_(?:TYPED_)?TEST_SUITE_P\(\s*(\w+)\s*,\s*(\w+)", re.MULTILINE)


def tests_in(text):
    """("Suite.Case", ...) that a source defines, and the suites that it gives parameters to, as "Name/Suite"."""
    return ([f"{suite}.{case}" for suite, case in _TEST.findall(text)],
            [f"{name}/{suite}" for name, suite in _INSTANCES.findall(text)])


@functools.lru_cache(maxsize=None)
def tests_of_source(source):
    """As tests_in(), of a file of the checkout. One that is made by the build has none."""
    path = ROOT / source
    return tests_in(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else ([], [])


def tests_with(source, word):
    """The tests of a source that have a word in their bodies; a Failure where another function has it."""
    path, found = ROOT / source, []
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for place in re.finditer(re.escape(word), text):
        head = max(_TEST.finditer(text, 0, place.start()), key=lambda one: one.start(), default=None)
        if head is None or "\n}" in text[head.end():place.start()]:
            raise Failure(f"{source}: {word} stands in no test itself")
        found.append(f"{head[1]}.{head[2]}")
    return found


def tests_of(program):
    """The tests that a program's sources define or give parameters to, as (test or suite, source)."""
    found = []
    for source in program.sources:
        tests, instances = tests_of_source(source)
        found += [(name, source) for name in (*tests, *instances)]
    return found


def gtest_patterns(name):
    """The patterns of --gtest_filter that meet a test of this name, with and without parameters.

    `name` is a suite, "Suite.Case", or either with what parameters add: "Name/Suite.Case/Value".
    """
    suite, _, case = name.partition(".")
    if not case:
        return [f"{suite}.*", f"{suite}/*.*"] + ([] if "/" in suite else [f"*/{suite}.*", f"*/{suite}/*.*"])
    patterns = [name, f"{name}/*"]
    if "/" not in suite:
        patterns += [f"*/{name}", f"*/{name}/*", f"{suite}/*.{case}", f"*/{suite}/*.{case}"]
    return patterns


def labelled(programs, label):
    """Those programs that have a label."""
    return [program for program in programs.values() if label in program.labels]


def seconds_of(program, known):
    """What a program took in an earlier run, as its tests did; 0 where nothing is known."""
    return sum(seconds for name, seconds in known["tests"].items() if name.startswith(f"{program.name}::"))
