#!/usr/bin/python3
"""Includes only point down, and no folder outgrows its budget: checks src/ against the tables of layers and of lines.

    check_layers.py [root]

Prints one line per include that is not allowed and per folder with too many lines, and what the tree weighs
(weight.py). Exits with 1 if anything is wrong.
ARCHITECTURE.md draws the layers; this table is what holds them.
"""

import collections
import dataclasses
import pathlib
import re
import sys

import weight

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
    "doctor": ("diffsnap/snapshot_listing.h", "datamover", "incremental", "inplace", "snapshots", "csi", "longhorn", "objects", "k8s", "net",
               "storage", "velero", "base"),
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
    "backupitemactions": 3325,
    "base": 4550,
    "cli": 15475,
    "cmd": 200,
    "conformance": 2275,
    "csi": 9900,
    "datamover": 14100,
    "deleteitemactions": 475,
    "diffsnap": 3525,
    "doctor": 3900,
    "engine": 2400,
    "incremental": 9750,
    "inplace": 3575,
    "itemblockactions": 125,
    "k8s": 4675,
    "longhorn": 2125,
    "net": 2475,
    "objects": 7700,
    "plugin": 2125,
    "repository": 14675,
    "restoreitemactions": 2350,
    "snapshots": 5825,
    "storage": 4625,
    "velero": 1575,
}
TEST_LINES_MAX = 159_050

# Messages that protoc made from proto/<group>/, with the folders that may see them.
PROTO_USERS = {
    "velero": ("plugin",),
    "goplugin": ("plugin",),
    "csi": ("incremental", "diffsnap", "conformance"),
}

# Third-party code has one home. A pattern of an include, and the folders or files that may have it.
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

# Bare JSON ends in objects/, whose types name what the fields are. No file of these folders sees it, by whichever
# way: its header, its name, the way out of a type, or what makes one of a type.
_JSON = re.compile(r'"base/json\.h"|\bJson\b|(\.|->)json\(\)|\bToJson\(')
WITHOUT_JSON = ("velero", "csi", "snapshots", "inplace", "backupitemactions", "restoreitemactions", "deleteitemactions",
                "itemblockactions", "datamover", "diffsnap", "doctor")
JSON_READERS = ("velero/volume_policy.cc",)  # the document that a person wrote, in YAML

_INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


@dataclasses.dataclass(frozen=True)
class Include:
    """One project include: where it stands and what it names."""

    path: pathlib.PurePosixPath  # Relative to src/.
    line: int
    target: str
    quoted: bool

    @property
    def folder(self):
        return self.path.parts[0]


def includes_below(src):
    """Every include in every source file, in order."""
    for path in sorted([*src.rglob("*.h"), *src.rglob("*.cc")]):
        relative = pathlib.PurePosixPath(path.relative_to(src))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = _INCLUDE.match(line)
            if found:
                yield Include(relative, number, found[2], found[1] == '"')


def proto_group(target, root):
    """The folder below proto/ whose file made this header, or None."""
    stem = re.sub(r"(\.grpc)?\.pb\.h$", ".proto", target)
    stem = stem.removeprefix("proto/")
    for group in PROTO_USERS:
        if stem.startswith(f"{group}/") or (root / "proto" / group / stem).is_file():
            return group
    return None


def _third_party(include):
    for pattern, homes in HOMES:
        if re.match(pattern, include.target):
            at_home = any(str(include.path) == home or include.folder == home
                          or str(include.path.with_suffix("")) == home for home in homes)
            return None if at_home else f"{include.target} has its home in {' '.join(homes)}"
    return None


def _fault_within(include):
    """What is wrong with an include of the own folder, which has subfolders, or None."""
    def subfolder(path):
        return path.parts[1] if len(path.parts) > 2 else ""

    own, target = subfolder(include.path), subfolder(pathlib.PurePosixPath(include.target))
    allowed = WITHIN[include.folder].get(own)
    if allowed is None:
        return f"subfolder {include.folder}/{own} is not in the table of layers"
    if own == target or target in allowed or include.target in allowed:
        return None
    return f"{include.folder}/{own} may not include {include.target}"


def fault(include, root):
    """What is wrong with an include, or None."""
    if include.folder not in ALLOWED:
        return f"folder {include.folder} is not in the table of layers"
    wrong = _third_party(include)
    if wrong or not include.quoted:
        return wrong
    if include.target.endswith(".pb.h"):
        group = proto_group(include.target, root)
        if group is None or include.folder in PROTO_USERS[group]:
            return None
        return f"{include.folder} may not include messages of proto/{group}"
    target = include.target.split("/")[0]
    if target == include.folder and target in WITHIN:
        return _fault_within(include)
    if target == include.folder or not {target, include.target}.isdisjoint(ALLOWED[include.folder]):
        return None
    if target in ALLOWED:
        return f"{include.folder} may not include {target} ({include.target})"
    if (root / include.target).is_file() and target in ("tests",):
        return f"production code includes test code ({include.target})"
    return None


def sees_json(source):
    """Does a line that is no comment see bare JSON?"""
    return any(_JSON.search(line.split("//")[0]) for line in source.splitlines())


def json_faults(src):
    """Files that see bare JSON and must not."""
    for folder in WITHOUT_JSON:
        for path in sorted([*(src / folder).rglob("*.h"), *(src / folder).rglob("*.cc")]):
            name = str(path.relative_to(src))
            if name not in JSON_READERS and sees_json(path.read_text(encoding="utf-8")):
                yield f"src/{name}: sees bare JSON: give what it reads a type in objects/"


def check(root):
    """(faults as lines, number of includes checked)."""
    faults, count = [], 0
    includes = list(includes_below(root / "src"))
    faults += json_faults(root / "src")
    for include in includes:
        count += 1
        wrong = fault(include, root)
        if wrong:
            faults.append(f"src/{include.path}:{include.line}: {wrong}")
    return faults, count


def budget_faults(weighed):
    """Folders that are heavier than they may be."""
    lines = collections.Counter()
    for folder, count in weighed.lines.items():
        lines[folder.split("/")[0]] += count
    counts = [*((f"src/{folder}", count, LINES_MAX.get(folder, 0)) for folder, count in lines.items()),
              ("tests", weighed.test_lines, TEST_LINES_MAX)]
    for folder, count, budget in counts:
        if count > budget:
            yield f"{folder}: {count:,} lines, its budget is {budget:,}: what can go?"


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[1])
    faults, count = check(root)
    weighed = weight.weigh(root)
    faults += budget_faults(weighed)
    print("\n".join(f"weight: {line}" for line in weighed.figures()))
    for line in faults:
        print(line)
    print(f"check_layers: {count} includes, {len(faults)} faults")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
