"""Which entries of ctest, and which tests of them, a filter or a change names; found without building or running anything.

A filter is what a failure prints (`csi_test::VolumeLeaseTest.X`, `tests/e2e/test_x.py::test_y[z]`), the number of a
scenario in tests/scenarios.txt, a tier, a program, a file, or a part of any test's name.

What a change can touch: a folder of src/ sees the folders whose headers it includes, and what those see; a file below
tests/ sees what it includes, and a header there its source. What has changed runs the programs that see it; whatever
reaches a shipped program also runs the host tier and the journeys.
"""

import dataclasses
import difflib
import functools
import hashlib
import json
import re

import build
import console
import scenarios
from console import ROOT, Failure

# Folders of Python tests, and the entry that runs some of their files.
PYTEST_ENTRIES = {"tests/scripts": "scripts", "tests/docs": "docs", "tests/s3": "s3", "tests/chart": "s3", "tests/image": "image",
                  "tests/e2e": "e2e"}
# What a tier is made of where a whole one is asked for; other tiers are the entries of their name.
WHOLE = {"checks": ("fmt", "layers", "style", "versions", "shellcheck"), "host": ("pluginmanager", "host"),
         "journeys": ("journeys", "journeys-moves")}
HOST_ALL = ("pluginmanager.all", "host.all")  # Of every version: a test that is named may be of any.
TIERS = ("checks", "scripts", "docs", "unit", "host", "s3", "restic", "root", "image", "journeys")
# What `./dev test` has not, and the verb that has it.
ELSEWHERE = {"rustic": "interop", "marks": "interop", "checks::clang-tidy": "lint", "clang-tidy::clang-tidy": "lint",
             "clang-tidy::clang-tidy-tests": "lint ^tests/", "fuzz::fuzz": "fuzz all", "dev::dev": "build dev",
             "rows::packs": "bench packs --chunks-per-pack 8"}
_HOST_ID = re.compile(r"^(pluginmanager|host)::(?:1\.(\d+)\.\d+/(?:host/)?(.+))?$")
_PYTHON_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
_TEST = re.compile(r"^[ \t]*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_INSTANCES = re.compile(r"^[ \t]*INSTANTIATE_(?:TYPED_)?TEST_SUITE_P\(\s*(\w+)\s*,\s*(\w+)", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
_PYTHON_IMPORT = re.compile(r"^[ \t]*(?:import|from) (\w+)|\b(\w+)\.py\b", re.MULTILINE)
_RUNS_SHIPPED = re.compile(r"\bBuiltProgram\(|build/release/bin/")  # A program that a test runs.
BUILD_FILES = ("cmake/", "CMakeLists.txt", "CMakePresets.json", "proto/")
SHIPPED = "src/cmd"
STORES = ("src/storage", "src/repository")  # What S3 and stock restic are asked about.
ORIGINS = ("origin/main", "origin/HEAD", "@{upstream}")
HOST_PROGRAMS = ("tests/host/fake_cluster.cc", "tests/plugin/plugin_under_test.cc")  # What the host tier runs of tests/.
IMAGE_FILES = ("scripts/image.py", "Dockerfile")
SITE_FILES = ("docs/", "scripts/docs/", "mkdocs.yml")
BED_INPUTS = ("tests/e2e", "tests/support/csi_driver")


def _text(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


@dataclasses.dataclass
class Program:
    """What tests something in one program or script: its entries' common name, their tier, and what it is made of."""

    name: str
    tier: str
    folder: str = ""  # "tests/csi"
    sources: tuple = ()  # Relative to the checkout.
    entries: list = dataclasses.field(default_factory=list)


def show_entries(*words, preset="release"):
    """What ctest knows of some entries of a configured tree: {name: (labels, sources)}."""
    told = json.loads(console.output(["ctest", "--test-dir", build.folder(preset), "--show-only=json-v1", *words]))
    found = {}
    for one in told["tests"]:
        properties = {each["name"]: each["value"] for each in one.get("properties", ())}
        sources = [str(path).removeprefix(f"{ROOT}/") for path in properties.get("REQUIRED_FILES", ())]
        found[one["name"]] = (tuple(properties.get("LABELS", ())), tuple(sources))
    return found


def programs():
    """Test programs of the release preset, by name: those of GoogleTest, and the commands of tier root."""
    build.configure("release")
    found = {}
    for entry, (labels, sources) in show_entries("-L", "^tier:(unit|restic|root)$").items():
        tier = next(label.removeprefix("tier:") for label in labels if label.startswith("tier:"))
        if tier == "build":  # What they need comes with them.
            continue
        name, _, rest = entry.partition(".")
        program = found.setdefault(name, Program(name, tier, sources[0].rsplit("/", 1)[0], sources))
        program.entries += [entry] if tier != "restic" or rest.startswith("later") else []
    return found


@functools.lru_cache(maxsize=None)
def tests_of_source(source):
    """("Suite.Case", ...) that a source of the checkout defines, and the suites that it gives parameters to, as "Name/Suite"."""
    text = _text(ROOT / source)
    return ([f"{suite}.{case}" for suite, case in _TEST.findall(text)],
            [f"{name}/{suite}" for name, suite in _INSTANCES.findall(text)])


def tests_with(source, word):
    """The tests of a source that have a word in their bodies; a Failure where another function has it."""
    text, found = _text(ROOT / source), []
    for place in re.finditer(re.escape(word), text):
        head = max(_TEST.finditer(text, 0, place.start()), key=lambda one: one.start(), default=None)
        if head is None or "\n}" in text[head.end():place.start()]:
            raise Failure(f"{source}: {word} stands in no test itself")
        found.append(f"{head[1]}.{head[2]}")
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


def patterns_of(sources):
    """The patterns that meet all tests of some sources."""
    suites = set()
    for source in sources:
        tests, instances = tests_of_source(source)
        suites |= {test.split(".")[0] for test in tests} | {one.split("/")[1] for one in instances}
    return [pattern for suite in sorted(suites) for pattern in gtest_patterns(suite)]


def tests_of(program):
    """The tests that a program's sources define or give parameters to."""
    return [name for source in program.sources for part in tests_of_source(source) for name in part]


class Selection:
    """What is to run."""

    def __init__(self, tiers=()):
        self.tiers = set(tiers)  # Whole ones.
        self.programs = {}  # Name: patterns of --gtest_filter; empty: all of it.
        self.paths = {}  # Entry: files and ids for pytest.
        self.host = []  # Words for the runners of the host tier, by entry: [(entry, words)].

    def is_empty(self):
        return not (self.tiers or self.programs or self.paths or self.host)

    def add_program(self, name, patterns=()):
        """Adds a program or some tests of it; all of it stays all of it."""
        if name in self.programs and not (self.programs[name] and patterns):
            self.programs[name] = []
        else:
            known = self.programs.setdefault(name, [])
            known += [pattern for pattern in patterns if pattern not in known]

    def add_path(self, path):
        entry = next(entry for folder, entry in PYTEST_ENTRIES.items() if path.startswith(f"{folder}/"))
        known = self.paths.setdefault(entry, [])
        known += [path] if path not in known else []

    def entries(self, known):
        """(names of entries, what is chosen of them: tests, and targets of the builds of test programs)."""
        names, only, targets = [], {}, {}
        for tier in sorted(self.tiers):
            names += WHOLE.get(tier, [tier] if tier not in ("unit", "restic", "root") else
                               [entry for one in known.values() if one.tier == tier for entry in one.entries])
        for entry, paths in self.paths.items():
            if entry not in names:
                names.append(entry)
                only[entry] = paths
        for entry, words in self.host:
            if "host" not in self.tiers:
                names.append(entry)
                only.update({entry: words} if words else {})
        for name, patterns in self.programs.items():
            program = known[name]
            if program.tier in self.tiers:
                continue
            makes = {"unit": "build-unit-tests", "root": "build-root-tests"}.get(program.tier)
            if makes and program.sources:
                targets.setdefault(makes, []).append(name)
            if patterns:  # In one process: shards of a few tests are for nothing.
                entry = next((one for one in program.entries if ".1of" in one), program.entries[0])
                only[entry] = [f"--gtest_filter={':'.join(patterns)}"]
                names.append(entry)
            else:
                names += program.entries
        return list(dict.fromkeys(names)), {**only, **targets}


def python_tests(root=ROOT):
    """Every Python test as "file::function"."""
    return [f"{path.relative_to(root)}::{test}" for folder in PYTEST_ENTRIES for path in sorted((root / folder).glob("test_*.py"))
            for test in _PYTHON_TEST.findall(path.read_text(encoding="utf-8"))]


def _by_python_id(text, root):
    """Of "test_x.py", with or without its folder, and perhaps "::test_y[z]"."""
    selection = Selection()
    file, _, rest = text.partition("::")
    for folder in PYTEST_ENTRIES:
        for path in sorted((root / folder).glob("test_*.py")):
            name = str(path.relative_to(root))
            if file in (name, path.name):
                selection.add_path(f"{name}::{rest}" if rest else name)
    return selection


def _of_programs(text, known, whole):
    """Programs, sources and tests of GoogleTest that have a name, or not `whole` a part of one, capitals or not."""
    selection = Selection()
    where, _, name = text.rpartition("::")
    where = where if where in known else ""  # A program may have another name by now.
    wanted = next((part for part in name.split("/") if "." in part), name.split("/")[-1])  # Without what parameters add.

    def fits(*names):
        return text in names if whole else text.lower() in names[0].lower()
    for program in known.values():
        if where or fits(program.name, program.folder):
            if not where or where == program.name:
                selection.add_program(program.name, gtest_patterns(name) if where else ())
            continue
        for source in program.sources:
            file = source.rsplit("/", 1)[-1]
            if fits(file, source, file.removesuffix(".cc")):
                selection.add_program(program.name, patterns_of([source]))
        for test in tests_of(program):
            plain = test.split("/")[-1]
            if whole and (wanted in (plain, plain.split(".")[0]) or ("/" in test and plain == wanted.split(".")[0])):
                selection.add_program(program.name, gtest_patterns(name))
            elif not whole and fits(test) and "." in test:
                selection.add_program(program.name, gtest_patterns(test))
    return selection


def host_words(name):
    """(entry, its words) of the id of a test of the host tier."""
    runner, minor, case = _HOST_ID.match(name).groups()
    if not minor:
        return runner, []
    return f"{runner}.all", [f"--version=1{minor}", *(["--filter", case] if runner == "host" else [])]


def select(text, known, root=ROOT, promises=None):
    """The selection of a filter; a Failure that names what is near if nothing matches."""
    promises = scenarios.read() if promises is None else promises
    text = text.strip().removeprefix("./").removeprefix(f"{root}/")
    number = next((scenario.test for scenario in promises if scenario.id == text), None)
    if number:
        return select(number, known, root, [])
    elsewhere = next((verb for name, verb in ELSEWHERE.items() if text == name or text.startswith(f"{name}::")), None)
    if elsewhere:
        raise Failure(f"./dev {elsewhere} runs {text}")
    if text in TIERS or text.startswith("checks::"):
        return Selection([text.partition("::")[0]])
    selection = Selection()
    if _HOST_ID.match(text):
        selection.host.append(host_words(text))
    elif ".py" in text.partition("::")[0]:
        selection = _by_python_id(text, root)
    else:
        selection = _of_programs(text.rstrip("/"), known, whole=True)
        if selection.is_empty() and "::" not in text:
            selection = _of_programs(text, known, whole=False)
            for test in python_tests(root):
                if text.lower() in test.lower():
                    selection.add_path(test)
    if selection.is_empty():
        names = [*known, *(test for program in known.values() for test in tests_of(program)), *python_tests(root)]
        near = difflib.get_close_matches(text.rpartition("::")[2], names, 3, 0.6)
        raise Failure(f"no test matches {text}" + (f"; near are {' '.join(near)}" if near else ""))
    return selection


def base():
    """The commit that the change began at, and what it left there: origin's main, or what HEAD follows; else "main" or "HEAD"."""
    for name in (*ORIGINS, "main"):
        try:
            return console.output(["git", "merge-base", "HEAD", name], quiet=True).strip(), name
        except Failure:
            continue
    return console.output(["git", "rev-parse", "HEAD"]).strip(), "HEAD"


def changed_files(since):
    """Paths that differ from a commit: committed, uncommitted and new ones."""
    names = console.output(["git", "diff", "--name-only", "--no-renames", "-z", since])
    names += console.output(["git", "ls-files", "--others", "--exclude-standard", "-z"])
    return sorted(set(filter(None, names.split("\0"))))


def _folder_of(path):
    return path.rsplit("/", 1)[0]


def _node_of(path):
    """What stands for a file in the graph: its folder where that is a layer, else itself."""
    return _folder_of(path) if path.startswith("src/") else path


class Includes:
    """What sees what, by the includes of all files."""

    def __init__(self, root=ROOT):
        self._sees = {}
        for top in ("src", "tests"):
            for path in sorted([*(root / top).rglob("*.h"), *(root / top).rglob("*.cc")]):
                name = str(path.relative_to(root))
                seen = self._sees.setdefault(_node_of(name), set())
                for target in _INCLUDE.findall(_text(path)):
                    for candidate in (f"{_folder_of(name)}/{target}", target, f"src/{target}"):
                        if (root / candidate).is_file():
                            seen.add(_node_of(candidate))
                            break
                if name.endswith(".h") and path.with_suffix(".cc").is_file():
                    seen.add(_node_of(f"{name.removesuffix('.h')}.cc"))

    @functools.lru_cache(maxsize=None)  # pylint: disable=method-cache-max-size-none
    def seen_from(self, node):
        """The node itself and all that it sees, directly or not."""
        pending, found = [node], set()
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending += self._sees.get(one, ())
        return frozenset(found)


def _cpp(selection, path, known, includes):
    """A changed file of C++."""
    node, beside = _node_of(path), _folder_of(path)
    is_shipped = node in includes.seen_from(SHIPPED)
    for program in known.values():
        # A folder's own files that are no headers may be compiled into its program unseen.
        mine = path.startswith("tests/") and program.folder == beside and not path.endswith("_test.cc")
        runs = is_shipped and any(_RUNS_SHIPPED.search(_text(ROOT / source)) for source in program.sources)
        if mine or runs or any(node in includes.seen_from(_node_of(source)) for source in program.sources):
            selection.add_program(program.name)
    if is_shipped:
        selection.tiers |= {"host", "journeys"} | ({"s3", "restic"} if node in STORES else set())
    if any(node in includes.seen_from(program) for program in HOST_PROGRAMS):
        selection.tiers.add("host")
    if path.startswith("tests/support/csi_driver/"):
        selection.tiers.add("journeys")


def _uses(folder, path, root):
    """Do the Python tests of a folder use a module of the test bed, directly or not?"""
    pending, seen = sorted((root / folder).glob("*.py")), set()
    while pending:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            names = {name for pair in _PYTHON_IMPORT.findall(_text(one)) for name in pair if name}
            pending += [root / "tests/e2e" / f"{name}.py" for name in names]
    return root / path in seen


def _python(selection, path, known, root):
    """A changed file of a Python test folder, or something beside one."""
    folder = next(one for one in PYTEST_ENTRIES if path.startswith(f"{one}/"))
    entry, name = PYTEST_ENTRIES[folder], path.rsplit("/", 1)[-1]
    if name.startswith("test_") and name.endswith(".py") and (ROOT / path).is_file():
        selection.add_path(path)
    else:
        selection.tiers.add("journeys" if entry == "e2e" else entry)
    if entry == "e2e" and name.endswith(".py"):  # What other folders test with a module of the test bed.
        selection.tiers |= {other for one, other in PYTEST_ENTRIES.items() if other != "e2e" and _uses(one, path, root)}
        for program in known.values():
            if not program.sources and _uses(program.folder, path, root):
                selection.add_program(program.name)


def select_changed(paths, known, includes=None, root=ROOT):
    """The selection of some changed paths; what is quick always runs."""
    includes = includes or Includes(root)
    selection = Selection(["checks", "scripts"])

    def add_programs(wanted):
        for program in known.values():
            if wanted(program):
                selection.add_program(program.name)
    for path in paths:
        selection.tiers |= {"image"} if path in IMAGE_FILES else set()
        selection.tiers |= {"docs"} if path.endswith(".md") or path.startswith(SITE_FILES) else set()
        if path.startswith(BUILD_FILES) or path.endswith("/CMakeLists.txt"):
            selection.tiers |= {"unit", "host", "journeys"}
        elif path.startswith(tuple(f"{folder}/" for folder in PYTEST_ENTRIES)):
            _python(selection, path, known, root)
        elif path.startswith(("tests/pluginmanager/", "tests/host/")):
            selection.tiers.add("host")
        elif path.startswith(("src/", "tests/")) and path.endswith((".cc", ".h")):
            _cpp(selection, path, known, includes)
        elif path.startswith("deploy/"):
            selection.tiers |= {"unit", "s3", "journeys"}
        elif path.startswith("docs/"):
            name = path.rsplit("/", 1)[-1]
            add_programs(lambda program, name=name: name in _text(root / program.folder / "CMakeLists.txt"))
        elif path.startswith("tests/"):  # Data of tests: their folder's programs, and those that name the folder.
            data = "/".join(path.split("/")[:2])
            add_programs(lambda program, path=path, data=data: path.startswith(f"{program.folder}/")
                         or data in _text(root / program.folder / "CMakeLists.txt"))
    return selection


def _is_bed_input(path):
    name = path.name
    if name.startswith("test_") and name.endswith(".py"):
        return "pytest.mark.bed" in path.read_text(encoding="utf-8")
    return "__pycache__" not in path.parts and path.suffix not in (".md", ".txt")


def bed_digest(root=ROOT):
    """Names the state of what tests of the bed judge."""
    digest = hashlib.sha256()
    for folder in BED_INPUTS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and _is_bed_input(path):
                digest.update(f"\0{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def bed_file():
    """Holds the digests with which the tests of the bed passed."""
    return console.cache_dir() / "bed-tests"


def bed_changed():
    """(must the tests of the bed run?, why). Without a cache to ask, what the change since origin holds decides."""
    digest, seen = bed_digest(), _text(bed_file()).split()
    if digest in seen:
        return False, "what they judge is as it was when they last passed"
    if seen:
        return True, "what they judge has changed since they last passed"
    since, _ = base()
    touched = [path for path in changed_files(since) if path.startswith(tuple(f"{folder}/" for folder in BED_INPUTS))
               and (ROOT / path).is_file() and _is_bed_input(ROOT / path)]
    if touched:
        return True, f"{touched[0]} has changed since {since[:12]}"
    return False, f"nothing that they judge has changed since {since[:12]}"
