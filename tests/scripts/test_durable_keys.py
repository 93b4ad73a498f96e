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
