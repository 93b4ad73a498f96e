"""./dev versions: what is pinned of other projects, what is served, and which tier passed with it.

Each part of `./dev test --all` leaves a report with its commit in build/results/all. --record makes lines in docs/tested.txt of
those that passed, writes "tested" into the cells of docs/compatibility.md that these prove, and commits both.
"""

import collections
import json
import re

import console
import report
import scenarios
from console import ROOT, Failure, say

PAGE, RECORD = ROOT / "docs" / "compatibility.md", ROOT / "docs" / "tested.txt"
HEAD = "# By ./dev versions --record: tier, part of --all | ran with | commit | tests passed | those of docs/compatibility.md\n"
MODULES = {"Velero": ("github.com/vmware-tanzu/velero", "github.com/velero-io/velero"),  # The second path is that of 1.19.
           "velero-plugin-for-gcp": ("github.com/vmware-tanzu/velero-plugin-for-gcp",),
           "Kubernetes": ("k8s.io/kubernetes",), **{path.partition("/")[0]: (f"github.com/kubernetes-csi/{path}",) for path in (
               "external-snapshotter/v8", "external-provisioner/v6", "external-resizer/v2", "external-snapshot-metadata")}}
PINNING = ("tests/e2e/modules/cluster/go.mod", "tests/e2e/modules/velero*/go.mod", "tests/pluginmanager/harness/velero*.mod")
OLD_VELERO = "tests/e2e/test_old_velero.py::"  # Scenarios with the oldest one; all others have the newest.
TESTED, UNKNOWN = "**tested**", "unknown"  # What cells say; others say what was read, and where.
_HOST_TEST = re.compile(r"(?:pluginmanager|host)::(\d+\.\d+\.\d+)/")
_PROOF = re.compile(r" <!-- (.+) -->")  # Behind a feature: the tests that prove it, {} for the version.

Line = collections.namedtuple("Line", "tier versions commit passed proven")  # All text; lists joined by ", " and "; ".


def _order(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def pins(commit=None):
    """{project: versions that tiers are built with, newest first}, in the checkout or at a commit."""
    words = ["git", "grep", "-hE", r"^(require )?\s*\S+ v\S+$", *filter(None, [commit]), "--", *PINNING]
    found = [line.split()[-2:] for line in console.output(words, cwd=ROOT).splitlines()]
    return {name: sorted({version[1:] for path, version in found if path in paths}, key=_order, reverse=True)
            for name, paths in MODULES.items()}


def ran_with(test, pinned):
    """(tier, "Velero 1.18.3, ...") of a test; None if it needs no other project."""
    if host := _HOST_TEST.match(test):
        return "host", f"Velero {host[1]}"
    velero = -1 if test.startswith(OLD_VELERO) else 0
    versions = [f"{name} {found[velero if name == 'Velero' else 0]}" for name, found in pinned.items() if found]
    return ("scenarios", ", ".join(versions)) if test.startswith("tests/e2e/") else None


def read():
    """{(tier, versions): Line} of docs/tested.txt."""
    return {line[:2]: line for line in (Line(*text.split(" | ")) for text in RECORD.read_text().splitlines()[1:])}


def _rows(page):
    """(line number, project, version of each column, names of tests, cells) of the page's rows of features."""
    head = [""]
    for number, text in enumerate(page.splitlines()):
        cells = [cell.strip() for cell in text.split("|")[1:-1]] or [""]
        head = cells if cells[0] in MODULES else head if text.startswith("|") else [""]
        if head[0] and (tests := _PROOF.search(text)):
            yield number, head[0], head[1:], tests[1].split("; "), cells


def _proves(names, version, test):
    return any(scenarios.is_named(name.replace("{}", version), test) for name in names)


def reported():
    """What is recorded, with what was reported since. What is not pinned any more goes, and a commit that HEAD does not have."""
    lines, names = read(), [name for row in _rows(PAGE.read_text()) for name in row[3]]
    here = set(console.output(["git", "rev-list", "HEAD"], cwd=ROOT).split())
    for path in sorted((report.folder() / "all").glob("*.json")):
        part, ran = json.loads(path.read_text()), collections.defaultdict(list)
        if part["passed"] and part["commit"] in here:
            pinned = pins(part["commit"])
            for test, outcome in part["tests"].items():
                ran[ran_with(test, pinned)] += [test] if outcome == report.PASSED else []
        for (tier, versions), tests in ((key, tests) for key, tests in ran.items() if key and tests):
            proven = sorted(test for test in tests if _proves(names, versions.partition(",")[0].split()[1], test))
            line = Line(f"{tier} {part['part']}", versions, part["commit"], str(len(tests)), "; ".join(proven))
            lines[line[:2]] = line
    known = {f"{name} {version}" for name, found in pins().items() for version in found}
    return {key: line for key, line in lines.items() if known.issuperset(line.versions.split(", ")) and line.commit in here}


def written(page, lines):
    """The page with "tested" in the cells that lines prove, and in no other."""
    texts = page.splitlines(keepends=True)
    for number, project, versions, names, cells in _rows(page):
        for at, version in enumerate(versions, 1):
            ran = [line for line in lines.values() if f"{project} {version}" in line.versions.split(", ")]
            is_tested = any(_proves(names, version, test) for line in ran for test in line.proven.split("; "))
            cells[at] = TESTED if is_tested else UNKNOWN if cells[at] == TESTED else cells[at]
        texts[number] = f"| {' | '.join(cells)} |\n"
    return "".join(texts)


def check():
    """A Failure if the page says "tested" of what no tier reported, or not what is pinned."""
    page, pinned = PAGE.read_text(), pins()
    if page != written(page, read()):
        raise Failure("docs/compatibility.md: `tested` is not what docs/tested.txt has: ./dev versions --record writes both")
    for _, project, versions, *_ in _rows(page):
        if missing := set(pinned[project]) - set(versions):
            raise Failure(f"docs/compatibility.md: {project} has no column {' '.join(sorted(missing))}, which is pinned")


def record():
    """./dev versions --record."""
    lines, page = reported(), PAGE.read_text()
    if lines == read() and page == written(page, lines):
        say("versions: nothing was reported since with another version or commit")
        return
    RECORD.write_text(HEAD + "".join(f"{' | '.join(line)}\n" for _, line in sorted(lines.items())))
    PAGE.write_text(written(page, lines))
    console.run(["git", "commit", "-qm", "docs: record the versions that tiers passed with", "--", RECORD, PAGE], cwd=ROOT)


def show():
    """./dev versions."""
    line, lines = "{:<27} {:<8} {:<15} {:<8} {}".format, reported().values()
    say(line("project", "pinned", "newest of minor", "newest", "passed"))
    for name, found in pins().items():
        lists = [console.execute(["go", "list", "-m", "-versions", path], keep=True, quiet=True) for path in MODULES[name]]
        served = [word[1:] for code, printed in lists if code == 0 for word in printed[0].split()[1:] if "-" not in word]
        served.sort(key=_order)
        for version in found:
            minor = [one for one in served if _order(one)[:2] == _order(version)[:2]]
            passed = [f"{one.tier} at {one.commit[:8]}" for one in lines if f"{name} {version}" in one.versions.split(", ")]
            say(line(name, version, (minor or ["unknown"])[-1], (served or ["unknown"])[-1], ", ".join(passed) or "nothing"))
