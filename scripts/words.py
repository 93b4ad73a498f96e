#!/usr/bin/python3
"""Bans ten kinds of phrases that the project has a better word for, in prose and in identifiers.

    words.py [path...]

Reads every text of the project, or only the files and folders that are given. Prints one line per fault (file:line,
the phrase, what to say instead) and exits 1; or prints how much it read and exits 0. A phrase is found in prose, in
strings, across line breaks, and in identifiers: `LeftByNobody` and `left_by_nobody` read as "left by nobody".
"""

import fnmatch
import pathlib
import re
import sys

import tidy

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What must not occur, a pattern over lower-case text in which identifiers are split, and what takes its place.
# Few, because a list cannot teach plain order: phrases that kept coming back after readers had replaced them.
RULES = {
    r"who(m|so)?ever|whom|(some|no)body( else)?s?|someone( else)?s?|no ?one elses?":
        "name the actor: the worker, the driver, the operator, another client",
    r"(of|is|are|was|not) (ours|theirs)(?!\()|(ours|theirs) to \w+":
        "managed by csi-delta; its own; of the other client",
    r"of no matter|in vain|to no avail": "ignored; unreferenced, without effect",
    r"anew|behind the (volume|end)|(come|comes|came|coming) to (its|their|an) end":
        "again, start over; past the end; finish",
    r"(let|lets|letting) go|let \w+ go|(hand|hands|handed|handing) (it |them )?over|handover":
        "delete, detach, free; adopt a group, rebind a volume",
    r"(snapshot|group|volume|claim|member)s? (that )?(is|are|was|were) cut(?! (off|short|into|to|in)\b)|being cut":
        "taken (a snapshot is taken; taken at)",
    r"words? of (the )?(driver|kubelet|worker)s?|(driver|pod|group|backup|stage)s? words?|last words?":
        "the driver's error, the kubelet's message, the worker's final status",
    r"(list|driver|index|server)s?( that)? (lied|believes?|wish(es)?)|(list|driver|index|server)s? that lies?":
        "omits, reports, requests; a wrong list",
    r"volume turns?|take turn|dead locks?": "VolumeLease (one operation per volume); stale lock",
    r"patience|insists?|insisted|insisting": "grace period, timeout; retry",
}

# Shell pattern over paths, what is right there as a pattern over the text as it stands, the reason.
EXCEPTIONS = (
    ("*", r"(csi-delta|group)-handed-over|handing-over(-at)?|volume-turn|turn-at",
     "names and values of labels and annotations of objects in clusters"),
    ("*", r"HAS NOT COME TO ITS END", "the first bytes of restores that released versions left"),
    ("tests/fuzz/corpus/*", r"(?s).+", "bytes that fuzzers made"),
    ("*words.py", r"(?s).+", "quotes the phrases"),
    ("LICENSE", r"(?s).+", "a legal text"),
    ("proto/*", r"(?s).+", "contracts of CSI, Velero and go-plugin"),
    ("tests/e2e/modules/*", r"(?s).+", "programs of other projects, as they are built"),
)


def spoken(text):
    """The text in lower case, identifiers split into words and comment marks blanked; lines keep their numbers."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    text = re.sub(r"(?m)^[ \t]*(?://+|#+|\*|-)(?=\s)", " ", text)
    text = re.sub(r'"[ \t]*\n[ \t]*f?"', "\n", text)  # A string that goes on in the next line.
    return re.sub(r"[’'`_-]", lambda mark: "" if mark[0] in "’'`" else " ", text).lower()


PATTERN = re.compile(r"\b(?:" + "|".join(f"({phrase})" for phrase in RULES).replace(" ", r"\s+") + r")\b")


def _allowed(name, text):
    """The text with what an exception allows blanked."""
    for files, pattern, _ in EXCEPTIONS:
        if fnmatch.fnmatch(name, files):
            text = re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def faults(name, text):
    """Faults in one file, each a line to print."""
    body = spoken(_allowed(name, text))
    for match in PATTERN.finditer(body):
        rules = ((phrase.replace(" ", r"\s+"), instead) for phrase, instead in RULES.items())
        instead = next(instead for phrase, instead in rules if re.fullmatch(phrase, match[0]))
        yield f"{name}:{body.count(chr(10), 0, match.start()) + 1}: `{' '.join(match[0].split())}`: say {instead}"


def main(places):
    found, count = [], 0
    for path in tidy.project_files(ROOT):
        is_asked = not places or any(path.is_relative_to(place) for place in places)
        if is_asked and (text := tidy.read_text(ROOT / path)) is not None:
            count += 1
            found += faults(str(path), text)
    return tidy.report("words", found, count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
