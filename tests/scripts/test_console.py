"""Commands that run beside others."""

import os
import time

import console
import pytest

NICE_MAX = 19
WAIT_SECONDS_MAX = 20


def _words_of(path):
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"nothing wrote {path}"
        time.sleep(0.02)
    return path.read_text().split()


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_runs_beside_is_nice_and_ends_with_the_body_and_all_that_it_started(tmp_path):
    words = tmp_path / "words"
    with console.beside(["sh", "-c", f"sleep 600 & echo $! $(nice) > {words}; wait"]):
        process, nice = map(int, _words_of(words))
        assert nice == min(NICE_MAX, os.getpriority(os.PRIO_PROCESS, 0) + console.BESIDE_NICE)
        assert _is_alive(process)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while _is_alive(process):
        assert time.monotonic() < deadline, "it outlived the body"
        time.sleep(0.02)


def test_what_runs_beside_ends_when_the_body_fails(tmp_path):
    words = tmp_path / "words"
    with pytest.raises(console.Failure), console.beside(["sh", "-c", f"echo $$ > {words}; exec sleep 600"]):
        process = int(_words_of(words)[0])
        raise console.Failure("the body")
    assert not _is_alive(process)
