"""How the tests read the commands of the documents."""

import commands
import pytest


def found(text):
    return [(block.kind, commands.lines_of_text(block.text), block.reason) for block in commands.blocks_of("page.md", text)]


def test_commands_are_found_in_fences_indented_blocks_transcripts_and_prose():
    text = ("Run `csi-delta check --read-data`.\n\n<!-- not run: needs a driver -->\n```sh\ncsi-delta status  # how far\n```\n\n1. Then\n\n   ```sh\n"
            "   kubectl get pods \\\n     --all-namespaces\n   ```\n\nThen\n\n    csi-delta doctor\n\n    what it prints\n\n```text\n$ csi-delta version\n0.1.0\n```\n"
            "```yaml\nkubectl: no\n```\n")
    assert found(text) == [
        (commands.INLINE, ["csi-delta check --read-data"], ""), (commands.FENCED, ["csi-delta status"], "needs a driver"),
        (commands.FENCED, ["kubectl get pods --all-namespaces"], ""), (commands.INDENTED, ["csi-delta doctor"], ""),
        (commands.TRANSCRIPT, ["csi-delta version"], "")]


@pytest.mark.parametrize("script,calls", [
    ("A=$(kubectl get x -o name | head -1); csi-delta show \"$A\"", [["kubectl", "get", "x", "-o", "name"], ["head", "-1"], ["csi-delta", "show", "$"]]),
    ("csi-delta mover-key export > shop.keys 2> errors && rm shop.keys", [["csi-delta", "mover-key", "export"], ["rm", "shop.keys"]]),
    ("export X=1 Y=2\nsudo X=1 csi-delta status &", [["csi-delta", "status"]]),
    ("kubectl apply -f - <<EOF\nrm -rf /\nEOF\nls", [["kubectl", "apply", "-f", "-"], ["ls"]]),
    ("for x in a b; do restic check; done", [["restic", "check"]]),
    ("source <(csi-delta completion bash)", [["csi-delta", "completion", "bash"], ["source", "$"]]),
])
def test_a_script_is_taken_apart(script, calls):
    assert commands.calls([script, "ls"]) == [calls, [["ls"]]]


def test_an_open_quote_is_a_fault():
    with pytest.raises(ValueError, match="without closing quote"):
        commands.calls(["ls", "csi-delta snapshots --tag 'x", "ls"])
