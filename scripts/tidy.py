#!/usr/bin/python3
"""Style rules that no compiler checks, as a program: words, calls, tests that are not run, long functions.

    tidy.py [root]

Prints one line per fault, with what to do instead, and exits 1; or says what it read and exits 0.
"""

import ast
import dataclasses
import functools
import pathlib
import re
import subprocess
import sys

FUNCTION_LINES_MAX = 70
CLASS_LINES_MAX = 120  # With the bodies of its functions.
INLINE_LINES_MAX = 5  # Of a body that may stand in a longer class.
CPP = (".h", ".cc")
ABSOLUTE = "/(?:work|root|home/[a-z]+)/"  # A path that exists on one machine.
CONDITION = r"[^()]*+"
for _ in range(9):  # As deep as parentheses may be.
    CONDITION = rf"(?:[^()]|\({CONDITION}\))*+"


@dataclasses.dataclass(frozen=True)
class Rule:
    """A pattern that must not occur, where, and what takes its place."""

    pattern: str
    instead: str
    places: tuple  # Folders that the rule is for; "" is the whole tree.
    suffixes: tuple = ()  # Endings of the files; none: every text file.
    homes: tuple = ()  # Files that may.


RULES = (
    Rule("|".join((r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b", r"\bHA" + r"CK\b")),
         "do it now, or say in a document what is missing", ("",)),
    Rule(ABSOLUTE, "no path of one machine belongs into the project", ("",)),
    Rule(r"\bsleep_(for|until)\b|\busleep\(|\bnanosleep\(|\babsl::SleepFor\b",
         "wait for a condition with a deadline, by base/clock.h", ("src", "tests"), CPP,
         ("src/base/clock.cc",)),
    Rule(r"\babsl::Now\(|_clock::now\(|\bclock_gettime\(|\bgettimeofday\(|\btime\((nullptr|NULL|0)\)",
         "time is a parameter: base/clock.h", ("src",), CPP, ("src/base/clock.cc",)),
    Rule(r"\bstd::random_device\b|\bs?rand\(\)|\bRAND_bytes\(|\bgetrandom\(",
         "chance is a parameter: base/random.h", ("src",), CPP, ("src/base/random.cc",)),
    Rule(r"\bstd::cout\b|(?<![:\w])(printf|puts|putchar)\(",
         "stdout belongs to the handshake; log with base/log.h", ("src",), CPP,
         ("src/plugin/handshake.cc", "src/cmd/velero_plugin.cc")),
    Rule(r"\.detach\(\)", "a thread has an owner that joins it", ("src", "tests"), CPP),
    Rule(r"\bDISABLED_\w|\bGTEST_SKIP\(\)\s*;", "a test runs, or prints why it does not", ("tests",), CPP),
    Rule(r"\bgetaddrinfo\(|\bgethostbyname\w*\(", "names are resolved by c-ares", ("src",), CPP),
    Rule(r"\bstd::mutex\b", "base/mutex.h: the compiler checks what a Mutex guards", ("src",), CPP,
         ("src/base/mutex.h",)),
    Rule(rf"(?:(?<!\}} )\bwhile|\bif(?: constexpr)?|\bfor)\s*\({CONDITION}\)(?!\s*\{{)|\belse\b(?!\s*(?:\{{|if\b))",
         "what it controls stands in braces", ("",), CPP),
    Rule(r"\bthrow\b(?!\()", "errors are absl::Status", ("src",), CPP,
         ("src/base/json.cc", "src/base/yaml.cc")),  # Their libraries' callbacks stop a parse by throwing.
)

TEXT_MAX_BYTES = 4 << 20
SKIPPED_SUFFIXES = (".sum", ".png", ".patch")  # Not written by hand, or the text of others.
PYTHON_TEST_FOLDERS = ("tests/e2e", "tests/scripts", "tests/docs", "tests/image", "tests/s3", "tests/chart")


def project_files(root):
    """Tracked files, and new ones that are not ignored, as relative paths."""
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others",
                              "--exclude-standard"], check=True, capture_output=True, text=True)
    names = sorted(set(filter(None, listing.stdout.split("\0"))))
    return [pathlib.PurePosixPath(name) for name in names if (root / name).is_file()]


def read_text(path):
    """The file's text, or None if it holds something else."""
    if path.suffix in SKIPPED_SUFFIXES or path.stat().st_size > TEXT_MAX_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


_CPP_NOISE = re.compile(
    r'R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"'  # Raw strings first: they may hold anything.
    r'|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.DOTALL | re.MULTILINE)


@functools.lru_cache(maxsize=4)  # Each rule asks for it.
def code_only(text):
    """C++ with comments, strings and preprocessor lines blanked; lines and columns stay."""
    return _CPP_NOISE.sub(lambda match: _blank(match[0]), text)


def rule_faults(path, text):
    """Faults against RULES in one file. C++ rules do not look into comments and strings."""
    name = str(path)
    for rule in RULES:
        if name in rule.homes or (rule.suffixes and path.suffix not in rule.suffixes):
            continue
        if not any(place == "" or name.startswith(f"{place}/") for place in rule.places):
            continue
        body = code_only(text) if rule.suffixes == CPP else text
        for match in re.finditer(rule.pattern, body):
            line = body.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: `{match[0].strip()}`: {rule.instead}"


_NOT_FUNCTION = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b(?![^()]*\()")


def _is_function(head, inside_function):
    """Does the text before an opening brace begin a function's body?"""
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.DOTALL).strip()
    if inside_function or "(" not in head or head.endswith(("=", ",", "(", "return")):
        return False
    return not _NOT_FUNCTION.search(head)


def cpp_functions(code):
    """(first line, last line) of each function body in blanked C++, by its braces."""
    stack, head_start = [], 0
    for match in re.finditer(r"[{};]", code):
        at, symbol = match.start(), match[0]
        if symbol == "{":
            inside = any(kind for kind, _ in stack)
            head = code[head_start:at]
            first = code.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
            stack.append((_is_function(head, inside), first))
        elif symbol == "}" and stack:
            kind, first = stack.pop()
            if kind:
                yield first, code.count("\n", 0, at) + 1
        head_start = at + 1


_CLASS = re.compile(r"^(?:class|struct)\s+(?P<name>[\w:]+)[^;{}()]*\{.*?^\};", re.MULTILINE | re.DOTALL)


def class_faults(path, code, functions):
    """Classes that cannot be seen as a whole, because bodies stand in them. `functions`: those of cpp_functions()."""
    for match in _CLASS.finditer(code):
        first = code.count("\n", 0, match.start()) + 1
        last = first + match[0].count("\n")
        if last - first + 1 > CLASS_LINES_MAX and any(
                first < begin and until <= last and until - begin + 1 > INLINE_LINES_MAX for begin, until in functions):
            yield (f"{path}:{first}: class {match['name']} of {last - first + 1} lines; declare its functions, and "
                   "define them behind it")


def cpp_faults(path, text):
    """Faults of form in one C++ file."""
    code = code_only(text)
    if path.suffix == ".h" and "#pragma once" not in text:
        yield f"{path}:1: a header begins with #pragma once"
    functions = list(cpp_functions(code))
    if path.parts[0] == "src":
        yield from class_faults(path, code, functions)
    for first, last in functions:
        if last - first + 1 > FUNCTION_LINES_MAX:
            yield f"{path}:{first}: function of {last - first + 1} lines; at most {FUNCTION_LINES_MAX}"


def python_faults(path, text):
    """Faults of form in one Python file. One that does not parse is a SyntaxError."""
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: function of {lines} lines; at most {FUNCTION_LINES_MAX}"


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
    faults, count = [], 0
    files = project_files(root)
    for path in files:
        text = read_text(root / path)
        if text is None:
            continue
        count += 1
        faults += rule_faults(path, text)
        if path.suffix in CPP:
            faults += cpp_faults(path, text)
        elif path.suffix == ".py":
            faults += python_faults(path, text)
    faults += dead_test_faults(root, files)
    return faults, count


def report(name, faults, count, of="files"):
    """Says what a program found, and is its exit code: to have read nothing is no pass."""
    print("\n".join([*faults, f"{name}: {count} {of}, {len(faults)} faults"]))
    return 1 if faults or not count else 0


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[1])
    return report("tidy", *check(root))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
