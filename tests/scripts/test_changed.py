"""What a change can touch, by its paths."""

import changed
import manifest
import pytest

SOURCES = {
    "src/base/clock.h": "", "src/base/clock.cc": '#include "base/clock.h"\n',
    "src/csi/turn.h": '#include "base/clock.h"\n', "src/csi/turn.cc": '#include "csi/turn.h"\n',
    "src/velero/labels.h": "", "src/alone/unused.h": "", "src/storage/s3.h": "",
    "src/cmd/main.cc": '#include "csi/turn.h"\n#include "storage/s3.h"\n',
    "tests/support/fake.h": '#include "velero/labels.h"\n',
    "tests/csi/turn_test.cc": '#include "csi/turn.h"\n', "tests/csi/helper.h": "",
    "tests/csi/other_test.cc": '#include "tests/csi/helper.h"\n#include "tests/support/fake.h"\n',
    "tests/base/clock_test.cc": '#include "base/clock.h"\n',
    "tests/e2e/test_walk.py": "", "tests/e2e/bed.py": "", "tests/scripts/test_x.py": "",
    "tests/cli/CMakeLists.txt": "docs/cli.md", "tests/cli/help_test.cc": "",
}


def _program(name, *sources):
    folder = sources[0].rsplit("/", 1)[0]
    return manifest.Program(name, folder, sources=sources, labels=frozenset({"unit"}))


PROGRAMS = {program.name: program for program in (
    _program("csi_test", "tests/csi/turn_test.cc", "tests/csi/other_test.cc"),
    _program("base_test", "tests/base/clock_test.cc"), _program("cli_test", "tests/cli/help_test.cc"))}


@pytest.fixture(name="select")
def fixture_select(tmp_path, monkeypatch):
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    return lambda *paths: changed.select(paths, PROGRAMS, root=tmp_path)


@pytest.mark.parametrize("path,programs,tiers", [
    ("src/base/clock.cc", {"csi_test", "base_test"}, {"host", "journeys"}),
    ("src/csi/turn.h", {"csi_test"}, {"host", "journeys"}),
    ("src/velero/labels.h", {"csi_test"}, set()),
    ("src/alone/unused.h", set(), set()),
    ("src/storage/s3.h", set(), {"host", "journeys", "s3", "restic"}),
    ("tests/base/clock_test.cc", {"base_test"}, set()),
    ("tests/support/fake.h", {"csi_test"}, set()),
    ("tests/csi/helper.h", {"csi_test"}, set()),
    ("docs/cli.md", {"cli_test"}, {"scripts"}),
    ("tests/cli/golden.txt", {"cli_test"}, set()),
    ("cmake/Targets.cmake", set(), {"unit", "host", "journeys"}),
    ("scripts/dev/ci.py", set(), {"scripts"}),
    ("tests/e2e/bed.py", set(), {"journeys"}),
    ("deploy/crds.yaml", set(), {"unit", "journeys"}),
])
def test_a_path_touches(select, path, programs, tiers):
    selection = select(path)
    assert set(selection.programs) == programs
    assert selection.tiers == tiers | {"checks"}


def test_a_test_file_is_its_own(select):
    assert select("tests/e2e/test_walk.py").paths == {"e2e": ["tests/e2e/test_walk.py"]}
    assert select("tests/scripts/test_x.py").paths == {"scripts": ["tests/scripts/test_x.py"]}
    assert select("tests/e2e/test_gone.py").tiers == {"checks", "journeys"}  # It was deleted.


def test_the_host_s_own_files_run_the_host_tier_once(select):
    assert select("tests/pluginmanager/run.py").host == ""
    both = select("tests/pluginmanager/run.py", "src/csi/turn.h")
    assert both.host is None and "host" in both.tiers


@pytest.fixture(name="bed")
def fixture_bed(tmp_path, monkeypatch, select):
    del select
    monkeypatch.setattr(changed, "_bed_file", lambda: tmp_path / "cache" / "bed-tests")
    monkeypatch.setattr(changed, "base", lambda: "0123456789abcdef")
    monkeypatch.setattr(changed, "files", lambda since: [])
    monkeypatch.setattr(changed, "bed_digest", lambda root=tmp_path, digest=changed.bed_digest: digest(root))
    return tmp_path


def test_tests_of_the_bed_run_when_it_changed_since_they_passed(bed):
    assert changed.bed_changed()[0] is False  # Nothing is known, and nothing has changed since origin.
    changed.bed_passed(changed.bed_digest())
    assert changed.bed_changed() == (False, "what they judge is as it was when they last passed")
    (bed / "tests/e2e/test_walk.py").write_text("# not of the bed\n")
    assert changed.bed_changed()[0] is False
    (bed / "tests/e2e/bed.py").write_text("x = 1\n")
    assert changed.bed_changed() == (True, "what they judge has changed since they last passed")


def test_without_a_cache_the_change_since_origin_decides(bed, monkeypatch):
    del bed
    monkeypatch.setattr(changed, "files", lambda since: ["tests/e2e/bed.py", "src/x.cc"])
    assert changed.bed_changed() == (True, "tests/e2e/bed.py has changed since 0123456789ab")
