"""The site as it is built: what it loads, where it leads, and that it is of one version."""

import html.parser
import json
import re
import shutil

import console
import docs
import pictures
import pytest
from console import ROOT

LOADING = {"img": ("src",), "script": ("src",), "link": ("href",), "iframe": ("src",), "source": ("src", "srcset"), "object": ("data",)}
PICTURE_BYTES_MAX = 150_000
FOREIGN = re.compile(r"^(?:https?:)?//")


class _Page(html.parser.HTMLParser):
    """What a page loads and links to, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.anchors, self.classes = [], [], set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.loads += [values[name] for name in LOADING.get(tag, ()) if values.get(name) and values.get("rel") not in ("canonical", "prev", "next")]
        self.links += [values["href"]] if tag == "a" and values.get("href") else []
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.classes |= set((values.get("class") or "").split())


@pytest.fixture(scope="module", name="pages")
def fixture_pages(site):
    return {str(path.relative_to(site)): _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_no_page_loads_anything_from_another_host(pages, site):
    assert [(name, address) for name, page in pages.items() for address in page.loads if FOREIGN.match(address)] == []
    styles = {path.name: re.findall(r"url\(\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")) for path in site.rglob("*.css")}
    assert not any(styles.values()), styles
    assert not [name for name, page in pages.items() if "mermaid" in page.classes]  # The theme would fetch its program.


def test_a_browser_asks_for_nothing_else_and_finds_no_error(pages, reader, address):
    asked, errors = [], []
    reader.on("request", lambda request: asked.append(request.url))
    reader.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    reader.on("pageerror", lambda error: errors.append(error.message))
    for name in ("index.html", "cli.html", "design/0002-data-mover.html"):
        assert name in pages
        reader.goto(f"{address}/{name}")
    assert asked and [url for url in asked if not url.startswith((f"{address.rsplit('/', 1)[0]}/", "data:"))] == []
    assert errors == []


def test_every_link_of_the_site_leads_to_a_page_and_its_anchor(pages, site):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", target) or (not target and anchor in ("", "__toc")):
                continue
            there = ((site / name).parent / target).resolve() if target else site / name
            key = str(there.relative_to(site)) if there.is_relative_to(site) else ""
            if not there.is_file() or (anchor and key in pages and anchor not in pages[key].anchors):
                broken.append(f"{name}: {link}")
    assert not broken, "\n".join(broken)


FAULTS = (
    ("install.md", "[away](nowhere.md)", "nowhere.md does not exist"),
    ("install.md", "[file](../deploy/nothing.yaml)", "../deploy/nothing.yaml does not exist"),
    ("install.md", "[away](operations.md#no-such-heading)", "does not contain an anchor '#no-such-heading'"),
    ("install.md", "prose\n- one", "a list needs a blank line before it, and what is in an item four columns: prose - one"),
    ("install.md", "- one\n  - two", "four columns: - two"),
    ("install.md", "- one\n\n  ```sh\n  ls\n  ```", "four columns: #"),
    ("unlisted.md", "# A page that the navigation omits", "unlisted.md"),
)


def test_a_dead_link_is_a_fault_of_the_build(tmp_path):
    for entry in ROOT.iterdir():
        if entry.name not in ("docs", "mkdocs.yml", "build"):
            (tmp_path / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    for page, text, _ in FAULTS:
        with (tmp_path / "docs" / page).open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")
    code, lines = console.execute([docs.ensure_mkdocs() / "mkdocs", "build", "--strict", "--config-file", tmp_path / "mkdocs.yml",
                                   "--site-dir", tmp_path / "site"], env={"NO_MKDOCS_2_WARNING": "1"}, keep=True, quiet=True)
    assert code != 0
    for _, _, message in FAULTS:
        assert message in "\n".join(lines), "\n".join(lines)


def test_the_site_is_of_the_checkout_s_version_and_the_selector_knows_it(site):
    versions = json.loads((site.parent / "versions.json").read_text())
    assert [one["version"] for one in versions] == [docs.version()] == [site.name]
    assert f"url={docs.version()}/" in (site.parent / "index.html").read_text()


def test_an_older_version_stays_and_the_newest_is_the_start(tmp_path):
    for name in ("0.9.0", "0.10.0", "files"):
        (tmp_path / name).mkdir()
    docs.write_versions(tmp_path)
    assert [one["version"] for one in json.loads((tmp_path / "versions.json").read_text())] == ["0.10.0", "0.9.0"]
    assert "url=0.10.0/" in (tmp_path / "index.html").read_text()


def test_each_page_and_anchor_that_the_programs_and_the_chart_name_exists(pages):
    named, wrong = re.compile(r"(?:docs/|[\"/])((?:design/)?[a-z0-9-]+)\.md(?:#([a-z0-9-]+))?"), []
    for path in sorted(one for folder in ("src", "deploy") for one in (ROOT / folder).rglob("*") if one.suffix in (".cc", ".h", ".yaml", ".json")):
        for page, anchor in named.findall(path.read_text(encoding="utf-8")):
            found = pages.get(f"{page}.html")
            if not found or (anchor and anchor not in found.anchors):
                wrong.append(f"{path.relative_to(ROOT)}: {page}.md#{anchor}")
    assert not wrong, "\n".join(wrong)


def test_each_picture_is_small_and_shown(pages):
    drawn = {path.name: path.stat().st_size for path in (ROOT / "docs").rglob("*") if path.suffix in (".png", ".svg")}
    assert [name for name, size in drawn.items() if size > PICTURE_BYTES_MAX] == []
    shown = {address.rsplit("/", 1)[-1] for page in pages.values() for address in page.loads}
    assert sorted(set(drawn) - shown) == []


def test_no_page_scrolls_sideways_and_no_command_is_cut_off(pages, reader, address):
    wrong = [f"{name}: {fault}" for name in pages for fault in pictures.faults(reader, f"{address}/{name}")]
    assert not wrong, "\n".join(wrong)


def test_what_does_not_fit_is_told(reader):
    reader.set_content('<body style="margin:0"><pre style="width:9ch;overflow:auto"><code style="display:block">\n kubectl get pods --all</code></pre>')
    assert reader.evaluate(pictures.FAULTS) == ["cut off:  kubectl get pods --all"]
    assert pictures.too_wide("12\x1b[36m34\x1b[0m\n12345", 4) == ["12345"]
