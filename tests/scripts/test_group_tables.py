"""Every row of the tables in docs/volume-groups.md is a promise, and tests/volume_groups.txt names the tests that prove it."""

import re

import pytest
import scenarios
from console import ROOT


def sections(text):
    """(heading, what is below it) of the parts of a text."""
    parts = re.split(r"^## (.+)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


PROOFS = sections((ROOT / "tests/volume_groups.txt").read_text().replace("\n    ", " "))


@pytest.mark.parametrize("title", PROOFS)
def test_every_row_is_proven(title):
    page = sections((ROOT / "docs" / "volume-groups.md").read_text())[title]
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("|")][2:]
    proven = [line.split(" | ") for line in PROOFS[title].splitlines()]
    assert rows == [row for row, _ in proven]
    assert [name for _, names in proven for name in names.split() if not scenarios.is_declared(name)] == []
