#!/usr/bin/python3
"""Includes only point down, and no folder outgrows its budget: checks src/ against the tables of layers and of lines.

    check_layers.py [root]

Prints one line per include that is not allowed and per folder with too many lines, and what the tree weighs: lines,
functions, types and modules of C++. Exits with 1 if anything is wrong.
ARCHITECTURE.md draws the layers; this table is what holds them.
"""

import collections
import pathlib
import re
import statistics
import sys

import style

# Each folder below src/, lowest layer first, with the folders whose headers it may include, or the one header of a
# folder. Siblings on one layer never include each other.
ALLOWED = {
    "base": (),
    "net": ("base",),
    "k8s": ("net", "base"),
    "objects": ("k8s", "base"),
    "velero": ("objects", "base"),
    "storage": ("net", "base"),
    "longhorn": ("objects", "k8s", "velero", "base"),
    "csi": ("longhorn", "objects", "k8s", "velero", "base"),  # velero: labels and settings, which are pure data.
    # What a person asks for, with the caller's rights: Velero's server and the mover do neither.
    "snapshots": ("csi", "longhorn", "objects", "k8s", "velero", "base"),
    "inplace": ("snapshots", "csi", "longhorn", "objects", "k8s", "velero", "base"),
    "repository": ("storage", "base"),
    "incremental": ("csi", "objects", "k8s", "net", "repository", "storage/posix_file.h", "base"),
    "backupitemactions": ("objects", "velero", "csi", "longhorn", "k8s", "base"),
    "restoreitemactions": ("objects", "velero", "csi", "longhorn", "k8s", "base"),
    "deleteitemactions": ("objects", "velero", "csi", "longhorn", "k8s", "base"),
    "itemblockactions": ("objects", "velero", "csi", "k8s", "base"),
    "plugin": ("velero", "objects", "net", "base"),
    "engine": ("incremental", "repository", "csi", "objects", "k8s", "storage", "base"),
    "datamover": ("engine", "incremental", "repository", "inplace/in_place_volume.h", "csi", "objects", "k8s", "net",
                  "storage", "velero", "base"),
    "conformance": ("base",),
    "diffsnap": ("incremental", "csi", "objects", "k8s", "net", "base"),
    "doctor": ("diffsnap/snapshot_listing.h", "datamover", "incremental", "inplace", "snapshots", "csi", "longhorn", "objects",
               "k8s", "net", "storage", "velero", "base"),
    "report": ("incremental", "repository", "velero", "objects", "k8s", "base"),
}
# Folders with subfolders: what each of these may include of its own folder: a subfolder, one header, or "" for what
# lies in the folder itself. What lies there includes of subfolders only what its own line names.
WITHIN = {
    "csi": {"": ("csi/group/group_lifecycle.h",), "group": ("",), "expose": ("", "group")},
    "incremental": {"": (), "sources": ("",), "mover": ("", "sources")},
    "datamover": {"": (), "worker": ("",), "records": ("", "worker"), "controller": ("", "worker", "records")},
    "cli": {"": (), "repository": ("",), "snapshot": ("",), "mover": ("",)},
}

EVERYTHING = tuple(ALLOWED)
ALLOWED["cli"] = EVERYTHING
ALLOWED["cmd"] = EVERYTHING + ("cli",)

# Lines of .h and .cc that each folder may have, and of text below tests/. A commit that raises one does
# nothing else, and says why.
LINES_MAX = {
    "backupitemactions": 3450,
    "base": 4725,
    "cli": 17670,
    "cmd": 200,
    "conformance": 2350,
    "csi": 10700,
    "datamover": 15750,
    "deleteitemactions": 650,
    "diffsnap": 3650,
    "doctor": 4700,
    "engine": 2625,
    "incremental": 10130,
    "inplace": 3575,
    "itemblockactions": 125,
    "k8s": 4750,
    "longhorn": 2125,
    "net": 2525,
    "objects": 8100,
    "plugin": 2125,
    "report": 1600,
    "repository": 15870,
    "restoreitemactions": 2600,
    "snapshots": 6150,
    "storage": 7750,
    "velero": 1600,
}
TEST_LINES_MAX = 172_850

# Messages that protoc made from proto/<group>/, and third-party code, have homes: the folders or files that may include
# them. Of third-party code by a pattern of the include.
PROTO_HOMES = {"velero": ("plugin",), "goplugin": ("plugin",), "csi": ("incremental", "diffsnap", "conformance")}
HOMES = (
    (r"nlohmann/", ("base/json.h", "base/json.cc")),
    (r"openssl/(ssl|tls|x509|bio)", ("net",)),
    (r"openssl/", ("base", "net")),
    (r"yaml-cpp/", ("base/yaml.cc",)),
    (r"boost/", ("net",)),
    (r"ares(_\w+)?\.h", ("net",)),
    (r"expat", ("storage/s3_xml.cc",)),
    (r"zstd", ("repository",)),
    (r"(grpc|grpcpp|google/protobuf)/", ("net", "csi", "plugin", "diffsnap", "conformance",
                                         "incremental/sources/csi_metadata_source.cc", "incremental/sources/grpc_call")),
)

SMALL_MODULE_LINES = 60  # A header and its source together; below that they are no module.

_INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
_CHECK = re.compile(r"\bCSIDELTA_D?CHECK\w*\(")


def sources(root):
    """(path below src/, text) of each source."""
    src = root / "src"
    for path in sorted([*src.rglob("*.h"), *src.rglob("*.cc")]):
        yield pathlib.PurePosixPath(path.relative_to(src)), path.read_text(encoding="utf-8")


def _homes(target, root):
    """What alone may include a header; None if its folder decides that."""
    if target.endswith(".pb.h"):
        stem = re.sub(r"^proto/\w+/|(\.grpc)?\.pb\.h$", "", target)
        return next((homes for group, homes in PROTO_HOMES.items() if (root / "proto" / group / f"{stem}.proto").is_file()), None)
    return next((homes for pattern, homes in HOMES if re.match(pattern, target)), None)


def _fault_within(path, target):
    """What is wrong with an include of the own folder, which has subfolders, or None."""
    own, other = ("/".join(one.parts[1:-1][:1]) for one in (path, pathlib.PurePosixPath(target)))
    allowed = WITHIN[path.parts[0]].get(own)
    if allowed is None:
        return f"subfolder {path.parts[0]}/{own} is not in the table of layers"
    return None if other == own or {other, target} & set(allowed) else f"{path.parts[0]}/{own} may not include {target}"


def fault(path, target, is_quoted, root):
    """What is wrong with a source's include, or None."""
    own, other = path.parts[0], target.split("/")[0]
    if own not in ALLOWED:
        return f"folder {own} is not in the table of layers"
    if homes := _homes(target, root):
        is_home = {own, str(path), str(path.with_suffix(""))} & set(homes)
        return None if is_home else f"{target} has its home in {' '.join(homes)}"
    if not is_quoted:
        return None
    if other == own:
        return _fault_within(path, target) if own in WITHIN else None
    if other == "tests":
        return f"production code includes test code ({target})"
    allowed = other not in ALLOWED or {other, target} & set(ALLOWED[own])
    return None if allowed else f"{own} may not include {other} ({target})"


def check(root):
    """(faults as lines, number of includes checked)."""
    faults, count = [], 0
    for path, text in sources(root):
        for number, line in enumerate(text.splitlines(), 1):
            if found := _INCLUDE.match(line):
                count += 1
                if wrong := fault(path, found[2], found[1] == '"', root):
                    faults.append(f"src/{path}:{number}: {wrong}")
    return faults, count


class Weight:
    """What a tree weighs. Counts files as they lie there: the sources, and every text file below tests/."""

    def __init__(self, root):
        self.lines, self.modules = collections.Counter(), collections.Counter()  # Of folders; of paths without suffix.
        self.checks = 0  # Assertions.
        paths = []
        for path, text in sources(root):
            paths.append("src" / path)
            self.lines[path.parts[0]] += text.count("\n")
            self.modules[str(path.with_suffix(""))] += text.count("\n")
            self.checks += len(_CHECK.findall(style.code(path.name, text)))
        definitions = [one for found in style.outline(root, paths).values() for one in found]
        self.function_lines = sorted(one.lines for one in definitions if one.kind == "function")
        self.types = len(definitions) - len(self.function_lines)  # Classes, structs and enums, nested ones too.
        tests = (path for path in (root / "tests").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        texts = map(pathlib.Path.read_bytes, tests)
        self.test_lines = sum(text.count(b"\n") for text in texts if b"\0" not in text)
        self.small_modules = sorted(name for name, count in self.modules.items() if count < SMALL_MODULE_LINES)

    def figures(self):
        """Lines of text."""
        functions, src_lines = self.function_lines or [0], self.lines.total()
        yield (f"src {src_lines:,} lines; tests {self.test_lines:,} lines, "
               f"{self.test_lines / max(src_lines, 1):.2f} of src")
        yield f"{self.types:,} types; {len(self.small_modules)} modules under {SMALL_MODULE_LINES} lines"
        yield (f"{len(functions):,} functions, median {statistics.median_low(functions)} lines, "
               f"longest {functions[-1]}; one assertion in {len(functions) // max(self.checks, 1)}")

    def faults(self):
        """Folders that are heavier than they may be."""
        counts = [*((f"src/{folder}", count, LINES_MAX.get(folder, 0)) for folder, count in self.lines.items()),
                  ("tests", self.test_lines, TEST_LINES_MAX)]
        return [f"{name}: {count:,} lines, its budget is {budget:,}: what can go?"
                for name, count, budget in counts if count > budget]


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[1])
    faults, count = check(root)
    weight = Weight(root)
    for line in weight.figures():
        print(f"weight: {line}")
    return style.report("check_layers", [*faults, *weight.faults()], count, "includes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
