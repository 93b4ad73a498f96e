"""Each folder of src/ says what it answers, which types carry it and where to start reading; what it names exists."""

import pathlib
import re

import pytest

SRC = pathlib.Path(__file__).resolve().parents[2] / "src"
FOLDERS = sorted(path.name for path in SRC.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_it_answers(folder):
    text = (SRC / folder / "README.md").read_text()
    assert text.startswith(f"# {folder}\n") and "**Start reading**" in text
    assert len(text.splitlines()) <= 30, "at most a screen"


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_path_that_a_folder_names_exists(folder):
    text = (SRC / folder / "README.md").read_text()
    for name in re.findall(r"`([\w/]+\.(?:h|cc))`", text):
        assert (SRC / folder / name).exists() or (SRC / name).exists(), name
    for name, header in re.findall(r"^- `(\w+)` \(`([\w/]+\.h)`\)", text, re.MULTILINE):
        assert re.search(rf"\b(class|struct)\b[^;]*\b{name}\b", (SRC / folder / header).read_text()), name
