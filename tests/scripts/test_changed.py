"""What a change can touch, by its paths."""

import changed
import ci
import console
import manifest
import pytest

SOURCES = {
    "src/base/clock.h": "", "src/base/clock.cc": '#include "base/clock.h"\n',
    "src/csi/turn.h": '#include "base/clock.h"\n', "src/csi/turn.cc": '#include "csi/turn.h"\n',
    "src/velero/labels.h": "", "src/alone/unused.h": "", "src/storage/s3.h": "",
    "src/cmd/main.cc": '#include "csi/turn.h"\n#include "storage/s3.h"\n',
    "tests/support/fake.h": '#include "velero/labels.h"\n',
    "tests/csi/turn_test.cc": '#include "csi/turn.h"\n', "tests/csi/helper.h": "",
    "tests/support/served.h": "", "tests/host/fake_cluster.cc": '#include "tests/support/served.h"\n',
    "tests/chart/test_chart.py": "import mover  # noqa\n", "tests/s3/gateway.py": 'E2E / "build.py"\n',
    "tests/e2e/mover.py": "from images import x\n", "tests/e2e/images.py": "", "tests/e2e/build.py": "",
    "tests/driver/sanity.py": "import build\n",
    "tests/csi/served_test.cc": '#include "tests/support/served.h"\n',
    "tests/csi/other_test.cc": '#include "tests/csi/helper.h"\n#include "tests/support/fake.h"\n',
    "tests/base/clock_test.cc": '#include "base/clock.h"\n',
    "tests/e2e/test_walk.py": "", "tests/e2e/bed.py": "", "tests/scripts/test_x.py": "",
    "tests/cli/CMakeLists.txt": "docs/cli.md", "tests/cli/help_test.cc": "",
}


def _program(name, *sources):
    folder = sources[0].rsplit("/", 1)[0]
    return manifest.Program(name, folder, sources=sources, labels=frozenset({"unit"}))


PROGRAMS = {program.name: program for program in (
    _program("csi_test", "tests/csi/turn_test.cc", "tests/csi/other_test.cc", "tests/csi/served_test.cc"),
    manifest.Program("sanity", "tests/driver", kind=manifest.COMMAND, labels=frozenset({"root"})),
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
    ("tests/support/served.h", {"csi_test"}, {"host"}),
    ("tests/plugin/plugin_under_test.cc", set(), {"host"}),
    ("docs/cli.md", {"cli_test"}, {"docs"}), ("README.md", set(), {"docs"}), ("mkdocs.yml", set(), {"docs"}),
    ("tests/cli/golden.txt", {"cli_test"}, set()),
    ("cmake/Targets.cmake", set(), {"unit", "host", "journeys"}),
    ("scripts/dev/ci.py", set(), set()),
    ("scripts/image.py", set(), {"image"}), ("Dockerfile", set(), {"image"}),
    ("tests/e2e/bed.py", set(), {"journeys"}),
    ("tests/e2e/mover.py", set(), {"journeys", "s3"}),
    ("tests/e2e/images.py", set(), {"journeys", "s3"}),
    ("tests/e2e/build.py", {"sanity"}, {"journeys", "s3"}),
    ("deploy/crds.yaml", set(), {"unit", "s3", "journeys"}),
])
def test_a_path_touches(select, path, programs, tiers):
    selection = select(path)
    assert set(selection.programs) == programs
    assert selection.tiers == tiers | {"checks", "scripts"}


def test_a_test_file_is_its_own(select):
    assert select("tests/e2e/test_walk.py").paths == {"e2e": ["tests/e2e/test_walk.py"]}
    assert select("tests/scripts/test_x.py").paths == {"scripts": ["tests/scripts/test_x.py"]}
    assert select("tests/e2e/test_gone.py").tiers == {"checks", "scripts", "journeys"}  # It was deleted.


def test_the_host_s_own_files_run_the_host_tier_once(select):
    assert select("tests/pluginmanager/run.py").host == ""
    both = select("tests/pluginmanager/run.py", "src/csi/turn.h")
    assert both.host is None and "host" in both.tiers


@pytest.fixture(name="bed")
def fixture_bed(tmp_path, monkeypatch, select):
    del select
    monkeypatch.setattr(changed, "_bed_file", lambda: tmp_path / "cache" / "bed-tests")
    monkeypatch.setattr(changed, "base", lambda: ("0123456789abcdef", "origin/main"))
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


@pytest.mark.parametrize("there,name", [(["origin/main", "main"], "origin/main"), (["main"], "main"), ([], "HEAD")])
def test_the_base_of_a_comparison_has_a_name(monkeypatch, there, name):
    def output(command, quiet=False):
        del quiet
        if command[1] == "merge-base" and command[-1] not in there:
            raise console.Failure("no such commit")
        return "abc\n"
    monkeypatch.setattr(console, "output", output)
    assert changed.base() == ("abc", name)


def test_without_an_origin_nothing_is_not_an_answer(monkeypatch, capsys):
    monkeypatch.setattr(changed, "base", lambda: ("abc", "main"))
    monkeypatch.setattr(changed, "files", lambda since: [])
    with pytest.raises(console.Failure, match="no origin to compare with, and nothing differs from main"):
        ci.test_changed()
    monkeypatch.setattr(changed, "files", lambda since: ["LICENSE"])
    monkeypatch.setattr(manifest, "read", lambda: {})
    monkeypatch.setattr(ci, "_test_selection", lambda verb, selection: selection.tiers == {"checks", "scripts"})
    assert ci.test_changed()
    assert "there is no origin" in capsys.readouterr().out
