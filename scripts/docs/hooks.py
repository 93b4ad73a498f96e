"""What the documentation site does with the Markdown of the repository, which is written for GitHub too.

- Pages of the repository's root, such as ARCHITECTURE.md, are pages of the site, unless docs/ has one of that name.
- A link to another file of the repository leads to a copy below files/; one to a folder becomes its text.
- A list that GitHub reads and Python-Markdown does not is a fault: it needs a blank line before it, and what stands in
  an item four columns.
- `extra.search_boost` of mkdocs.yml says how much a hit on a page counts, `extra.search_words` what else finds it.

MkDocs calls the functions `on_...`; what is wrong is a warning, which a strict build makes an error.
"""

import logging
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOT_PAGES = {"ARCHITECTURE.md": "source-code.md", "SECURITY.md": "threat-model.md", "CONTRIBUTING.md": "contributing.md",
              "CHANGELOG.md": "changes.md", "README.md": "index.md"}
UNRELEASED = ROOT / "changelog" / "unreleased"
FILES = "files"  # Where copies of linked files lie on the site.

LOG = logging.getLogger("mkdocs.hooks.csi_delta")

_FENCE = r"(?P<indent>^ *)(?P<ticks>`{3,}|~{3,})(?s:.*?)^ *(?P=ticks)[`~]* *$"
_LINK = re.compile(_FENCE + r"|(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])"
                   r"\((?![a-z]+:|#)(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)", re.MULTILINE)
# What stands in an item, a nested item, and a paragraph that an item follows at once.
_MISREAD = re.compile(r"^(?:\n(?: {1,3}| {5,7})(?! )| {1,3}(?=(?:[-*+]|\d+[.)]) )"
                      r"|(?![-*+>|#<\d\s]).+\n(?=(?:[-*+]|1[.)]) )).+", re.MULTILINE)


def _changes(text, groups):
    """The changelog with the changes that no release has yet, in groups by the words of their titles."""
    entries = [path.read_text(encoding="utf-8").strip() for path in sorted(UNRELEASED.glob("*.md"))]
    entries = [re.sub(r"^# ", "#### ", one).replace("](../../", "](") for one in entries]
    names = [next(name for name in groups if re.search(groups[name], one.partition("\n")[0], re.I)) for one in entries]
    grouped = [part for name in groups if name in names
               for part in (f"### {name}", *(one for one, of in zip(entries, names) if of == name))]
    return "\n\n".join([text.strip(), "## Not yet released", *grouped]) + "\n"


def on_config(config):
    """Leaves out the page for what is not found: its links begin at the root of a host, and each version has a folder."""
    config.theme.static_templates.discard("404.html")
    return config


def on_files(files, config):
    """Adds the pages of the repository's root."""
    for source, name in ROOT_PAGES.items():
        if files.get_file_from_path(name):
            continue
        text = (ROOT / source).read_text(encoding="utf-8")
        page = File.generated(config, name, content=_changes(text, config.extra["change_groups"]) if name == "changes.md" else text)
        page.repository_path = source
        files.append(page)
    return files


def _path_of(file):
    """The path of a page's source in the repository."""
    return getattr(file, "repository_path", f"docs/{file.src_uri}")


def _linked(target, page, files, config):
    """The site's path of a target in the repository, relative to the page; "" for a folder, None if it does not exist."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(_path_of(page.file)), target))
    if path in ROOT_PAGES:
        there = ROOT_PAGES[path]
    elif path.startswith("docs/") and (ROOT / path).is_file():
        there = path.removeprefix("docs/")
    elif path.startswith("../") or not (ROOT / path).exists():
        return None
    elif (ROOT / path).is_dir():
        return ""
    else:
        there = f"{FILES}/{path}{'.txt' if path.endswith('.md') else ''}"
        if not files.get_file_from_path(there):
            files.append(File.generated(config, there, abs_src_path=str(ROOT / path)))
    return posixpath.relpath(there, posixpath.dirname(page.file.src_uri) or ".")


def _rewrite(text, page, files, config):
    """The text with links that lead to what the site has."""
    def replace(found):
        if not found["text"]:
            return found[0]
        linked = _linked(found["target"], page, files, config)
        if linked is None:
            LOG.warning("%s: the link target %s does not exist", _path_of(page.file), found["target"])
            return found[0]
        return f"{found['text']}({linked}{found['anchor'] or ''})" if linked else found["text"][1:-1]
    return _LINK.sub(replace, text)


def on_page_markdown(markdown, page, config, files):
    """The page's text with what the search knows of it."""
    boosts = [boost for prefix, boost in config.extra["search_boost"].items()
              if page.file.src_uri == prefix or (prefix.endswith("/") and page.file.src_uri.startswith(prefix))]
    if boosts:
        page.meta.setdefault("search", {})["boost"] = boosts[0]
    if words := config.extra["search_words"].get(page.file.src_uri):
        page.meta.setdefault("tags", list(words))
    for found in _MISREAD.findall(re.sub(_FENCE, r"\g<indent>#", markdown, flags=re.MULTILINE)):
        LOG.warning("%s: a list needs a blank line before it, and what is in an item four columns: %s",
                    _path_of(page.file), " ".join(found.split()))
    return _rewrite(markdown, page, files, config)
