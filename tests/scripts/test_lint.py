"""Which sources ./dev lint looks at."""

import json

import console
import lint
import pytest
from conftest import write


@pytest.fixture(name="ran")
def _ran(monkeypatch, tmp_path):
    """A build with two sources; ccache makes an object of each, which for b.cc is a compiler's."""
    names = ("a.cc", "b.cc")
    entries = [{"file": str(console.ROOT / "src" / name), "command": f"clang++ -o out/{name}.o -c {name}"} for name in names]
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    for name, made in (("configure", None), ("folder", tmp_path), ("targets", [])):
        monkeypatch.setattr(lint.build, name, lambda _, made=made: made)
    monkeypatch.setattr(lint, "environment", lambda _: {})
    ran = []

    def execute(command, **_):
        if command[0] == "ccache":
            ran.append(command[-1])
            (tmp_path / command[3]).write_bytes(b"\x7fELF" if command[-1] == "b.cc" else b"\n")
        return 0, []
    monkeypatch.setattr(console, "execute", execute)
    return ran


def test_a_filter_that_no_source_matches_and_a_source_that_was_compiled_and_not_judged_are_failures(ran):
    with pytest.raises(console.Failure, match="no source of the project matches typo"):
        lint.clang_tidy("typo")
    lint.clang_tidy("^src/a")
    assert ran == ["a.cc"]
    ran.clear()
    with pytest.raises(console.Failure, match="not content with 1 sources: src/b.cc"):
        lint.clang_tidy()
    assert sorted(ran) == ["a.cc", "b.cc"]


def test_a_source_is_named_with_those_that_it_unites(tmp_path):
    text = '// of cmake/Targets.cmake\n#include "csi/one.cc"\n#include "tests/csi/two.cc"\n'
    united = write(tmp_path, {"src/csi/csi_united.cc": text}) / "src/csi/csi_united.cc"
    assert lint.names_of(united, tmp_path) == ["src/csi/csi_united.cc", "src/csi/one.cc", "tests/csi/two.cc"]
    assert lint.names_of(console.ROOT / "src" / "cmd" / "main.cc", tmp_path) == ["src/cmd/main.cc"]
    assert lint.names_of(tmp_path / "csi.pb.cc", tmp_path) == []
