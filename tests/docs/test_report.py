"""The page of csi-delta report in a browser, and the commands of its page in the documents that need no cluster."""

import json
import os
import subprocess

import commands
import pictures
import pytest
import report_data
from console import ROOT

WIDTHS = (390, 1280, 2560)
CONTRAST_MIN = 4.5
# Text that is hard to read, that leaves the window, and drawings without a line.
FAULTS = """least => {
  const found = [], root = document.scrollingElement;
  const part = one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const light = color => { const [r, g, b] = color.map(one => part(one / 255)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const read = text => text.match(/[\\d.]+/g).map(Number);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = read(getComputedStyle(element).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color.slice(0, 3);
    }
  };
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} px wide`);
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const element = words.currentNode.parentElement, box = document.createRange();
    box.selectNodeContents(words.currentNode);
    const place = box.getBoundingClientRect();
    if (!words.currentNode.data.trim() || !place.width) continue;
    const pair = [light(read(getComputedStyle(element).color).slice(0, 3)), light(behind(element))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < least) found.push(`contrast ${contrast.toFixed(2)}: ${words.currentNode.data.slice(0, 40)}`);
    if (place.right > innerWidth + 1 && getComputedStyle(element).overflow !== 'hidden') found.push(`cut off: ${words.currentNode.data.slice(0, 40)}`);
  }
  for (const svg of document.querySelectorAll('svg')) {
    const box = svg.firstElementChild.getBBox();
    if (!box.width || !box.height) found.push('an empty picture');
  }
  return [...new Set(found)];
}"""


@pytest.mark.parametrize("bad", [False, True], ids=["an ordinary month", "a bad week"])
def test_the_page_is_read_at_every_width_by_day_and_by_night(reader, tmp_path, bad):
    asked = []
    reader.on("request", lambda request: asked.append(request.url))
    address = f"file://{pictures.report_page(tmp_path, report_data.report(bad, days=90 if bad else 30))}"
    for scheme in ("light", "dark"):
        reader.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            reader.set_viewport_size({"width": width, "height": 900})
            reader.goto(address)
            reader.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            reader.evaluate(pictures.QUIET)
            assert reader.evaluate(FAULTS, CONTRAST_MIN) == [], f"{width} px, {scheme}"
    assert set(asked) == {address}
    assert reader.evaluate("document.scripts.length + document.querySelectorAll('[src],link').length") == 0
    assert reader.evaluate("document.querySelectorAll('svg').length") == 36


def test_what_is_hard_to_read_is_told(reader):
    reader.set_viewport_size({"width": 390, "height": 900})
    reader.set_content('<body style="margin:0;background:#fff"><p style="color:#999">pale<p style="width:900px;white-space:nowrap">'
                       f'{"long " * 90}<svg viewBox="0 0 9 9"><path d="M0 9V9h9z"/></svg>')
    told = reader.evaluate(FAULTS, CONTRAST_MIN)
    assert [one.split()[0] for one in told] == ["the", "contrast", "cut", "an"]


def test_the_commands_of_the_page_that_need_no_cluster(tmp_path):
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    lines = [line for block in commands.blocks_of("report", text) if block.is_run for line in commands.lines_of_text(block.text)
             if "--cluster" not in line]
    assert len(lines) == 4
    (tmp_path / "volume.img").write_bytes(os.urandom(1 << 20))
    lines[1:1] = ["csi-delta init", "csi-delta backup volume.img --path /orders"]
    subprocess.run(["bash", "-c", "set -eu\n" + "\n".join(lines)], check=True, cwd=tmp_path, timeout=300,
                   env={**os.environ, "PATH": f"{pictures.PROGRAM.parent}:{os.environ['PATH']}"})
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "report.html").read_bytes()
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["headline"] == "The volume has its newest backup"
