"""Pages of docs/ whose commands need no cluster: each is run, and prints what the page shows."""

import os
import subprocess
import sys
import time

import pytest

import gateway
from conftest import PROGRAM, ROOT

sys.path.append(str(ROOT / "scripts" / "docs"))

import commands  # noqa: E402  pylint: disable=wrong-import-position

ATTACK = "2026-05-06T07:08:09Z"  # The time before it, on the page.


@pytest.mark.parametrize("page", ["quick-start"])
def test_a_page_shows_what_the_program_prints(page):
    done = subprocess.run([sys.executable, ROOT / "tests" / "s3" / "run_page.py", ROOT / "docs" / f"{page}.md", "--program", PROGRAM],
                          check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nif the program is right: tests/s3/run_page.py with --write"


def test_the_commands_of_security_that_need_a_bucket_that_locks(tmp_path):
    """As an operator types them, who has named the repository and its password before."""
    page = commands.blocks_of("security", (ROOT / "docs" / "security.md").read_text(encoding="utf-8"))
    typed = "".join(f"{block.text}\n" for block in page if block.mark == "run with a bucket that locks")
    assert "extend-locks" in typed and ATTACK in typed
    (tmp_path / "csi-delta").symlink_to(PROGRAM)
    with gateway.Gateway(tmp_path / "server", locks=True) as server:
        environment = {**os.environ, **gateway.ENVIRONMENT, "RESTIC_PASSWORD": "secret", "RESTIC_REPOSITORY": server.repository("page"),
                       "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        lock = "-o s3.object-lock-mode=COMPLIANCE -o s3.object-lock-days=30"

        def run(script):
            subprocess.run(["bash", "-c", f"set -eu\n{script}"], check=True, env=environment, cwd=tmp_path, timeout=300)
        run(f"csi-delta init {lock}\ncsi-delta backup {PROGRAM} {lock}\nsleep 1.1")
        run(typed.replace(ATTACK, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))
