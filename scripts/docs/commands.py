"""The commands that the documents show.

A block of commands is a fence ```sh, or an indented block of which a line calls a program. `<!-- not run: REASON -->` above it
says why no test runs it. Commands after `$ ` in another fence, and those that prose has as code, are read, but not run.
"""

import dataclasses
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELLS = ("sh", "bash", "shell")
FENCED, INDENTED, TRANSCRIPT, INLINE = "fenced", "indented", "transcript", "inline"  # Kinds of blocks.
TRANSCRIPTS = ("text", "console", "")
PROGRAMS = ("csi-delta", "kubectl", "velero", "restic", "helm", "./dev")  # Those that the documents call.
# A fence or an indented block, with the mark above it if there is one, or any other line.
_PART = re.compile(r"""
    (?:^\ *<!--\ not\ run:\ (?P<reason>.+?)\ -->\n(?:\ *\n)*)?
    (?: ^(?P<fence>\ *)(?P<ticks>`{3,}|~{3,})\ *(?P<language>\S*).*\n(?P<fenced>(?:.*\n)*?)\ *(?P=ticks)[`~]*\ *$
      | (?:(?<=\n\n)|\A)(?=\ {4})(?P<indented>(?:(?:\ {4}.*)?\n)*\ {4}.*) )
    | ^(?P<line>.+)""", re.VERBOSE | re.MULTILINE)
_KEYWORDS = ("do", "then", "else", "if", "elif", "while", "until", "!", "{", "}", "done", "fi", "exec", "env", "sudo", "time", "nice")
_ASSIGNMENT = re.compile(r"^\w+\+?=")
_INLINE = re.compile(r"(?<!`)`((?:" + "|".join(re.escape(name) for name in PROGRAMS) + r") [^`]+)`(?!`)")
_HEREDOC = re.compile(r"(<<-?\s*['\"]?(\w+)['\"]?[^\n]*)\n.*?\n\s*\2$", re.DOTALL | re.MULTILINE)
_INNER = re.compile(r"(?:\$|<)\(([^()]*(?:\([^()]*\)[^()]*)*)\)|`([^`]*)`")


@dataclasses.dataclass(frozen=True)
class Block:
    """Commands that stand together. `page` is relative to the root, `line` counts from 1."""

    page: str
    line: int
    text: str
    reason: str = ""  # Why no test runs it.
    kind: str = FENCED

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def is_run(self):
        """Is it for a test to run?"""
        return self.kind in (FENCED, INDENTED)


def pages(root=ROOT):
    """The documents, as paths."""
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"], check=True,
                             capture_output=True, text=True)
    names = (name for name in listing.stdout.split("\0") if name)
    return sorted(root / name for name in names if ("/" not in name or name.startswith("docs/")) and (root / name).is_file())


def _is_command(line):
    """Does an indented line call one of the programs?"""
    programs = "|".join(map(re.escape, PROGRAMS))
    return bool(re.match(rf"\s*((\w+\+?=\S*|sudo)\s+)*({programs})(\s|$)|export |ID=\$\(", line))


def _block(page, line, part):
    """The block of commands that a fence or an indented block is, or None."""
    if part["indented"]:
        paragraphs = re.split(r"\n(?: *\n)+", re.sub(r"(?m)^ {4}", "", part["indented"]))
        kept = [one for one in paragraphs if any(map(_is_command, one.splitlines()))]
        return Block(page, line, "\n".join(kept), part["reason"] or "", INDENTED) if kept else None
    text = re.sub(rf"(?m)^ {{0,{len(part['fence'])}}}", "", part["fenced"]).removesuffix("\n")
    if part["language"] in SHELLS:
        return Block(page, line, text, part["reason"] or "")
    typed = re.findall(r"^\$ ((?:.*\\\n)*.*)", text, re.MULTILINE)
    return Block(page, line, "\n".join(typed), kind=TRANSCRIPT) if typed and part["language"] in TRANSCRIPTS else None


def blocks_of(page, text):
    """The blocks of commands of a document, in order."""
    found = []
    for part in _PART.finditer(text):
        line = text.count("\n", 0, max(part.start("fence"), part.start("indented"), part.start("line"))) + 1
        if part["line"]:
            found += [Block(page, line, one, kind=INLINE) for one in _INLINE.findall(part["line"])]
        elif block := _block(page, line, part):
            found.append(block)
    return found


def blocks(root=ROOT):
    """Those of all documents."""
    return [block for page in pages(root) for block in blocks_of(str(page.relative_to(root)), page.read_text(encoding="utf-8"))]


def lines_of_text(text):
    """The commands of a script, one a line, without comments."""
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return [line for one in lines if (line := re.sub(r"(?:^|\s+)#\s.*", "", one).strip())]


def calls(text):
    """The programs that a script calls, each with its arguments as a list of words; text that is no shell script is a ValueError."""
    found = []
    text = _HEREDOC.sub(r"\1\n", text.replace("\\\n", " "))
    while inner := _INNER.search(text):  # Before what is around it is taken apart.
        found += calls(inner[1] if inner[1] is not None else inner[2])
        text = text[:inner.start()] + "INNER" + text[inner.end():]
    for line in text.splitlines():
        words = []
        for word in [*_words(line), ";"]:
            if word and not set(word) - set(";|&"):
                found += [words] if (words := _plain(words)) else []
                words = []
            else:
                words.append(word)
    return found


def _words(line):
    """The words of a line up to a comment, with ";", "|", "&", "<", ">" and parentheses as words of their own."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>()")
    lexer.whitespace_split = True
    return list(lexer)


def _plain(words):
    """A simple command without keywords, assignments and redirections; [] if nothing is called."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word and not set(word) - set("<>&"):
            skip = True
            if kept and kept[-1].isdigit():
                kept.pop()
        elif word and not set(word) - set("()"):
            continue
        else:
            kept.append(word)
    while kept and (kept[0] in _KEYWORDS or _ASSIGNMENT.match(kept[0])):
        kept.pop(0)
    if kept and kept[0] == "export":
        return []
    return [] if kept and kept[0] in ("for", "case", "INNER") else kept
