#!/usr/bin/python3
"""Bans ten kinds of phrases that the project has a better word for, in prose and in identifiers.

    words.py [path...]

Reads every text of the project, or only the files and folders that are given. Prints one line per fault (file:line,
the phrase, what to say instead) and exits 1; or prints how much it read and exits 0. A phrase is found in prose, in
strings, across line breaks, and in identifiers: `LeftByNobody` and `left_by_nobody` read as "left by nobody".
"""

import dataclasses
import fnmatch
import functools
import pathlib
import re
import sys

import tidy

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A phrase that must not occur, and what takes its place."""

    phrase: str  # Pattern over lower-case text in which identifiers are split into words.
    instead: str


@dataclasses.dataclass(frozen=True)
class Allowance:
    """Where a phrase is right."""

    files: str  # Shell pattern over paths.
    text: str  # What is blanked before the rules are asked: a pattern over the text as it stands.
    reason: str


# Few, because a list cannot teach plain order: phrases that kept coming back after readers had replaced them.
RULES = (
    Rule(r"who(m|so)?ever|whom|(some|no)body( else)?s?|someone( else)?s?|no ?one elses?",
         "name the actor: the worker, the driver, the operator, another client"),
    Rule(r"(of|is|are|was|not) (ours|theirs)(?!\()|(ours|theirs) to \w+",
         "managed by csi-delta; its own; of the other client"),
    Rule(r"of no matter|in vain|to no avail", "ignored; unreferenced, without effect"),
    Rule(r"anew|behind the (volume|end)|(come|comes|came|coming) to (its|their|an) end",
         "again, start over; past the end; finish"),
    Rule(r"(let|lets|letting) go|let \w+ go|(hand|hands|handed|handing) (it |them )?over|handover",
         "delete, detach, free; adopt a group, rebind a volume"),
    Rule(r"(snapshot|group|volume|claim|member)s? (that )?(is|are|was|were) cut(?! (off|short|into|to|in)\b)|being cut",
         "taken (a snapshot is taken; taken at)"),
    Rule(r"words? of (the )?(driver|kubelet|worker)s?|(driver|pod|group|backup|stage)s? words?|last words?",
         "the driver's error, the kubelet's message, the worker's final status"),
    Rule(r"(list|driver|index|server)s?( that)? (lied|believes?|wish(es)?)|(list|driver|index|server)s? that lies?",
         "omits, reports, requests; a wrong list"),
    Rule(r"volume turns?|take turn|dead locks?", "VolumeLease (one operation per volume); stale lock"),
    Rule(r"patience|insists?|insisted|insisting", "grace period, timeout; retry"),
)

EXCEPTIONS = (
    Allowance("*", r"(csi-delta|group)-handed-over|handing-over(-at)?|volume-turn|turn-at",
              "names and values of labels and annotations of objects in clusters"),
    Allowance("*", r"HAS NOT COME TO ITS END", "the first bytes of restores that released versions left"),
    Allowance("tests/fuzz/corpus/*", r"(?s).+", "bytes that fuzzers made"),
    Allowance("*words.py", r"(?s).+", "quotes the phrases"),
    Allowance("LICENSE", r"(?s).+", "a legal text"),
    Allowance("proto/*", r"(?s).+", "contracts of CSI, Velero and go-plugin"),
    Allowance("tests/e2e/modules/*", r"(?s).+", "programs of other projects, as they are built"),
)


def spoken(text):
    """The text in lower case, identifiers split into words and comment marks blanked; lines keep their numbers."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    text = re.sub(r"(?m)^[ \t]*(?://+|#+|\*|-)(?=\s)", " ", text)
    text = re.sub(r'"[ \t]*\n[ \t]*f?"', "\n", text)  # A string that goes on in the next line.
    return re.sub(r"[’'`_-]", lambda mark: "" if mark[0] in "’'`" else " ", text).lower()


@functools.lru_cache(maxsize=1)
def _pattern():
    """All rules as one pattern; the group that matched is the rule's."""
    phrases = (rule.phrase.replace(" ", r"\s+") for rule in RULES)
    return re.compile(r"\b(?:" + "|".join(f"(?P<r{at}>{phrase})" for at, phrase in enumerate(phrases)) + r")\b")


def _allowed(name, text):
    """The text with what an exception allows blanked."""
    for allowance in EXCEPTIONS:
        if fnmatch.fnmatch(name, allowance.files):
            text = re.sub(allowance.text, lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def faults(name, text):
    """Faults in one file, each a line to print."""
    body = spoken(_allowed(name, text))
    for match in _pattern().finditer(body):
        rule = RULES[int(match.lastgroup[1:])]
        line = body.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: `{' '.join(match[0].split())}`: say {rule.instead}"


def check(root, below=()):
    """(faults as lines, number of files read)."""
    found, count = [], 0
    for path in tidy.project_files(root):
        name = str(path)
        if below and not any(name == place or name.startswith(f"{place.rstrip('/')}/") for place in below):
            continue
        text = tidy.read_text(root / path)
        if text is not None:
            count += 1
            found += faults(name, text)
    return found, count


def main(arguments):
    found, count = check(ROOT, arguments)
    for line in found:
        print(line)
    print(f"words: {count} files, {len(found)} faults")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
