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
_FENCE = re.compile(r"^( *)(`{3,}|~{3,}) *(\S*)")
_MARK = re.compile(r"^ *<!-- not run: (.+?) -->$")
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
    words = line.split()
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in ("sudo", "export")):
        words = words[1:]
    return bool(words) and words[0] in PROGRAMS or line.startswith(("export ", "ID=$("))


def _without_prompts(lines):
    """The commands of a transcript: what stands after "$ ", with the lines that go on."""
    found, goes_on = [], False
    for line in lines:
        if goes_on or line.startswith("$ "):
            found.append(line if goes_on else line[2:])
            goes_on = line.endswith("\\")
    return "\n".join(found)


def _fenced(lines, at, fence):
    """(the lines of a fenced block without its indentation, where the text goes on)."""
    indent, mark = len(fence[1]), fence[2]
    end = next((n for n in range(at + 1, len(lines)) if lines[n].strip().startswith(mark) and not lines[n].strip().strip(mark[0])), len(lines))
    body = [line[indent:] if not line[:indent].strip() else line.lstrip() for line in lines[at + 1:end]]
    return body, end + 1


def _indented(lines, at):
    """(the lines of an indented block but for paragraphs without a command, where the text goes on)."""
    end = at
    while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
        end += 1
    paragraphs = re.split(r"\n(?: *\n)+", "\n".join(line[4:] for line in lines[at:end]).rstrip())
    return [line for one in paragraphs if any(map(_is_command, one.splitlines())) for line in one.splitlines()], end


def blocks_of(page, text):
    """The blocks of commands of a document, in order."""
    found, lines, at, reason = [], text.splitlines(), 0, ""
    while at < len(lines):
        line, before, start = lines[at], lines[at - 1] if at else "", at + 1
        if fence := _FENCE.match(line):
            body, at = _fenced(lines, at, fence)
            if fence[3] in SHELLS:
                found.append(Block(page, start, "\n".join(body), reason))
            elif fence[3] in TRANSCRIPTS and (commands := _without_prompts(body)):
                found.append(Block(page, start, commands, kind=TRANSCRIPT))
            reason = ""
        elif line.startswith("    ") and not before.strip():
            body, at = _indented(lines, at)
            if body:
                found.append(Block(page, start, "\n".join(body), reason, kind=INDENTED))
            reason = ""
        else:
            found += [Block(page, start, one, kind=INLINE) for one in _INLINE.findall(line)]
            mark = _MARK.match(line)
            reason = mark[1] if mark else reason if not line.strip() else ""
            at += 1
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
