#!/usr/bin/python3
"""Which verbs and flags the programs have that the documents call.

    programs.py KUBECTL VELERO RESTIC

renews tests/docs/programs.txt, by what these programs print, for the verbs that it has: write a new one there without
flags. csi-delta's are those of docs/cli.md, which a test compares with the program; those of ./dev are its own.
"""

import re
import subprocess
import sys

from commands import ROOT

TABLE = ROOT / "tests" / "docs" / "programs.txt"
HEAD = """# Verbs and flags of programs that the documents call, and no other verbs. "restic" alone: what each verb of it takes.
# scripts/docs/programs.py renews it, but for helm, of which there is only the library here: that is Helm 3.
"""
_FLAG = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)(?:, (--[\w-]+))?", re.MULTILINE)
PLUGINS = {"kubectl": ("csi-delta",)}  # What is a program of its own.


def _flags(text):
    return frozenset(name for names in _FLAG.findall(text) for name in names if name)


def read_table(path=TABLE):
    """{program: {verb: flags}}; verb "" has the flags of all verbs."""
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, flags = line.partition(":")
            program, _, verb = name.partition(" ")
            known.setdefault(program, {})[verb] = frozenset(flags.split())
    return known


def of_cli_document(text):
    """The same of csi-delta, by docs/cli.md."""
    known = {}
    parts = re.split(r"^#{1,2} (.+)$", text, flags=re.MULTILINE)
    for verb, part in zip(parts[1::2], parts[2::2], strict=True):
        usage = re.search(r"^```text\nusage: csi-delta (.*?)^```$", part, re.MULTILINE | re.DOTALL)
        if usage:
            known["" if verb == "Verbs" else verb] = _flags(usage[1])
    known[""] |= {"--version"}
    return known


def of_program(name, path, verbs):
    """The same of a program that is here, for some verbs. A verb that it does not have is a CalledProcessError."""
    def printed(*arguments):
        return subprocess.run([path, *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    known = {"": _flags(printed("options" if name == "kubectl" else "--help"))}
    for verb in sorted(verbs - {""}):
        text = printed(*verb.split(), "--help")
        if name == "kubectl" and not re.search(rf"^  kubectl {verb}\b.*options", text, re.MULTILINE):
            raise ValueError(f"kubectl has no verb {verb}")  # It prints the help of what is before.
        known[verb] = _flags(text) - known[""]
    return known


def _verb(arguments, verbs):
    """The verb of a call, "" if it has none or the first word of some, None if it is unknown. A flag before may have a value."""
    plain = [at for at, word in enumerate(arguments) if not word.startswith("-")]
    for first in plain:
        following = [arguments[at] for at in plain if at >= first][:3]
        for count in (3, 2, 1):
            if " ".join(following[:count]) in verbs:
                return " ".join(following[:count])
        if following[0] == "VERB" or any(one.startswith(f"{following[0]} ") for one in verbs):
            return ""
        if first == 0 or not arguments[first - 1].startswith("-"):
            return None
    return ""


def complaint(words, known):
    """What is wrong with a call of one of these programs, or ""."""
    program, arguments = words[0], words[1:]
    if "--" in arguments:
        arguments = arguments[:arguments.index("--")]
    verbs = known[program]
    if arguments and arguments[0] in PLUGINS.get(program, ()):
        return complaint(arguments, known)
    verb = _verb(arguments, verbs)
    if verb is None:
        return f"{program} has no verb {next(word for word in arguments if not word.startswith('-'))}"
    flags = [word.split("=")[0] for word in arguments if re.match(r"--?[A-Za-z]", word)]
    has = verbs[verb] | verbs[""] | {"--help", "-h"}
    unknown = [flag for flag in flags if flag not in has and not (re.match(r"-[a-z].", flag) and flag[:2] in has)]
    return f"{program} {verb} has no flag {unknown[0]}" if unknown else ""


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    known = read_table()
    for name, path in zip(("kubectl", "velero", "restic"), sys.argv[1:], strict=True):
        known[name] = of_program(name, path, known[name].keys())
    lines = sorted(f"{name} {verb}".strip() + f": {' '.join(sorted(flags))}".rstrip() + "\n"
                   for name, verbs in known.items() for verb, flags in verbs.items())
    TABLE.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
