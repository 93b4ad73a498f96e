"""Pages of docs/ whose commands need no cluster: each is run, and prints what the page shows."""

import subprocess
import sys

import pytest

from conftest import PROGRAM, ROOT


@pytest.mark.parametrize("page", ["quick-start"])
def test_a_page_shows_what_the_program_prints(page):
    done = subprocess.run([sys.executable, ROOT / "scripts" / "run_page.py", ROOT / "docs" / f"{page}.md", "--program", PROGRAM],
                          check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nif the program is right: scripts/run_page.py with --write"
