"""What the tree weighs: lines, functions, types and modules of C++, by folder. No dependency; check_layers.py prints it.

    weight.py [root]

Counts files as they lie there: all .h and .cc below src/, and every text file below tests/.
"""

import collections
import dataclasses
import pathlib
import re
import statistics
import sys

import tidy

SMALL_MODULE_LINES = 60  # A header and its source together; below that they are no module.
CHECKS = re.compile(r"\bCSIDELTA_D?CHECK\w*\(")
DELETION_POLICY = "SetDeletionPolicy"
# Folders that may use that only by the one deed that deletes a content; what is below them offers it.
BELOW_CSI = ("base", "net", "k8s", "objects", "velero", "longhorn")
_TYPE = re.compile(r"^[ \t]*(?:class|struct|enum(?: class)?)\s+(?:\[\[\w+\]\]\s+)?\w+[^;(){}]*\{", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Weight:
    """Figures of a tree."""

    lines: dict  # Of each folder of src/.
    test_lines: int
    types: int  # Definitions of classes, structs and enums, nested ones too.
    small_modules: tuple  # Paths below src/, without suffix.
    function_lines: tuple  # Of each body.
    checks: int
    policy_files: tuple

    @property
    def src_lines(self):
        return sum(self.lines.values())

    def figures(self):
        """Lines of text."""
        functions = sorted(self.function_lines) or [0]
        yield (f"src {self.src_lines:,} lines; tests {self.test_lines:,} lines, "
               f"{self.test_lines / max(self.src_lines, 1):.2f} of src")
        yield (f"{self.types:,} types; {len(self.small_modules)} modules under {SMALL_MODULE_LINES} lines; "
               f"{len(self.policy_files)} files call {DELETION_POLICY} in csi and above")
        yield (f"{len(functions):,} functions, median {statistics.median_low(functions)} lines, longest {functions[-1]}; "
               f"one assertion in {len(functions) // max(self.checks, 1)}")


def _sources(src):
    return sorted([*src.rglob("*.h"), *src.rglob("*.cc")])


def _text_lines(path):
    data = path.read_bytes()
    return 0 if b"\0" in data else data.count(b"\n")


def weigh(root):
    """The weight of the tree below `root`."""
    src = root / "src"
    lines, modules = collections.Counter(), collections.Counter()
    types = checks = 0
    functions, policy_files = [], []
    for path in _sources(src):
        text = path.read_text(encoding="utf-8")
        relative = path.relative_to(src)
        count = text.count("\n")
        lines[str(relative.parent)] += count
        modules[str(relative.with_suffix(""))] += count
        code = tidy.code_only(text)
        types += len(_TYPE.findall(code))
        checks += len(CHECKS.findall(code))
        functions += [last - first + 1 for first, last in tidy.cpp_functions(code)]
        if DELETION_POLICY in code and relative.parts[0] not in BELOW_CSI:
            policy_files.append(str(relative))
    small = tuple(name for name, count in sorted(modules.items()) if count < SMALL_MODULE_LINES)
    tests = root / "tests"
    test_lines = sum(_text_lines(path) for path in tests.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return Weight(dict(sorted(lines.items())), test_lines, types, small, tuple(functions), checks, tuple(policy_files))


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[1])
    weight = weigh(root)
    for line in weight.figures():
        print(f"weight: {line}")
    for folder, count in weight.lines.items():
        print(f"{count:>8,}  {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
