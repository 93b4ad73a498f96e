"""./dev demo, with the programs that are here: it ends well, and restic finds no errors."""

import subprocess

from conftest import PROGRAM, ROOT

SECONDS_MAX = 300  # 15 alone; other tests run beside it


def test_the_demo_ends_with_a_repository_in_which_restic_finds_no_errors():
    done = subprocess.run([ROOT / "scripts" / "demo.sh", PROGRAM], check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "no errors were found" in done.stdout
