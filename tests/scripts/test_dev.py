"""What ./dev answers before it does anything."""

import pathlib
import subprocess

DEV = pathlib.Path(__file__).resolve().parents[2] / "dev"


def _dev(*arguments):
    return subprocess.run([DEV, *arguments], capture_output=True, text=True, timeout=20, check=False)


def test_a_verb_asked_for_help_says_what_it_is_and_does_nothing():
    for flag in ("-h", "--help"):
        done = _dev("sweep", flag)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("./dev sweep [seed | storm]")
        assert len(done.stdout.splitlines()) == 1


def test_a_verb_that_does_not_exist_is_named():
    done = _dev("swep")
    assert done.returncode == 2
    assert "no such verb: swep" in done.stderr


def test_help_has_every_verb_and_fits_a_screen():
    done = _dev("help")
    verbs = ("setup build image test demo e2e bench docs sweep mutants interop fuzz fmt lint asan tsan cover size ci help").split()
    named = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and not line.startswith("   ")}
    assert named == set(verbs)
    assert "test [--all [N/4] | --changed | FILTER]" in done.stdout
    assert all(len(line) <= 120 for line in done.stdout.splitlines())
