#!/usr/bin/python3
"""Makes the pictures of the documentation, in docs/assets/: the site's start, a search, and what csi-delta prints.

    pictures.py --program FILE

`--program`: the csi-delta that was built. Look at the pictures before you commit them.
"""

import argparse
import html
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "dev"))

import browser  # noqa: E402  pylint: disable=wrong-import-position
import docs  # noqa: E402  pylint: disable=wrong-import-position
import search  # noqa: E402  pylint: disable=wrong-import-position

FOLDER = ROOT / "docs" / "assets"
WIDTH, HEIGHT = 1240, 640
BYTES_MAX = 150_000
QUESTION = "PVC not backed up"
VOLUME = """truncate -s 4G volume.img
dd if=/dev/urandom of=volume.img bs=1M seek=40 count=60 conv=notrunc status=none"""
CHANGES = ((600, 2), (1700, 1), (1710, 4), (3000, 3))  # Offset and length in MiB.
FIRST = "csi-delta backup volume.img --path /orders"
SECOND = "csi-delta backup volume.img --path /orders --extents changed.jsonl"
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #1d2430; color: #d6deeb; display: inline-block; }}
pre {{ margin: 0; padding: 18px 22px; font: 14px/1.35 "DejaVu Sans Mono", monospace; }}
b {{ color: #7fdbca; font-weight: normal; }}
</style><pre>{}</pre>"""


class Terminal:
    """A folder in which commands run, and what it showed."""

    def __init__(self, folder, program):
        self._folder = folder
        self._environment = {**os.environ, "PATH": f"{program.resolve().parent}:{os.environ['PATH']}", "RESTIC_REPOSITORY": f"{folder}/backups",
                             "RESTIC_PASSWORD": "pictures", "COLUMNS": "100"}
        self.shown = []

    def run(self, command, *, is_shown=False):
        done = subprocess.run(["bash", "-euc", command], cwd=self._folder, env=self._environment, check=True, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if is_shown:
            self.shown.append(f"<b>$ {html.escape(command)}</b>\n{html.escape(done.stdout)}")
        return done.stdout

    def has(self, verb):
        return subprocess.run(["csi-delta", verb, "--help"], env=self._environment, check=False, capture_output=True).returncode == 0


def _ids(terminal):
    return terminal.run("csi-delta snapshots --json | grep -o '\"short_id\":\"[0-9a-f]*\"' | cut -d '\"' -f 4").split()


def terminal_page(program):
    """What a reader sees of three backups of a volume."""
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(folder, program)
        terminal.run(f"csi-delta init\n{VOLUME}\n{FIRST}")
        for number, changes in enumerate((CHANGES[:1], CHANGES[1:])):
            for offset, length in changes:
                terminal.run(f"dd if=/dev/urandom of=volume.img bs=1M seek={offset} count={length} conv=notrunc status=none")
            lines = [f'{{"base":"{_ids(terminal)[-1]}"}}', *(f'{{"offset":{o << 20},"length":{n << 20}}}' for o, n in changes), '{"end":true}']
            pathlib.Path(folder, "changed.jsonl").write_text("\n".join(lines) + "\n")
            terminal.run(SECOND, is_shown=number == 1)
        terminal.run("csi-delta snapshots", is_shown=True)
        if terminal.has("map"):
            ids = _ids(terminal)
            terminal.run(f"csi-delta map {ids[0]} {ids[-1]}", is_shown=True)
        return TERMINAL.format("\n".join(terminal.shown).rstrip())


def _save(reader, name):
    path = FOLDER / f"{name}.png"
    reader.screenshot(path)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size} bytes")
    if size > BYTES_MAX:
        sys.exit(f"{path.name} is larger than {BYTES_MAX} bytes")


def _take(reader, address, program, folder):
    reader.resize(WIDTH, HEIGHT)
    reader.open(f"{address}/index.html")
    _save(reader, "site")
    search.search(reader, QUESTION)
    _save(reader, "search")
    page = pathlib.Path(folder) / "terminal.html"
    page.write_text(terminal_page(program), encoding="utf-8")
    reader.open(page.as_uri())
    width, height = reader.evaluate("[Math.ceil(document.body.offsetWidth), Math.ceil(document.body.offsetHeight)]")
    reader.resize(width, height)
    _save(reader, "terminal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    program = parser.parse_args().program
    docs.ensure_browser()
    with tempfile.TemporaryDirectory() as folder:
        site = docs.build(pathlib.Path(folder))
        with docs.server(folder) as server, browser.launch(folder) as reader:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                _take(reader, f"http://{docs.LOOPBACK}:{server.server_port}/{site.name}", program, folder)
            finally:
                server.shutdown()
                thread.join()


if __name__ == "__main__":
    main()
