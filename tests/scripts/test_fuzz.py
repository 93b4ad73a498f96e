"""Inputs that fuzzing found: which are committed, and how much they may weigh."""

import fuzz


def test_the_committed_inputs_stay_small():
    assert fuzz.corpus_bytes() <= fuzz.CORPUS_BYTES_MAX


def test_the_largest_new_inputs_go_until_the_corpora_fit(tmp_path):
    for name, size in (("own", 400), ("a", 300), ("b", 100), ("c", 200)):
        (tmp_path / name).write_bytes(b"x" * size)
    new = [tmp_path / name for name in "abc"]
    assert fuzz.trim(new, 1000, tmp_path) == [tmp_path / name for name in "bca"]
    assert fuzz.trim(new, 700, tmp_path) == [tmp_path / name for name in "bc"]
    assert fuzz.trim(new[1:], 50, tmp_path) == [] and [path.name for path in tmp_path.iterdir()] == ["own"]
