"""tests/docs/programs.txt, by which the commands of the documents are checked: it says what the real programs say."""

import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT

sys.path[:0] = [str(ROOT / "scripts" / "docs"), str(ROOT / "scripts" / "dev")]

import debian  # noqa: E402  pylint: disable=wrong-import-position
import programs  # noqa: E402  pylint: disable=wrong-import-position


def path_of(name):
    if name == "restic":
        return debian.restics()["trixie"]
    product = subprocess.run([sys.executable, ROOT / "tests" / "e2e" / "build.py", "kube"], check=True, stdout=subprocess.PIPE,
                             text=True).stdout.strip()
    return pathlib.Path(product) / "bin" / "kubectl"


@pytest.mark.parametrize("name", ["kubectl", "restic"])
def test_the_table_has_the_verbs_and_flags_of_the_program(name):
    table = programs.read_table()[name]
    assert table == programs.of_program(name, path_of(name), set(table))
