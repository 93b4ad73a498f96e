"""cmake/Commit.cmake: which commit a build says that it is of."""

import os
import subprocess

import pytest
from conftest import ROOT


def commit_of(tree, output, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "CSIDELTA_COMMIT"}
    subprocess.run(["cmake", "-D", f"OUTPUT={output}", "-D", f"ROOT={tree}", "-P", ROOT / "cmake" / "Commit.cmake"], check=True,
                   env=environment | variables)
    return output.read_text().split('"')[1]


@pytest.fixture(name="checkout")
def _checkout(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("one")
    for arguments in (["init", "--quiet"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "one"]):
        subprocess.run(["git", "-C", tree, *arguments], check=True)
    return tree


def test_a_checkout_has_its_commit_and_a_sign_of_changes(checkout, tmp_path):
    head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout[:12]
    output = tmp_path / "commit.cc"
    assert commit_of(checkout, output) == head
    written = output.stat().st_mtime_ns
    assert commit_of(checkout, output) == head
    assert output.stat().st_mtime_ns == written  # Nothing is compiled again.
    (checkout / "file").write_text("two")
    assert commit_of(checkout, output) == f"{head}+"
    assert commit_of(checkout, output, CSIDELTA_COMMIT="v1.2-rc1") == "v1.2-rc1"


def test_without_git_and_in_a_repository_of_others_it_is_unknown(checkout, tmp_path):
    unpacked = checkout / "csi-delta"
    unpacked.mkdir()
    assert commit_of(unpacked, tmp_path / "commit.cc") == "unknown"
    assert commit_of(checkout, tmp_path / "commit.cc", CSIDELTA_COMMIT='"; x') == "unknown"
    (unpacked / ".git").mkdir()
    assert commit_of(unpacked, tmp_path / "commit.cc", GIT_CEILING_DIRECTORIES=str(checkout)) == "unknown"
