"""What `./dev test FILTER` means: the tests that a filter names, found without building or running anything.

A filter is what a failure prints (`csi_test::VolumeLeaseTest.X`, `tests/e2e/test_x.py::test_y[z]`), the number of a
scenario in tests/scenarios.txt, a tier, a program, a file, or a part of any test's name.
"""

import dataclasses
import difflib
import re

import manifest
import scenarios
from console import ROOT, Failure

# Folders of Python tests, and their tier.
PYTEST_TIERS = {"tests/scripts": "scripts", "tests/docs": "docs", "tests/s3": "s3", "tests/chart": "s3", "tests/image": "image", "tests/e2e": "e2e"}
HOST_PREFIXES = ("pluginmanager::", "host::")
CHECKS = ("checks::fmt", "checks::house")
# What `./dev test` has not, and the verb that has it.
ELSEWHERE = {"rustic": "interop", "marks": "interop", "checks::clang-tidy": "lint",
             "checks::clang-tidy tests": "lint ^tests/", "checks::fuzz": "fuzz all", "checks::dev": "build dev",
             "checks::packs": "bench packs --chunks-per-pack 8"}
TIERS = ("checks", "scripts", "docs", "unit", "host", "s3", "restic", "root", "image", "journeys")
_PYTHON_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@dataclasses.dataclass
class Selection:
    """What is to run."""

    programs: dict = dataclasses.field(default_factory=dict)  # Name: patterns of --gtest_filter; empty: all.
    paths: dict = dataclasses.field(default_factory=dict)  # Tier: files and ids for pytest.
    host: str | None = None  # A part of the names of its tests; "" is all.
    tiers: set = dataclasses.field(default_factory=set)  # Whole tiers.

    def is_empty(self):
        return not (self.programs or self.paths or self.tiers or self.host is not None)

    def add_program(self, name, patterns=()):
        """Adds a program or some tests of it; all of it stays all of it."""
        if name in self.programs and not (self.programs[name] and patterns):
            self.programs[name] = []
        else:
            known = self.programs.setdefault(name, [])
            known += [pattern for pattern in patterns if pattern not in known]

    def add_path(self, tier, path):
        known = self.paths.setdefault(tier, [])
        if path not in known:
            known.append(path)

    def merge(self, other):
        """Adds all that another selection has."""
        for name, patterns in other.programs.items():
            self.add_program(name, patterns)
        for tier, paths in other.paths.items():
            for path in paths:
                self.add_path(tier, path)
        self.tiers |= other.tiers
        if other.host is not None:
            self.host = other.host if self.host in (None, other.host) else ""


def _tier_of(path):
    """The tier of a Python test, by its folder."""
    return next((tier for folder, tier in PYTEST_TIERS.items() if path.startswith(f"{folder}/")), None)


def python_tests(root=ROOT):
    """Every Python test as "file::function"."""
    found = []
    for folder in PYTEST_TIERS:
        for path in sorted((root / folder).glob("test_*.py")):
            name = path.relative_to(root)
            found += [f"{name}::{test}" for test in _PYTHON_TEST.findall(path.read_text(encoding="utf-8"))]
    return found


def _by_python_id(text, root):
    """Of "test_x.py", with or without its folder, and perhaps "::test_y[z]"."""
    selection = Selection()
    file, _, rest = text.partition("::")
    found = [path for folder in PYTEST_TIERS for path in sorted((root / folder).glob("test_*.py"))
             if str(path.relative_to(root)) == file or path.name == file]
    for path in found:
        name = str(path.relative_to(root))
        selection.add_path(_tier_of(name), f"{name}::{rest}" if rest else name)
    return selection


def _by_test_name(text, programs):
    """Of "Suite", "Suite.Case" or "Name/Suite.Case/Value", perhaps behind the name of a program."""
    selection = Selection()
    where, _, name = text.rpartition("::")
    if where in programs:
        selection.add_program(where, manifest.gtest_patterns(name))
        return selection
    suite = next((part for part in name.split("/") if "." in part), name).split(".")[0]
    wanted = name.split("/")[-1] if "." not in name else next(part for part in name.split("/") if "." in part)
    for program in programs.values():
        for test, _ in manifest.tests_of(program):
            plain = test.split("/")[-1]
            if plain == wanted or plain.split(".")[0] == wanted or ("/" in test and plain == suite):
                selection.add_program(program.name, manifest.gtest_patterns(name))
    return selection


def _by_file(text, programs):
    """Of a program, a test's source (with or without folder and ending), or a folder of tests."""
    selection = Selection()
    if text in programs:
        selection.add_program(text)
        return selection
    for program in programs.values():
        if program.folder == text.rstrip("/"):
            selection.add_program(program.name)
            continue
        for source in program.sources:
            if text in (source, source.rsplit("/", 1)[-1], source.rsplit("/", 1)[-1].removesuffix(".cc")):
                selection.add_program(program.name, _patterns_of(source))
    return selection


def _patterns_of(source):
    """The patterns that meet the tests of a source."""
    tests, instances = manifest.tests_of_source(source)
    suites = sorted({test.split(".")[0] for test in tests} | {one.split("/")[1] for one in instances})
    return [pattern for suite in suites for pattern in manifest.gtest_patterns(suite)]


def _by_part(text, programs, root):
    """Of a part of a name, capitals or not."""
    selection, wanted = Selection(), text.lower()
    for program in programs.values():
        if wanted in program.name.lower():
            selection.add_program(program.name)
            continue
        for source in program.sources:
            if wanted in source.rsplit("/", 1)[-1].lower():
                selection.add_program(program.name, _patterns_of(source))
        for test, _ in manifest.tests_of(program):
            if wanted in test.lower() and "." in test:
                selection.add_program(program.name, manifest.gtest_patterns(test))
    for test in python_tests(root):
        if wanted in test.lower():
            selection.add_path(_tier_of(test), test)
    return selection


def wants_programs(text):
    """May it name a test program? Else CMake need not tell which there are."""
    resolved = next((scenario.test for scenario in scenarios.read() if scenario.id == text), text)
    return ".py" not in resolved and not resolved.startswith(HOST_PREFIXES) and resolved not in (*TIERS, *CHECKS)


def select(text, programs, root=ROOT, promises=None):
    """The selection of a filter; a Failure that names what is near if nothing matches."""
    promises = scenarios.read() if promises is None else promises
    text = text.strip().removeprefix("./").removeprefix(f"{root}/")
    number = next((scenario.test for scenario in promises if scenario.id == text), None)
    if number:
        return select(number, programs, root, [])
    elsewhere = next((verb for name, verb in ELSEWHERE.items() if text == name or text.startswith(f"{name}::")), None)
    if elsewhere:
        raise Failure(f"./dev {elsewhere} runs {text}")
    if text in CHECKS:
        return Selection(tiers={"checks"})
    if text in TIERS:
        return Selection(tiers={text})
    if text.startswith(HOST_PREFIXES):
        return Selection(host=text)
    if ".py" in text.partition("::")[0]:
        selection = _by_python_id(text, root)
    else:
        selection = _by_file(text, programs)
        if selection.is_empty():
            selection = _by_test_name(text, programs)
        if selection.is_empty() and "::" not in text:
            selection = _by_part(text, programs, root)
    if selection.is_empty():
        names = [*programs, *(test for program in programs.values() for test, _ in manifest.tests_of(program)),
                 *python_tests(root)]
        near = difflib.get_close_matches(text.rpartition("::")[2], names, 3, 0.6)
        raise Failure(f"no test matches {text}" + (f"; near are {' '.join(near)}" if near else ""))
    return selection
