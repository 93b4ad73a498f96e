"""The writer of stamps that tests of groups use, and what it tells of copies."""

import signal
import subprocess
import sys

import pytest

import conftest

E2E = conftest.ROOT / "tests" / "e2e"
sys.path.insert(0, str(E2E))

import stamps  # noqa: E402

MIB = 1 << 20


def stamped(folder, *numbers):
    """Files with these stamps."""
    paths = []
    for index, number in enumerate(numbers):
        paths.append(folder / f"copy{index}")
        paths[-1].write_bytes(number.to_bytes(8, "little") * 512)
    return paths


@pytest.mark.parametrize("numbers, far", [((7, 7, 7), 0), ((8, 7, 7), 1), ((8, 8, 7), 1), ((9, 8, 7), 2), ((99, 7, 7), 92)])
def test_spread_counts_writes_between_copies(tmp_path, numbers, far):
    assert stamps.spread(stamped(tmp_path, *numbers)) == far


def test_numbers_of_no_instant_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="no instant"):
        stamps.spread(stamped(tmp_path, 7, 8, 8))
    with pytest.raises(ValueError, match="not stamped"):
        stamps.spread(stamped(tmp_path, 7, 0, 0))


def test_torn_stamp_is_an_error(tmp_path):
    (path,) = stamped(tmp_path, 7)
    with open(path, "r+b") as file:
        file.write(b"\1")
    with pytest.raises(ValueError, match="2 stamps"):
        stamps.read(path)


def test_writer_stamps_all_files_until_it_is_told_to_end():
    # O_DIRECT is not for every file system that a temporary folder may be in.
    folder = E2E.parents[1] / "build"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"stamps-{name}" for name in "abc"]
    try:
        for path in paths:
            path.write_bytes(bytes(MIB))
        with subprocess.Popen([sys.executable, E2E / "stamps.py", "--offset", str(stamps.BLOCK_BYTES), *paths],
                              stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "writing\n"
            assert all(stamps.read(path, stamps.BLOCK_BYTES) > 0 for path in paths)
            writer.send_signal(signal.SIGTERM)
            last = int(writer.stdout.read())
        assert [stamps.read(path, stamps.BLOCK_BYTES) for path in paths] == [last] * 3
        assert stamps.read(paths[0]) == 0
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
