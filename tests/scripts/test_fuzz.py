"""Inputs that fuzzing found: which are committed, and how much they may weigh."""

import fuzz


def test_the_committed_inputs_stay_small():
    assert fuzz.corpus_bytes() <= fuzz.CORPUS_BYTES_MAX


def test_small_inputs_go_first_and_the_budget_is_kept(tmp_path):
    for name, size in (("a", 300), ("b", 100), ("c", 200), ("large", fuzz.KEPT_INPUT_BYTES_MAX + 1)):
        (tmp_path / name).write_bytes(b"x" * size)
    candidates = list(tmp_path.iterdir())
    assert [path.name for path in fuzz.choose(candidates, 1 << 20)] == ["b", "c", "a"]
    assert [path.name for path in fuzz.choose(candidates, 350)] == ["b", "c"]
    assert fuzz.choose(candidates, 50) == []
