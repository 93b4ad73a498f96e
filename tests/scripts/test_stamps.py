"""The writer of stamps that tests of groups use, and what it tells of copies."""

import pathlib
import signal
import subprocess
import tempfile

import pytest
import stamps
from conftest import PYTHON, ROOT


def stamped(folder, *numbers):
    paths = [folder / f"copy{index}" for index in range(len(numbers))]
    for path, number in zip(paths, numbers):
        path.write_bytes(number.to_bytes(8, "little") * 512)
    return paths


@pytest.mark.parametrize("numbers, far", [((7, 7, 7), 0), ((8, 7, 7), 1), ((8, 8, 7), 1), ((9, 8, 7), 2), ((99, 7, 7), 92)])
def test_spread_counts_writes_between_copies(tmp_path, numbers, far):
    assert stamps.spread(stamped(tmp_path, *numbers)) == far


@pytest.mark.parametrize("numbers, words", [((7, 8, 8), "no instant"), ((7, 0, 0), "not stamped"), ((7,), "2 stamps")])
def test_numbers_of_no_instant_and_a_torn_stamp_are_errors(tmp_path, numbers, words):
    paths = stamped(tmp_path, *numbers)
    if len(paths) == 1:
        paths[0].write_bytes(b"\1" + paths[0].read_bytes()[1:])
    with pytest.raises(ValueError, match=words):
        stamps.spread(paths)


def test_writer_stamps_all_files_until_it_is_told_to_end():
    (ROOT / "build").mkdir(exist_ok=True)  # O_DIRECT is not for every file system that a temporary folder may be in.
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        paths = [pathlib.Path(folder, name) for name in "abc"]
        for path in paths:
            path.write_bytes(bytes(1 << 20))
        with subprocess.Popen([PYTHON, stamps.__file__, "--offset", str(stamps.BLOCK_BYTES), *paths],
                              stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "writing\n"
            assert all(stamps.read(path, stamps.BLOCK_BYTES) > 0 for path in paths)
            writer.send_signal(signal.SIGTERM)
            last = int(writer.stdout.read())
        assert [stamps.read(path, stamps.BLOCK_BYTES) for path in paths] == [last] * 3
        assert stamps.read(paths[0]) == 0
