#!/usr/bin/python3
"""Style rules that no compiler checks: words, calls, phrases, tests that nothing runs, long functions.

    style.py [root]

Prints one line per fault, with what to do instead, and exits 1; or says what it read and exits 0.
"""

import collections
import dataclasses
import functools
import json
import pathlib
import re
import subprocess
import sys
import typing

FUNCTION_LINES_MAX = 70
CLASS_LINES_MAX = 120  # With the bodies of its functions.
INLINE_LINES_MAX = 5  # Of a body that may stand in a longer class.
CPP = (".h", ".cc")
PYTHON_TEST_FOLDERS = ("tests/e2e", "tests/scripts", "tests/docs", "tests/image", "tests/s3", "tests/chart")
QUOTE_THE_RULES = ("scripts/style.py", "tests/scripts/test_style.py")


def _blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def plain(_, text):
    """The text as it stands."""
    return text


_CPP_NOISE = re.compile(
    r'R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"'  # Raw strings first: they may hold anything.
    r'|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.DOTALL | re.MULTILINE)


@functools.lru_cache(maxsize=1)  # Each rule asks for it.
def code(name, text):
    """C++ with comments, strings and preprocessor lines blanked; lines and columns stay. "" of other files."""
    return _CPP_NOISE.sub(_blank, text) if name.endswith(CPP) else ""


# Labels and annotations of objects in clusters, and the first bytes of restores that released versions left.
_CONTRACTS = re.compile(r"(csi-delta|group)-handed-over|handing-over(-at)?|volume-turn|turn-at|HAS NOT COME TO ITS END")
# A legal text, contracts of CSI, Velero and go-plugin, bytes that fuzzers made, programs of other projects.
NOT_OUR_WORDS = ("LICENSE", "proto/", "tests/fuzz/corpus/", "tests/e2e/modules/")


@functools.lru_cache(maxsize=1)
def prose(name, text):
    """The text in lower case, identifiers split into words and comment marks blanked; lines keep their numbers."""
    if name.startswith(NOT_OUR_WORDS):
        return ""
    text = _CONTRACTS.sub(_blank, text)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    text = re.sub(r"(?m)^[ \t]*(?://+|#+|\*|-)(?=\s)", " ", text)
    text = re.sub(r'"[ \t]*\n[ \t]*f?"', "\n", text)  # A string that goes on in the next line.
    return re.sub(r"[’'`_-]", lambda mark: "" if mark[0] in "’'`" else " ", text).lower()


@dataclasses.dataclass(frozen=True)
class Rule:
    """A pattern that must not occur, and what takes its place."""

    pattern: str
    instead: str
    places: tuple = ("",)  # How the paths begin that the rule is for.
    homes: tuple = ()  # Files that may.
    view: typing.Callable = code  # What of a file it looks at.


_CONDITION = r"[^()]*+"
for _ in range(9):  # As deep as parentheses may be.
    _CONDITION = rf"(?:[^()]|\({_CONDITION}\))*+"

# Phrases that the project has a better word for: those that kept coming back after readers had replaced them. Few,
# because a list cannot teach plain order. `LeftByNobody` and `left_by_nobody` read as "left by nobody".
PHRASES = {
    r"who(m|so)?ever|whom|(some|no)body( else)?s?|someone( else)?s?|no ?one elses?":
        "name the actor: the worker, the driver, the operator, another client",
    r"(of|is|are|was|not) (ours|theirs)(?!\()|(ours|theirs) to \w+":
        "managed by csi-delta; its own; of the other client",
    r"of no matter|in vain|to no avail": "ignored; unreferenced, without effect",
    r"anew|behind the (volume|end)|(come|comes|came|coming) to (its|their|an) end":
        "again, start over; past the end; finish",
    r"(let|lets|letting) go|let \w+ go|(hand|hands|handed|handing) (it |them )?over|handover":
        "delete, detach, free; adopt a group, rebind a volume",
    r"(snapshot|group|volume|claim|member)s? (that )?(is|are|was|were) cut(?! (off|short|into|to|in)\b)|being cut":
        "taken (a snapshot is taken; taken at)",
    r"words? of (the )?(driver|kubelet|worker)s?|(driver|pod|group|backup|stage)s? words?|last words?":
        "the driver's error, the kubelet's message, the worker's final status",
    r"(list|driver|index|server)s?( that)? (lied|believes?|wish(es)?)|(list|driver|index|server)s? that lies?":
        "omits, reports, requests; a wrong list",
    r"volume turns?|take turn|dead locks?": "VolumeLease (one operation per volume); stale lock",
    r"patience|insists?|insisted|insisting": "grace period, timeout; retry",
}
# Bare JSON ends in objects/, whose types name what the fields are.
WITHOUT_JSON = tuple(f"src/{folder}/" for folder in (
    "velero", "csi", "snapshots", "inplace", "backupitemactions", "restoreitemactions", "deleteitemactions", "itemblockactions",
    "datamover", "diffsnap", "doctor"))
JSON_READERS = ("src/velero/volume_policy.cc",)  # The document that a person wrote, in YAML.
_OF_OTHERS = r"(?:Velero|Kubernetes|external-snapshotter)`?\s+(?:[≥>]=?\s*)?v?\d+\.\d"
GIVE_A_TYPE = "give what it reads a type in objects/"
RULES = (
    Rule(r"\b(TODO|FIXME|XXX|HACK)\b", "do it now, or say in a document what is missing", view=plain),
    Rule(rf"(?m)\b(?:needs?|requires?)\s+(?:\w+\s+)?{_OF_OTHERS}|^\s*- {_OF_OTHERS}"  # What a page asks for, or says of tests.
         r"|\btests?\b[^.|]{0,40}\b(?:run|pass) \d+\.\d+\.\d|\d+\.\d+\.\d+ (?:is|are) tested", "link to docs/compatibility.md",
         ("docs/", "README.md", "SECURITY.md"), ("docs/compatibility.md",), plain),
    Rule("/(?:work|root|home/[a-z]+)/", "no path of one machine belongs into the project", view=plain),
    *(Rule(rf"\b(?:{phrase})\b".replace(" ", r"\s+"), f"say {instead}", view=prose) for phrase, instead in PHRASES.items()),
    Rule(r"\bsleep_(for|until)\b|\busleep\(|\bnanosleep\(|\babsl::SleepFor\b",
         "wait for a condition with a deadline, by base/clock.h", ("src/", "tests/"), ("src/base/clock.cc",)),
    Rule(r"\babsl::Now\(|_clock::now\(|\bclock_gettime\(|\bgettimeofday\(|\btime\((nullptr|NULL|0)\)",
         "time is a parameter: base/clock.h", ("src/",), ("src/base/clock.cc",)),
    Rule(r"\bstd::random_device\b|\bs?rand\(\)|\bRAND_bytes\(|\bgetrandom\(",
         "chance is a parameter: base/random.h", ("src/",), ("src/base/random.cc",)),
    Rule(r"\bstd::cout\b|(?<![:\w])(printf|puts|putchar)\(", "stdout belongs to the handshake; log with base/log.h", ("src/",),
         ("src/plugin/handshake.cc", "src/cmd/velero_plugin.cc")),
    Rule(r"\.detach\(\)", "a thread has an owner that joins it", ("src/", "tests/")),
    Rule(r"\bDISABLED_\w|\bGTEST_SKIP\(\)\s*;", "a test runs, or prints why it does not", ("tests/",)),
    Rule(r"\bgetaddrinfo\(|\bgethostbyname\w*\(", "names are resolved by c-ares", ("src/",)),
    Rule(r"\bstd::mutex\b", "base/mutex.h: the compiler checks what a Mutex guards", ("src/",), ("src/base/mutex.h",)),
    Rule(rf"(?:(?<!\}} )\bwhile|\bif(?: constexpr)?|\bfor)\s*\({_CONDITION}\)(?!\s*\{{)|\belse\b(?!\s*(?:\{{|if\b))",
         "what it controls stands in braces"),
    Rule(r"\bJson\b|(\.|->)json\(\)|\bToJson\(", GIVE_A_TYPE, WITHOUT_JSON, JSON_READERS),
    Rule(r'(?m)^\s*#\s*include "base/json\.h"', GIVE_A_TYPE, WITHOUT_JSON, JSON_READERS, plain),
    Rule(r"\bSetDeletionPolicy\b", "csi/drop.h deletes a content", ("src/",),
         ("src/csi/drop.cc", "src/csi/static_content.cc", "src/objects/patch.h", "src/objects/volume_snapshot.h",
          "src/objects/volume_group_snapshot.h")),
    Rule(r"\bthrow\b(?!\()", "errors are absl::Status", ("src/",),
         ("src/base/json.cc", "src/base/yaml.cc")),  # Their libraries' callbacks stop a parse by throwing.
)


def project_files(root):
    """Tracked files, and new ones that are not ignored, as relative paths."""
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             check=True, capture_output=True, text=True)
    names = sorted(set(filter(None, listing.stdout.split("\0"))))
    return [pathlib.PurePosixPath(name) for name in names if (root / name).is_file()]


def read_text(path):
    """The file's text, or None if it holds something else."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def rule_faults(name, text):
    """Faults against RULES in one file."""
    for rule in RULES:
        if name.startswith(rule.places) and name not in (*rule.homes, *QUOTE_THE_RULES):
            body = rule.view(name, text)
            for match in re.finditer(rule.pattern, body):
                yield f"{name}:{body.count(chr(10), 0, match.start()) + 1}: `{' '.join(match[0].split())}`: {rule.instead}"
    if name.endswith(".h") and "#pragma once" not in text:
        yield f"{name}:1: a header begins with #pragma once"


class Definition(typing.NamedTuple):
    """A function, class, struct or enum, with its body."""

    kind: str
    name: str
    first: int
    last: int

    @property
    def lines(self):
        return self.last - self.first + 1


def outline(root, paths):
    """{path: its definitions} of C++ and Python, by ctags; lambdas are none."""
    listing = "".join(f"{path}\n" for path in paths if path.suffix in (*CPP, ".py"))
    command = ["ctags", "--options=NONE", "-L", "-", "-f", "-", "--output-format=json", "--fields=+neK", "--kinds-C++=fcsg",
               "--kinds-Python=fm"]
    done = subprocess.run(command, cwd=root, input=listing, check=True, capture_output=True, text=True)
    found = collections.defaultdict(list)
    for tag in map(json.loads, done.stdout.splitlines()):
        if "end" in tag and not tag["name"].startswith("__anon"):
            found[tag["path"]].append(Definition(tag["kind"], tag["name"], tag["line"], tag["end"]))
    return found


def size_faults(name, definitions):
    """Functions that are too long, and classes that cannot be seen as a whole because bodies stand in them."""
    functions = [one for one in definitions if one.kind in ("function", "member")]
    for one in functions:
        if one.lines > FUNCTION_LINES_MAX:
            yield f"{name}:{one.first}: function of {one.lines} lines; at most {FUNCTION_LINES_MAX}"
    for one in definitions:
        if name.startswith("src/") and one not in functions and one.lines > CLASS_LINES_MAX and any(
                one.first < body.first and body.last <= one.last and body.lines > INLINE_LINES_MAX for body in functions):
            yield f"{name}:{one.first}: class {one.name} of {one.lines} lines; declare its functions, and define them behind it"


def dead_test_faults(root, files):
    """Tests and fuzz targets that nothing builds or runs."""
    for path in files:
        if re.search(r"_(test|fuzz)\.cc$", path.name) and path.parts[0] == "tests":
            listed = root / path.parent / "CMakeLists.txt"
            if not listed.is_file() or not re.search(rf"\b{re.escape(path.stem)}\b", listed.read_text()):
                yield f"{path}:1: no line of {path.parent}/CMakeLists.txt builds it"
        if re.match(r"test_.*\.py$", path.name) and str(path.parent) not in PYTHON_TEST_FOLDERS:
            yield f"{path}:1: nothing runs it: Python tests are in {' '.join(PYTHON_TEST_FOLDERS)}"


def check(root):
    """(faults as lines, number of files read)."""
    files = project_files(root)
    texts = {str(path): text for path in files if (text := read_text(root / path)) is not None}
    faults = [fault for name, text in texts.items() for fault in rule_faults(name, text)]
    faults += [fault for name, definitions in outline(root, files).items() for fault in size_faults(name, definitions)]
    return [*faults, *dead_test_faults(root, files)], len(texts)


def report(name, faults, count, of="files"):
    """Says what a program found, and is its exit code: to have read nothing is no pass."""
    print("\n".join([*faults, f"{name}: {count} {of}, {len(faults)} faults"]))
    return 1 if faults or not count else 0


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[1])
    return report("style", *check(root))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
