"""An entry of ctest: what it chooses, and its end with all that it started. What it shows is told in test_runs.py."""

import json
import signal

import pytest
from conftest import PYTHON

WORDS = "--name x_test.1of2 --tier t --kind command --seconds 60 --nice 3 --programs /bin --".split()


@pytest.mark.parametrize("only,choice,shards", [
    ({}, "its own", "20"), ({"x_test.1of2": ["a b", "c"]}, "a b c", ""), ({"x_test.2of2": ["c"]}, "its own", "20")])
def test_a_caller_s_choice_is_in_place_of_the_entry_s_and_of_its_share(checkout, only, choice, shards):
    command = ["sh", "-c", 'echo "$@, $GTEST_TOTAL_SHARDS$GTEST_SHARD_INDEX, $(nice)"', "sh", "first", ":::", "its", "own"]
    env = {"GTEST_TOTAL_SHARDS": "2", "GTEST_SHARD_INDEX": "0", "CSI_DELTA_ONLY": json.dumps(only)}
    code = checkout.run(PYTHON, "scripts/dev/entry.py", *WORDS, *command, **env)[1]
    words = (checkout.folder / "build/results/t/x_test.1of2.log").read_text().split(", ")
    assert (code, *words[:2], int(words[2]) >= 3) == (0, f"first {choice}", shards, True)


@pytest.mark.parametrize("sig,want", [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_ends_an_entry_in_order_and_all_that_it_started(checkout, sig, want):
    assert checkout.run(PYTHON, "scripts/dev/entry.py", *WORDS, "sh", "tree.sh", ":::", sig=sig)[1] == want
    assert not (checkout.folder / "build/results/t/x_test.1of2.json").exists()
