"""What ./dev answers before it does anything."""

import subprocess

import pytest
from conftest import ROOT


def _dev(*arguments):
    return subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("words,code,out,error", [
    (["sweep", "-h"], 0, "./dev sweep [seed | storm]", ""), (["sweep", "--help"], 0, "./dev sweep [seed | storm]", ""),
    (["swep"], 2, "", "dev: no such verb: swep"),
    (["ci", "x", "y"], 1, "", "dev: ci: too many arguments; usage: ./dev ci [--keep-going]")])
def test_a_question_or_an_error_is_answered_in_one_line(words, code, out, error):
    done = _dev(*words)
    assert (done.returncode, done.stdout[:len(out)], done.stderr[:len(error)]) == (code, out, error)
    assert len((done.stdout + done.stderr).splitlines()) == 1


def test_help_has_every_verb_and_fits_a_screen():
    done = _dev("help")
    verbs = ("setup build image test demo e2e bench docs versions sweep mutants interop fuzz fmt lint asan tsan cover size ci help").split()
    named = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and not line.startswith("   ")}
    assert named == set(verbs)
    assert "test [--all [N/4] | --changed | FILTER]" in done.stdout
    assert all(len(line) <= 120 for line in done.stdout.splitlines())
