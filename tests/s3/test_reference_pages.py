"""Commands of the reference pages that need no cluster, on a real S3 server, with files instead of the devices and buckets of the page."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import gateway
from conftest import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "scripts" / "docs"))

import commands  # noqa: E402  pylint: disable=wrong-import-position

MIB = 1 << 20
NEEDS_CLUSTER = "--volume-snapshot"
SECONDS_MAX = 120
PLACEHOLDERS = ("8ab6fc6f", "1c44d09e")  # What the page calls the first and the second snapshot.
LIST = '{"base":"%s"}\n{"offset":8388608,"length":65536}\n{"end":true}\n'


class Machine:
    """A folder with what the pages have elsewhere, and a shell that keeps its exported variables from one command to the next."""

    def __init__(self, folder, repository):
        self._folder = folder
        self._names = {"s3:https://minio.example/backups/orders": repository, "s3:https://host/bucket/prefix": repository,
                        "/etc/orders.password": f"{folder}/password", "/path/to/password": f"{folder}/password",
                        "/dev/vg/orders-snapshot": f"{folder}/volume", "/dev/vg/orders-new": f"{folder}/new", "/dev/vg/orders": f"{folder}/volume"}
        (folder / "bin").mkdir()
        (folder / "bin" / "csi-delta").symlink_to(PROGRAM.resolve())
        (folder / "password").write_text("secret\n")
        (folder / "state").write_text(f"export TARGET={folder}/dumped SNAPSHOT=latest\n")
        self.volume = folder / "volume"
        self.volume.write_bytes(os.urandom(16 * MIB))

    def run(self, command):
        for name, here in self._names.items():
            command = command.replace(name, here)
        environment = {"PATH": f"{self._folder}/bin:{os.environ['PATH']}", "HOME": str(self._folder), **gateway.ENVIRONMENT}
        script = f"set -euo pipefail; . {self._folder}/state\n{command}\nexport -p > {self._folder}/state"
        done = subprocess.run(["bash", "-c", script], cwd=self._folder, env=environment, check=False, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def change(self):
        """Changes what the list of changed.jsonl will name."""
        with self.volume.open("r+b") as file:
            file.seek(8 * MIB)
            file.write(os.urandom(64 << 10))
        (self._folder / "changed.jsonl").write_text(LIST % self._ids()[-1])

    def name_snapshots(self):
        """From now on the page's ids of snapshots are those of the repository, oldest first."""
        self._names.update(zip(PLACEHOLDERS, self._ids()))

    def _ids(self):
        return [snapshot["id"] for snapshot in json.loads(self.run("csi-delta snapshots --json"))]


@pytest.fixture(name="machine")
def fixture_machine(tmp_path, server):
    return Machine(tmp_path, server.repository(tmp_path.name))


def commands_of(page):
    """The commands of a page that need no cluster, and that are there for a repository."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = [line for block in commands.blocks_of(page, text) if block.is_run and not block.reason for line in commands.lines_of_text(block.text)]
    return [line for line in lines if NEEDS_CLUSTER not in line and line.startswith(("export ", "csi-delta ", "restic "))]


def columns_of(page):
    """The head of the table of snapshots that the page shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.search(r"^ID  .*Took$", text, re.MULTILINE)[0]


def test_the_commands_of_the_command_line(machine):
    printed = {}
    for command in commands_of("cli.md"):
        if "changed.jsonl" in command:
            machine.change()
        if PLACEHOLDERS[0] in command:
            machine.name_snapshots()
        printed[command] = machine.run(command)
    assert len(printed) >= 13
    assert columns_of("cli.md").split() == next(line for line in printed["csi-delta snapshots"].splitlines() if line.startswith("ID")).split()
    assert "512.0 KiB of 16.0 MiB changed, in 1 range" in printed["csi-delta map 8ab6fc6f 1c44d09e"]
    assert pathlib.Path(machine.volume.parent, "new").read_bytes() == machine.volume.read_bytes()


def test_the_commands_that_get_an_image_back_with_restic_alone(machine):
    variables = "export RESTIC_REPOSITORY=s3:https://host/bucket/prefix RESTIC_PASSWORD_FILE=/path/to/password"
    machine.run(f"{variables}\ncsi-delta init\ncsi-delta backup {machine.volume}")
    printed = [machine.run(command) for command in commands_of("repository-format.md")]
    assert len(printed) == 4
    assert pathlib.Path(machine.volume.parent, "dumped").read_bytes() == machine.volume.read_bytes()
