"""What a change can touch: from changed files to the tests that see them.

C++: a folder of src/ sees the folders whose headers it includes, and what those see; a file below tests/ sees what it
includes, and a header there its source. What has changed runs the programs that see it; whatever reaches a shipped
program also runs the host tier and the journeys.
"""

import functools
import hashlib
import re

import console
import manifest
import results
from console import ROOT
from filters import PYTEST_TIERS, Selection

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
BUILD_FILES = ("cmake/", "CMakeLists.txt", "CMakePresets.json", "proto/")
SHIPPED = "src/cmd"
_RUNS_SHIPPED = re.compile(r"\bBuiltProgram\(|build/release/bin/")  # A program that a test runs.
STORES = ("src/storage", "src/repository")  # What S3 and stock restic are asked about.
ORIGINS = ("origin/main", "origin/HEAD", "@{upstream}")
HOST_PROGRAMS = ("tests/host/fake_cluster.cc", "tests/plugin/plugin_under_test.cc")  # What the host tier runs of tests/.
IMAGE_FILES = ("scripts/image.py", "Dockerfile")
SITE_FILES = ("docs/", "scripts/docs/", "scripts/dev/docs.py", "mkdocs.yml")
_PYTHON_IMPORT = re.compile(r"^[ \t]*(?:import|from) (\w+)|\b(\w+)\.py\b", re.MULTILINE)
BED_INPUTS = ("tests/e2e", "tests/support/csi_driver")


def base():
    """The commit that the change began at, and what it left there: origin's main, or what HEAD follows; else "main" or "HEAD"."""
    for name in (*ORIGINS, "main"):
        try:
            return console.output(["git", "merge-base", "HEAD", name], quiet=True).strip(), name
        except console.Failure:
            continue
    return console.output(["git", "rev-parse", "HEAD"]).strip(), "HEAD"


def files(since):
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
                for target in _INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
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

    def seen_by(self, program):
        """Everything that a test program is made of."""
        return frozenset().union(*(self.seen_from(_node_of(source)) for source in program.sources))


def _cpp(selection, path, programs, includes):
    """A changed file of C++."""
    node, beside = _node_of(path), f"{_folder_of(path)}/"
    is_shipped = node in includes.seen_from(SHIPPED)
    for program in programs.values():
        # A folder's own files that are no headers may be compiled into its program unseen.
        mine = path.startswith("tests/") and program.folder + "/" == beside and not path.endswith("_test.cc")
        runs = is_shipped and any(_RUNS_SHIPPED.search(_text(ROOT / source)) for source in program.sources)
        if mine or runs or node in includes.seen_by(program):
            selection.add_program(program.name)
    if is_shipped:
        selection.tiers |= {"host", "journeys"}
        selection.tiers |= {"s3", "restic"} if node in STORES else set()
    if any(node in includes.seen_from(program) for program in HOST_PROGRAMS):
        selection.tiers.add("host")
    if path.startswith("tests/support/csi_driver/"):
        selection.tiers.add("journeys")


def _uses(folder, path, root):
    """Do the Python tests of a folder use a module of the test bed, directly or not?"""
    pending, seen = sorted((root / folder).glob("*.py")), set()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        names = {name for pair in _PYTHON_IMPORT.findall(_text(one)) for name in pair if name}
        pending += [root / "tests/e2e" / f"{name}.py" for name in names]
    return root / path in seen


def _python_users(selection, path, programs, root):
    """What other folders test with a changed module of the test bed."""
    selection.tiers |= {tier for folder, tier in PYTEST_TIERS.items() if tier != "e2e" and _uses(folder, path, root)}
    for program in programs.values():
        if program.kind == manifest.COMMAND and _uses(program.folder, path, root):
            selection.add_program(program.name)


def _python(selection, path):
    """A changed file of a Python test folder, or something beside one."""
    folder = next(one for one in PYTEST_TIERS if path.startswith(f"{one}/"))
    tier, name = PYTEST_TIERS[folder], path.rsplit("/", 1)[-1]
    if name.startswith("test_") and name.endswith(".py") and (ROOT / path).is_file():
        selection.add_path(tier, path)
    elif tier == "e2e":
        selection.tiers.add("journeys")
    else:
        selection.tiers.add(tier)


def select(paths, programs, includes=None, root=ROOT):
    """The selection of some changed paths; what is quick always runs."""
    includes = includes or Includes(root)
    selection = Selection(tiers={"checks", "scripts"})
    for path in paths:
        if path in IMAGE_FILES:
            selection.tiers.add("image")
        if path.endswith(".md") or path.startswith(SITE_FILES):
            selection.tiers.add("docs")
        if path.startswith("tests/e2e/") and path.endswith(".py"):
            _python_users(selection, path, programs, root)
        if path.startswith(BUILD_FILES) or path.endswith("/CMakeLists.txt"):
            selection.tiers |= {"unit", "host", "journeys"}
        elif path.startswith(tuple(f"{folder}/" for folder in PYTEST_TIERS)):
            _python(selection, path)
        elif path.startswith(("tests/pluginmanager/", "tests/host/")):
            selection.host = ""
        elif path.startswith(("src/", "tests/")) and path.endswith((".cc", ".h")):
            _cpp(selection, path, programs, includes)
        elif path.startswith("deploy/"):
            selection.tiers |= {"unit", "s3", "journeys"}
        elif path.startswith("docs/"):
            for program in programs.values():
                if path.rsplit("/", 1)[-1] in _text(root / program.folder / "CMakeLists.txt"):
                    selection.add_program(program.name)
        elif path.startswith("tests/"):  # Data of tests: their folder's programs, and those that name the folder.
            data = "/".join(path.split("/")[:2])
            for program in programs.values():
                if path.startswith(f"{program.folder}/") or data in _text(root / program.folder / "CMakeLists.txt"):
                    selection.add_program(program.name)
    if "host" in selection.tiers:
        selection.host = None
    return selection


def _text(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


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


def _bed_file():
    return console.cache_dir() / "bed-tests"


def bed_changed():
    """(must the tests of the bed run?, why). Without a cache to ask, what the change since origin holds decides."""
    digest, seen = bed_digest(), _text(_bed_file()).split()
    if digest in seen:
        return False, "what they judge is as it was when they last passed"
    if seen:
        return True, "what they judge has changed since they last passed"
    since, _ = base()
    touched = [path for path in files(since) if path.startswith(tuple(f"{folder}/" for folder in BED_INPUTS))
               and (ROOT / path).is_file() and _is_bed_input(ROOT / path)]
    if touched:
        return True, f"{touched[0]} has changed since {since[:12]}"
    return False, f"nothing that they judge has changed since {since[:12]}"


def bed_passed(digest):
    """Remembers the state with which the tests of the bed passed: bed_digest() before they ran."""
    results.write_state(_bed_file(), f"{digest}\n")
