"""Keys that stand on objects in clusters and archives are never renamed: the record, the header and the page have them all."""

import re

from console import ROOT

KEYS_H = ROOT / "src" / "objects" / "keys.h"
ACTIONS = ROOT / "src" / "cmd" / "velero_plugin.cc"  # Names of actions look like keys.
KEY = re.compile(
    r'"((?:(?:backup\.|restore\.)?velero\.io|[a-z]+\.csi-delta\.io|(?:group)?snapshot\.storage\.kubernetes\.io'
    r'|groupsnapshot\.storage\.k8s\.io)/[A-Za-z0-9._-]+)"')
NO_KEYS = {"velero.io/v1", "velero.io/aws"}  # an apiVersion, a provider


def spelled_out(path, with_comments):
    text = path.read_text(encoding="utf-8")
    return set(KEY.findall(text if with_comments else re.sub(r"(?m)^\s*//.*$", "", text))) - NO_KEYS


SOURCES = [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in (".cc", ".h")]


def test_the_record_has_every_key():
    """One that is gone stands on objects of older versions; a new one wants a line."""
    lines = (ROOT / "tests" / "golden" / "keys.txt").read_text(encoding="utf-8").splitlines()
    recorded = [line for line in lines if line and not line.startswith("#")]
    assert recorded == sorted(set().union(*(spelled_out(path, with_comments=True) for path in SOURCES)))


def test_a_key_is_spelled_out_in_one_place():
    elsewhere = {path.relative_to(ROOT): spelled_out(path, with_comments=False) for path in SOURCES if path not in (KEYS_H, ACTIONS)}
    assert {path: keys for path, keys in elsewhere.items() if keys} == {}, "use or add a constant of src/objects/keys.h"


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


def test_the_page_of_keys_says_what_the_header_says():
    header, page = declared(), {}
    for line in (ROOT / "docs" / "cluster-objects.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            key, kind, *words = (cell.strip().replace("`", "") for cell in line.strip("|").split("|"))
            page[key, kind] = tuple(words)
    assert len(header) > 100 and header == page
