#!/usr/bin/python3
"""Takes the pictures of the documents, and tells what does not fit a screen.

    ./dev build && docs/pictures.py    # writes docs/assets/*.png

A picture shows what the program prints on a terminal of 80 columns. The same commands run on one of 120. A line that is wider
is a fault, and no picture is written. The tests of the site use the checks of pages, each once the page is quiet.
"""

import contextlib
import fcntl
import html
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import termios
import struct

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts" / "dev"), str(ROOT / "scripts" / "docs")]

import docs  # noqa: E402  pylint: disable=wrong-import-position
import report_data  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = ROOT / "build" / "release" / "bin" / "csi-delta"
WIDTHS = (390, 1280)  # Of a telephone and of a laptop, in pixels.
TERMINALS = (80, 120)  # In columns. The pictures are of the first.
COMMAND_SECONDS_MAX = 120
REPORT_PIXELS = {"width": 1140, "height": 1070}  # Down to the end of the calendar.
REPORT_SCALE = 0.8
SCALE = 1.15  # Sharp, and below the size that the tests allow.
# Fonts are there, no request is under way, and what moves or fades has come to rest.
QUIET = """async () => {
  await document.fonts.ready;
  await Promise.all(document.getAnimations().map(one => one.finished.catch(() => null)));
  await new Promise(requestAnimationFrame);
}"""
# Whether the page scrolls sideways, and the lines of commands that do not fit into their box.
FAULTS = """() => {
  const root = document.scrollingElement, found = [];
  const command = /^ *([$] )?((csi-delta|kubectl|velero|restic|helm|skopeo|docker|[.]\\/dev|export) |[A-Z]+=)[^─]*$/;
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} px wide`);
  for (const code of document.querySelectorAll('pre > code')) {
    const lines = code.textContent.split('\\n'), longest = Math.max(...lines.map(one => one.length));
    const fitting = longest * code.clientWidth / code.scrollWidth;
    lines.forEach((line, at) => {
      if (line.length > fitting && (command.test(line) || lines[at - 1]?.endsWith('\\\\'))) found.push(`cut off: ${line}`);
    });
  }
  return found;
}"""

# What a picture shows: commands, and what is done before each without being shown.
SCENES = {"terminal": (
    ("truncate -s 4G volume.img; csi-delta init -q; fill 600 60; csi-delta backup volume.img --path /orders -q; fill 1700 2; "
     "list 1700 2 > changed.jsonl; csi-delta backup volume.img --path /orders --extents changed.jsonl -q; "
     "written='1490 1 1496 1 1500 24 1528 2 2940 40 2984 1 2992 3 3004 1 3016 2 3028 1'; "
     "set -- $written; while [ $# -gt 0 ]; do fill $1 $2; shift 2; done; list $written > changed.jsonl",
     "csi-delta backup volume.img --path /orders --extents changed.jsonl"),
    ("true", "csi-delta snapshots"),
    ("true", "csi-delta map latest"),
)}
SHELL = r"""set -eu
fill() { dd if=/dev/urandom of=volume.img bs=1M seek="$1" count="$2" conv=notrunc status=none; }
list() {
  echo "{\"base\":\"$(csi-delta snapshots --json | grep -o '"short_id":"[0-9a-f]*"' | tail -n 1 | cut -d '"' -f 4)\"}"
  while [ $# -gt 0 ]; do echo "{\"offset\":$(($1 << 20)),\"length\":$(($2 << 20))}"; shift 2; done
  echo '{"end":true}'
}
"""
STYLE = """<style>
body { margin: 0; width: max-content; background: #1e2430; color: #e4e8ee; font: 14px/19px "DejaVu Sans Mono", monospace; }
pre { margin: 0; padding: 22px; font: inherit; } .typed { color: #7fdfc8; } .shade { color: #5fd7d7; }
</style>"""


@contextlib.contextmanager
def browser():
    """A headless browser. It reads this checkout alone, so it may run as root without a sandbox; hosts do not resolve."""
    sys.path += map(str, docs.ensure_mkdocs().parent.glob("lib/python3*/site-packages"))
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=f"/usr/bin/{docs.BROWSER}", chromium_sandbox=False,
                                         args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])


def faults(page, address):
    """What does not fit on a page of the site in windows of these widths; blocks of code may scroll on a telephone."""
    page.goto(address)
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(QUIET)
        found += [f"{width} px: {one}" for one in page.evaluate(FAULTS) if width == max(WIDTHS) or not one.startswith("cut off")]
    return found


def shown(text):
    """The columns that a line of a terminal takes; characters of the program are one column wide each."""
    return len(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text))


def too_wide(text, columns):
    """The lines that wrap on a terminal."""
    return [line for line in text.splitlines() if shown(line) > columns]


def typed(script, folder, columns):
    """What a command prints on a terminal of so many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "xterm-256color",
                   "LANG": "C.UTF-8", "RESTIC_REPOSITORY": str(folder / "backups"), "RESTIC_PASSWORD": "picture"}
    process = subprocess.Popen(["bash", "-c", SHELL + script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=follower, stderr=subprocess.STDOUT)
    os.close(follower)
    said = b""
    with contextlib.suppress(OSError):  # The end of a terminal is an error.
        while part := os.read(leader, 65536):
            said += part
    os.close(leader)
    if process.wait(COMMAND_SECONDS_MAX) != 0:
        raise docs.Failure(f"{script}: {said.decode()}")
    return said.decode().replace("\r\n", "\n")


def play(scene, folder, columns):
    """(command, what it prints) of a scene, in turn. A line that wraps is a Failure."""
    for before, command in SCENES[scene]:
        typed(before, folder, columns)
        said = typed(f"{command} 2>/dev/null", folder, columns)
        if wide := too_wide(said, columns):
            raise docs.Failure(f"{command}: wider than {columns} columns: {wide[0]}")
        yield command, said


def page_of(parts):
    """A page that looks as the terminal does."""
    text = "\n".join(f'<span class="typed">$ {html.escape(command)}</span>\n{html.escape(said, quote=False)}'
                     for command, said in parts)
    text = re.sub(r"\x1b\[36m(.*?)\x1b\[0m", r'<span class="shade">\1</span>', text)
    return f'<!doctype html><meta charset="utf-8">{STYLE}<pre>{text.rstrip()}</pre>'


def report_page(folder, data):
    """The path of the page that the program draws of a report."""
    (folder / "report.json").write_text(json.dumps(data))
    subprocess.run([PROGRAM, "report", "--from-json", folder / "report.json", "--html", folder / "report.html"], check=True,
                   capture_output=True, timeout=COMMAND_SECONDS_MAX)
    return folder / "report.html"


def draw_report():
    with tempfile.TemporaryDirectory(prefix="csi-delta-picture-") as folder, browser() as started:
        page = started.new_page(viewport=REPORT_PIXELS, device_scale_factor=REPORT_SCALE)
        page.goto(f"file://{report_page(pathlib.Path(folder), report_data.report(bad=True, volumes=7, seed=5))}")
        page.evaluate(QUIET)
        page.screenshot(path=ROOT / "docs" / "assets" / "report.png")


def main():
    if not PROGRAM.exists():
        raise docs.Failure(f"no {PROGRAM.relative_to(ROOT)}: ./dev build makes it")
    for scene in SCENES:
        for columns in reversed(TERMINALS):
            with tempfile.TemporaryDirectory(prefix="csi-delta-picture-") as folder:
                parts = list(play(scene, pathlib.Path(folder), columns))
        with browser() as started:
            page = started.new_page(device_scale_factor=SCALE)
            page.set_content(page_of(parts))
            page.evaluate(QUIET)
            path = ROOT / "docs" / "assets" / f"{scene}.png"
            page.locator("pre").screenshot(path=path)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    draw_report()


if __name__ == "__main__":
    try:
        main()
    except docs.Failure as failure:
        sys.exit(f"pictures: {failure}")
