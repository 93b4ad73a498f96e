"""Keys that stand on objects in clusters and archives are never renamed: tests/golden/keys.txt has them all."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEY = re.compile(
    r'"((?:(?:backup\.|restore\.)?velero\.io|[a-z]+\.csi-delta\.io|(?:group)?snapshot\.storage\.kubernetes\.io'
    r'|groupsnapshot\.storage\.k8s\.io)/[A-Za-z0-9._-]+)"')
NO_KEYS = {"velero.io/v1", "velero.io/aws"}  # an apiVersion, a provider


def recorded():
    lines = (ROOT / "tests/golden/keys.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def spelled_out():
    return {key for path in sorted((ROOT / "src").rglob("*")) if path.suffix in (".cc", ".h")
            for key in KEY.findall(path.read_text(encoding="utf-8"))} - NO_KEYS


def test_no_key_was_renamed():
    gone = sorted(set(recorded()) - spelled_out())
    assert not gone, f"objects of older versions carry these, and src/ does not know them any more: {gone}"


def test_every_key_is_recorded():
    new = sorted(spelled_out() - set(recorded()))
    assert not new, f"new keys: add a line for each to tests/golden/keys.txt: {new}"


def test_the_record_is_sorted():
    assert recorded() == sorted(set(recorded()))


# --- src/objects/keys.h and docs/cluster-objects.md

KEYS_H = ROOT / "src/objects/keys.h"
ACTIONS = ROOT / "src/cmd/velero_plugin.cc"  # Names of actions look like keys.


def declared():
    """{(key, type): (on, written by, read by, meaning)} of keys.h; what has no such comment fails."""
    found = {}
    # A word that is the value of a key stands directly below it.
    text = re.sub(r'(";\n)inline constexpr char k\w+\[\] = "[\w-]+";\n', r"\1", KEYS_H.read_text(encoding="utf-8"))
    for comment, name, key in re.findall(r'((?:^//.*\n)*)^inline constexpr char (k\w+)\[\] =\s*"([^"]+)";', text, re.M):
        words = " ".join(line.removeprefix("//").strip() for line in comment.splitlines())
        head = re.fullmatch(r"([A-Z][a-z, ]+?) on (.+?); written by (.+?); read by ([^;]+?)\.(?: (.+))?", words)
        assert head, f"{name}: wants `Label on KIND; written by ACTOR; read by ACTOR. Meaning.`: {words}"
        found[key, head[1].lower()] = (*head.groups()[1:4], head[5] or "")
    return found


def documented():
    rows = {}
    for line in (ROOT / "docs/cluster-objects.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            rows[cells[0].strip("`"), cells[1]] = tuple(cell.replace("`", "") for cell in cells[2:])
    return rows


def test_the_page_of_keys_says_what_the_header_says():
    header, page = declared(), documented()
    assert len(header) > 100
    assert sorted(header) == sorted(page)
    assert {key: words for key, words in header.items() if page[key] != words} == {}


def test_a_key_is_spelled_out_in_one_place():
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".cc", ".h") and path not in (KEYS_H, ACTIONS):
            code = re.sub(r"(?m)^\s*//.*$", "", path.read_text(encoding="utf-8"))
            keys = set(KEY.findall(code)) - NO_KEYS
            assert not keys, f"{path.relative_to(ROOT)}: use or add a constant of src/objects/keys.h: {sorted(keys)}"
