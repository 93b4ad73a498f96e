"""docs/quick-start-cluster.md: from Velero to a verified incremental restore in seven commands, each of one process."""

import re
import shlex

import pytest
from console import ROOT

PAGE = ROOT / "docs" / "quick-start-cluster.md"
COMMANDS_MAX = 7
OPERATORS = set(";&|<>()")
EXPANSIONS = ("$", "`", "\\")
SHELLS = {"sh", "bash", "zsh", "env", "eval", "source", ".", "xargs", "sudo", "ssh", "timeout"}


def commands():
    """The lines of the page's shell blocks, fenced or indented; a backslash joins a line to the next."""
    text = re.sub(r" \\\n +", " ", PAGE.read_text(encoding="utf-8"))
    fenced = re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = [line for line in outside.splitlines() if line.startswith("    ")]
    return [line for line in [*"".join(fenced).splitlines(), *indented] if line.strip() and not line.lstrip().startswith("#")]


def processes(line):
    """The words of a line that is one process and nothing for a shell to do; ValueError for any other."""
    lexer = shlex.shlex(line, posix=False, punctuation_chars="".join(OPERATORS))
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= OPERATORS:
            raise ValueError(f"{word} makes more than one process of it: {line}")
        if not word.startswith("'") and any(sign in word for sign in EXPANSIONS):
            raise ValueError(f"a shell expands {word}: {line}")
    words = shlex.split(line)
    if words[0] in SHELLS or "=" in words[0] or words[0].endswith((".sh", ".py")):
        raise ValueError(f"{words[0]} is a script, or runs another program: {line}")
    return words


def test_it_takes_at_most_seven_commands():
    words = [processes(line) for line in commands()]
    assert 0 < len(words) <= COMMANDS_MAX and {"velero", "helm"} <= {line[0].rsplit("/", 1)[-1] for line in words}
    assert words[-1][0].endswith("csi-delta") and words[-1][1] == "try"
    assert processes("kubectl patch x --patch '[{\"op\": \"add\"}]'")[-1] == '[{"op": "add"}]'  # Quoted signs are no operators.


@pytest.mark.parametrize("line", [
    "helm install a b && csi-delta try shop", "kubectl get pods | head", "kubectl get pods; true", "kubectl get pods & true",
    "kubectl patch $(kubectl get pods)", "kubectl get `cat name`", "velero plugin add \"$IMAGE\"", "csi-delta try shop > file",
    "bash install.sh", "./install.sh", "X=1 helm install a b", "kubectl get pods \\", "true||false", "sh -c 'a; b'"])
def test_more_than_one_process_is_a_fault(line):
    with pytest.raises(ValueError):
        processes(line)
