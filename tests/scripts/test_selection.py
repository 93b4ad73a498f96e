"""What a filter finds, and what a change can touch, without anything being built."""

import contextlib
import fnmatch
import re

import console
import pytest
import runs
import selection
from conftest import write
from scenarios import Scenario
from selection import Program, gtest_patterns

SOURCES = {
    "src/base/clock.h": "", "src/base/clock.cc": '#include "base/clock.h"\n', "src/velero/labels.h": "", "src/alone/unused.h": "",
    "src/csi/turn.h": '#include "base/clock.h"\n', "src/csi/turn.cc": '#include "csi/turn.h"\n', "src/storage/s3.h": "",
    "src/cmd/main.cc": '#include "csi/turn.h"\n#include "storage/s3.h"\n', "tests/csi/helper.h": "", "tests/support/served.h": "",
    "tests/support/fake.h": '#include "velero/labels.h"\n', "tests/csi/served_test.cc": '#include "tests/support/served.h"\n',
    "tests/host/fake_cluster.cc": '#include "tests/support/served.h"\n', "tests/base/clock_test.cc": '#include "base/clock.h"\n',
    "tests/csi/turn_test.cc": '#include "csi/turn.h"\nTEST(LeaseTest, WaitsForTheOther) {}\n  TEST_F(LeaseTest, Ends) {}\n',
    "tests/csi/life_test.cc": '#include "tests/csi/helper.h"\n#include "tests/support/fake.h"\nTEST_P(LifeTest, IsLong) {}\n'
                              "INSTANTIATE_TEST_SUITE_P(All, LifeTest, Values(1));\n",
    "tests/contract/store_contract_test.cc": "INSTANTIATE_TEST_SUITE_P(Fake, StoreContract, Values(1));\n",
    "tests/restic/read_test.cc": 'BuiltProgram("csi-delta")\n', "tests/cli/CMakeLists.txt": "docs/cli.md",
    "tests/chart/test_chart.py": "import mover  # noqa\n", "tests/s3/gateway.py": 'E2E / "build.py"\n', "tests/e2e/bed.py": "",
    "tests/e2e/mover.py": "from images import x\n", "tests/e2e/images.py": "", "tests/e2e/build.py": "",
    "tests/e2e/test_walk.py": "def test_walk(bed):\n    pass\n\n\ndef test_other(bed):\n    pass\n",
    "tests/cli/help_test.cc": "", "tests/csi_driver/sanity.py": "import build\n",
    "tests/scripts/test_seeds.py": "def test_seed():\n    pass\n"}


def _program(name, tier, entries, folder, *sources):
    return Program(name, tier, folder, tuple(f"{folder}/{source}.cc" for source in sources), entries.split())


PROGRAMS = {program.name: program for program in (_program("csi_test", "unit", "csi_test.1of2 csi_test.2of2", "tests/csi",
    "turn_test", "life_test", "served_test"), _program("contract_test", "unit", "contract_test", "tests/contract",
    "store_contract_test"), _program("base_test", "unit", "base_test", "tests/base", "clock_test"), _program("cli_test", "unit",
    "cli_test", "tests/cli", "help_test"), _program("csi_sanity", "root", "csi_sanity", "tests/csi_driver"), _program("restic_test",
    "restic", "restic_test.later.1of2 restic_test.later.2of2", "tests/restic", "read_test"))}
PROMISES = [Scenario("4c", "text", "csi_test::LeaseTest.Ends"), Scenario("1", "text", "tests/e2e/test_walk.py::test_walk")]
CSI, WALK, ENDS = "csi_test.1of2", "tests/e2e/test_walk.py", gtest_patterns("LeaseTest.Ends")
QUICK = {"fmt", "layers", "style", "versions", "shellcheck", "scripts"}
LONG, LISTS = (["All/LifeTest.IsLong/0", "All/LifeTest.IsLong/0/*"], ["Fake/StoreContract.Lists/0", "Fake/StoreContract.Lists/0/*"])


@pytest.fixture(name="root")
def fixture_root(tmp_path, monkeypatch):
    monkeypatch.setattr(selection, "ROOT", write(tmp_path, SOURCES))
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    selection.tests_of_source.cache_clear()
    yield tmp_path
    selection.tests_of_source.cache_clear()


@pytest.mark.parametrize("entries,choice,texts", [
    (CSI, ENDS, "csi_test::LeaseTest.Ends LeaseTest.Ends lease_test::LeaseTest.Ends 4c"), ("contract_test", LISTS, LISTS[0]),
    (CSI, gtest_patterns("LeaseTest"), "LeaseTest turn_test.cc turn_test ./tests/csi/turn_test.cc"),
    (CSI, gtest_patterns("LeaseTest.WaitsForTheOther"), "waitsforthe"), (CSI, LONG, f"csi_test::{LONG[0]} {LONG[0]}"),
    ("contract_test", gtest_patterns("StoreContract"), "store_contract"),
    ("csi_test.1of2 csi_test.2of2", None, "csi_test tests/csi"), ("csi_sanity", None, "csi_sanity"),
    ("restic_test.later.1of2 restic_test.later.2of2", None, "restic"), ("s3", None, "s3"),
    ("e2e", [f"{WALK}::test_walk[a-b]"], f"{WALK}::test_walk[a-b]"), ("e2e", [f"{WALK}::test_walk"], "1"),
    ("e2e", [f"{WALK}::test_other"], "test_other"), ("e2e", [WALK], f"{WALK} test_walk.py"),
    ("journeys journeys-moves", None, "journeys"),
    ("host.all", ["--version=116", "--filter", "backup.fails"], "host::1.16.2/host/backup.fails"),
    ("pluginmanager host", None, "host"), ("pluginmanager.all", ["--version=114"], "pluginmanager::1.14.1/product/plain/lists"),
    ("fmt layers style versions shellcheck", None, "checks checks::fmt")])
def test_a_filter_is_what_a_failure_prints_or_a_part_of_it_and_builds_only_what_it_needs(root, entries, choice, texts):
    for text in texts.split():
        names, only = selection.select(text, PROGRAMS, root, PROMISES).entries(PROGRAMS)
        builds = {"build-unit-tests": [names[0].split(".")[0]]} if names[0] in (CSI, "contract_test") else {}
        words = [f"--gtest_filter={':'.join(choice)}"] if choice and builds else choice
        assert (" ".join(names), only) == (entries, {**({names[0]: words} if words else {}), **builds}), text


@pytest.mark.parametrize("text,words", [
    ("rustic::reads", "./dev interop runs rustic::reads"), ("fuzz::fuzz", "./dev fuzz all runs"),
    ("no_such", "no test matches no_such"), ("LeaseTest.Endz", "no test matches LeaseTest.Endz; near are LeaseTest.Ends")])
def test_what_is_not_there_is_answered_by_what_is_near_or_has_it(root, text, words):
    with pytest.raises(console.Failure, match=re.escape(words)):
        selection.select(text, PROGRAMS, root, PROMISES)


@pytest.mark.parametrize("name,matches", [
    ("S.C", ["S.C", "S.C/0", "N/S.C/0", "S/1.C", "N/S/1.C"]), ("N/S.C/7", ["N/S.C/7"]), ("S", ["S.C", "N/S.C/0"])])
def test_patterns_meet_tests_with_and_without_parameters(name, matches):
    names = [*matches, "Other.C"]
    assert [test for test in names if any(fnmatch.fnmatchcase(test, one) for one in gtest_patterns(name))] == matches


def test_a_helper_does_not_promise_seconds_for_a_test(root):
    (root / "a.cc").write_text('TEST(A, B) {\n}\n\nvoid Helper() {\n  Asserts("2 s");\n}\n')
    with pytest.raises(console.Failure, match="stands in no test itself"):
        selection.tests_with("a.cc", "Asserts(")


@pytest.mark.parametrize("programs,tiers,paths", [
    ("csi_test base_test restic_test", "host journeys", "src/base/clock.cc"),
    ("csi_test restic_test", "host journeys", "src/csi/turn.h"),
    ("csi_test", "", "src/velero/labels.h tests/support/fake.h tests/csi/helper.h"), ("base_test", "", "tests/base/clock_test.cc"),
    ("", "", "src/alone/unused.h LICENSE scripts/dev/runs.py"), ("restic_test", "host journeys s3 restic", "src/storage/s3.h"),
    ("csi_test", "host", "tests/support/served.h"), ("", "host", "tests/plugin/plugin_under_test.cc tests/pluginmanager/run.py"),
    ("cli_test", "docs", "docs/cli.md"), ("", "docs", "README.md mkdocs.yml"), ("cli_test", "", "tests/cli/golden.txt"),
    ("", "image", "Dockerfile scripts/image.py"),
    ("", "unit host journeys", "cmake/Targets.cmake tests/csi/CMakeLists.txt proto/x.proto"),
    ("", "unit s3 journeys", "deploy/crds.yaml"),
    ("", "journeys", "tests/e2e/bed.py tests/e2e/test_gone.py tests/support/csi_driver/x.cc"),
    ("", "journeys s3", "tests/e2e/mover.py tests/e2e/images.py"), ("csi_sanity", "journeys s3", "tests/e2e/build.py")])
def test_a_changed_path_touches_what_sees_it(root, programs, tiers, paths):
    for path in paths.split():
        found = selection.select_changed([path], PROGRAMS, root=root)
        assert (set(found.programs), found.tiers) == (set(programs.split()), {"checks", "scripts", *tiers.split()}), path
        assert QUICK <= set(names := found.entries(PROGRAMS)[0]) and len(set(names)) == len(names)


def test_a_changed_file_of_python_tests_is_its_own_unless_its_tier_runs_and_all_of_a_program_stays_all_of_it(root):
    found = selection.select_changed([WALK, "tests/scripts/test_seeds.py", "tests/s3/test_s3.py"], PROGRAMS, root=root)
    assert found.paths == {"e2e": [WALK], "scripts": ["tests/scripts/test_seeds.py"]} and "s3" in found.tiers
    for patterns in (ENDS, (), LONG):
        found.add_program("csi_test", patterns)
    names, only = found.entries(PROGRAMS)
    assert set(names) == {*QUICK, "e2e", "s3", *PROGRAMS["csi_test"].entries}
    assert only == {"e2e": [WALK], "build-unit-tests": ["csi_test"]}


def test_tests_of_the_bed_run_when_it_changed_since_they_passed_or_else_since_origin(root, monkeypatch):
    changed, digest = [], selection.bed_digest
    monkeypatch.setattr(selection, "base", lambda: ("0123456789abcdef", "origin/main"))
    monkeypatch.setattr(selection, "changed_files", lambda since: changed)
    monkeypatch.setattr(selection, "bed_digest", lambda: digest(root))
    assert selection.bed_changed()[0] is False
    changed += ["src/x.cc", WALK, "tests/e2e/bed.py"]
    assert selection.bed_changed() == (True, "tests/e2e/bed.py has changed since 0123456789ab")
    write(root, {"cache/bed-tests": selection.bed_digest()})
    assert selection.bed_changed() == (False, "what they judge is as it was when they last passed")
    write(root, {WALK: "# not of the bed\n"})
    assert selection.bed_changed()[0] is False
    write(root, {"tests/e2e/bed.py": "x = 1\n"})
    assert selection.bed_changed() == (True, "what they judge has changed since they last passed")


@pytest.mark.parametrize("there,name", [(["origin/main", "main"], "origin/main"), (["main"], "main"), ([], "HEAD")])
def test_a_change_is_told_from_where_it_began_and_without_an_origin_nothing_is_no_answer(monkeypatch, capsys, there, name):
    def output(command, quiet=False):
        if quiet and command[-1] not in there:
            raise console.Failure("no such commit")
        return "LICENSE\0" if command[1] == "diff" and changed else "" if command[1] in ("diff", "ls-files") else "abc\n"
    changed = [True]
    for module, attribute, value in ((console, "output", output), (selection, "programs", lambda: {}), (
            runs, "_test_selection", lambda verb, chosen, known: chosen.tiers == {"checks", "scripts"})):
        monkeypatch.setattr(module, attribute, value)
    assert selection.base() == ("abc", name) and runs.test_changed()
    assert ("there is no origin to compare with: this is what differs from" in capsys.readouterr().out) == (name != "origin/main")
    changed.clear()
    words = f"no origin to compare with, and nothing differs from {name}"
    with contextlib.nullcontext() if name == "origin/main" else pytest.raises(console.Failure, match=words):
        runs.test_changed()
