"""The commands that the documents show.

A block of commands is a fence ```sh, or an indented block of which a line calls a program. `<!-- not run: REASON -->` above it
says why no test runs it. Commands after `$ ` in another fence, and those that prose has as code, are read, but not run.
"""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import markdown_it

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
import style  # noqa: E402  pylint: disable=wrong-import-position

SHELLS = ("sh", "bash", "shell")
FENCED, INDENTED, TRANSCRIPT, INLINE = "fenced", "indented", "transcript", "inline"  # Kinds of blocks.
TRANSCRIPTS = ("text", "console", "")
_PROGRAMS = r"(?:csi-delta|kubectl|velero|restic|helm|\./dev)"  # Those that the documents call.
_COMMAND = re.compile(rf"\s*(?:(?:\w+\+?=\S*|sudo)\s+)*{_PROGRAMS}(?:\s|$)|export |ID=\$\(")
_MARK = re.compile(r"\s*<!-- (.+?) -->\s*")
_PREFIXES = ("exec", "env", "sudo", "time", "nice")  # Behind them stands the command.
_ASSIGNMENT = re.compile(r"^\w+\+?=")


@dataclasses.dataclass
class Block:
    """Commands that stand together. `page` is relative to the root, `line` counts from 1."""

    page: str
    line: int
    text: str
    mark: str = ""  # The comment above it.
    kind: str = FENCED
    end: int = 0  # Its last line.
    shown: str = ""  # What the fence ```text behind it holds.
    shown_end: int = 0

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def reason(self):
        """Why no test runs it."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else ""

    @property
    def is_run(self):
        """Is it for a test to run?"""
        return self.kind in (FENCED, INDENTED)


def _block(page, token, mark):
    """The block of commands that a fence or an indented block is, or None."""
    place, text = (page, token.map[0] + 1), token.content.removesuffix("\n")
    if token.type == "code_block":
        kept = [part for part in re.split(r"\n(?: *\n)+", text) if any(map(_COMMAND.match, part.splitlines()))]
        return Block(*place, "\n".join(kept), mark, INDENTED, token.map[1]) if kept else None
    if token.info in SHELLS:
        return Block(*place, text, mark, FENCED, token.map[1])
    typed = re.findall(r"^\$ ((?:.*\\\n)*.*)", text, re.MULTILINE)
    return Block(*place, "\n".join(typed), "", TRANSCRIPT, token.map[1]) if typed and token.info in TRANSCRIPTS else None


def blocks_of(page, text):
    """The blocks of commands of a document, in order."""
    found, mark, before = [], "", None
    for token in markdown_it.MarkdownIt("commonmark").parse(text):
        block = None
        if token.type == "inline":
            found += [Block(page, token.map[0] + 1, one.content, kind=INLINE) for one in token.children
                      if one.type == "code_inline" and re.match(rf"{_PROGRAMS} ", one.content)]
        elif token.type in ("fence", "code_block"):
            if before and token.info == "text":
                before.shown, before.shown_end = token.content, token.map[1]
            block = _block(page, token, mark)
            found += [block] if block else []
        is_mark = token.type == "html_block" and _MARK.fullmatch(token.content)
        mark, before = is_mark[1] if is_mark else "", block
    return found


def blocks(root=ROOT):
    """Those of all documents."""
    pages = [path for path in style.project_files(root) if path.suffix == ".md" and path.parts[0] in (path.name, "docs")]
    return [block for page in pages for block in blocks_of(str(page), (root / page).read_text(encoding="utf-8"))]


def lines_of_text(text):
    """The commands of a script, one a line, without comments."""
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return [line for one in lines if (line := re.sub(r"(?:^|\s+)#\s.*", "", one).strip())]


def calls(scripts):
    """What each script calls: programs, each with its arguments as a list of words. One that is no shell script is a ValueError.

    A word, or the part of one, that the shell makes of something else is "$".
    """
    joined = "".join(f"{{\n{script}\n}}\n" for script in scripts)  # One process for all: each is a group.
    done = subprocess.run(["shfmt", "--to-json"], input=joined, check=False, capture_output=True, text=True)
    if done.returncode == 0:
        return [list(_calls(group)) for group in json.loads(done.stdout)["Stmts"]]
    if len(scripts) > 1:  # Which one is it?
        return [found for script in scripts for found in calls([script])]
    raise ValueError(f"{done.stderr.strip()}: {joined}")


def _calls(node):
    """Those below a node of shfmt's tree, what is within first."""
    if isinstance(node, list):
        for one in node:
            yield from _calls(one)
    elif isinstance(node, dict):
        for one in node.values():
            yield from _calls(one)
        if node.get("Type") == "CallExpr" and node.get("Args"):
            words = ["".join(map(_value, word["Parts"])) for word in node["Args"]]
            while words and (words[0] in _PREFIXES or _ASSIGNMENT.match(words[0])):
                words.pop(0)
            if words:
                yield words


def _value(part):
    """The text of a part of a word."""
    if part["Type"] in ("Lit", "SglQuoted"):
        return part["Value"]
    return "".join(map(_value, part["Parts"])) if part["Type"] == "DblQuoted" else "$"
