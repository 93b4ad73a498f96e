"""What a filter finds, without anything being built."""

import fnmatch
import json
import re

import console
import filters
import manifest
import pytest
import tiers
from scenarios import Scenario

ENTRIES = [
    {"name": "csi_test", "folder": "tests/csi", "sources": ["tests/csi/turn_test.cc", "tests/csi/life_test.cc"], "sweeps": [],
     "labels": ["unit"], "command": ["/b/csi_test"], "kind": "gtest", "shards": 2, "timeout_seconds": 60},
    {"name": "contract_test", "folder": "tests/contract", "sources": ["tests/contract/store_contract_test.cc"], "sweeps": [],
     "labels": ["unit"], "command": ["/b/contract_test"], "kind": "gtest", "shards": 1, "timeout_seconds": 60},
    {"name": "csi_sanity", "folder": "tests/csi_driver", "sources": [], "sweeps": [], "labels": ["real"],
     "command": ["python3", "x"], "kind": "command", "shards": 1, "timeout_seconds": 600},
]
SOURCES = {
    "tests/csi/turn_test.cc": "TEST(VolumeLeaseTest, WaitsForTheOther) {}\n  TEST_F(VolumeLeaseTest, Ends) {}\n",
    "tests/csi/life_test.cc": "TEST_P(LifeTest, IsLong) {}\nINSTANTIATE_TEST_SUITE_P(All, LifeTest, Values(1));\n",
    "tests/contract/store_contract_test.cc": "INSTANTIATE_TEST_SUITE_P(Fake, StoreContract, Values(1));\n",
    "tests/e2e/test_walk.py": "def test_walk(bed):\n    pass\n\n\ndef test_other(bed):\n    pass\n",
    "tests/scripts/test_seeds.py": "def test_seed():\n    pass\n",
}
PROMISES = [Scenario("4c", "text", "csi_test::VolumeLeaseTest.Ends"), Scenario("1", "text", "tests/e2e/test_walk.py::test_walk")]
TURN = manifest.gtest_patterns("VolumeLeaseTest.Ends")


@pytest.fixture(name="select")
def fixture_select(tmp_path, monkeypatch):
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(manifest, "ROOT", tmp_path)
    manifest.tests_of_source.cache_clear()
    programs = manifest.parse(json.dumps(ENTRIES))
    yield lambda text: filters.select(text, programs, tmp_path, PROMISES)
    manifest.tests_of_source.cache_clear()


@pytest.mark.parametrize("text,programs", [
    ("csi_test::VolumeLeaseTest.Ends", {"csi_test": TURN}),
    ("VolumeLeaseTest.Ends", {"csi_test": TURN}),
    ("volume_lease_test::VolumeLeaseTest.Ends", {"csi_test": TURN}),  # As an older version printed it.
    ("4c", {"csi_test": TURN}),
    ("csi_test", {"csi_test": []}),
    ("tests/csi", {"csi_test": []}),
    ("csi_sanity", {"csi_sanity": []}),
    ("turn_test.cc", {"csi_test": manifest.gtest_patterns("VolumeLeaseTest")}),
    ("tests/csi/turn_test.cc", {"csi_test": manifest.gtest_patterns("VolumeLeaseTest")}),
    ("store_contract", {"contract_test": manifest.gtest_patterns("StoreContract")}),
    ("VolumeLeaseTest", {"csi_test": manifest.gtest_patterns("VolumeLeaseTest")}),
    ("waitsforthe", {"csi_test": manifest.gtest_patterns("VolumeLeaseTest.WaitsForTheOther")}),
    ("csi_test::All/LifeTest.IsLong/0", {"csi_test": ["All/LifeTest.IsLong/0", "All/LifeTest.IsLong/0/*"]}),
    ("All/LifeTest.IsLong/0", {"csi_test": ["All/LifeTest.IsLong/0", "All/LifeTest.IsLong/0/*"]}),
    ("Fake/StoreContract.Lists/0", {"contract_test": ["Fake/StoreContract.Lists/0", "Fake/StoreContract.Lists/0/*"]}),
])
def test_programs_and_their_tests(select, text, programs):
    selection = select(text)
    assert selection.programs == programs
    assert not selection.paths and not selection.tiers


@pytest.mark.parametrize("text,paths", [
    ("tests/e2e/test_walk.py::test_walk[a-b]", {"e2e": ["tests/e2e/test_walk.py::test_walk[a-b]"]}),
    ("1", {"e2e": ["tests/e2e/test_walk.py::test_walk"]}),
    ("tests/e2e/test_walk.py", {"e2e": ["tests/e2e/test_walk.py"]}),
    ("test_seeds.py", {"scripts": ["tests/scripts/test_seeds.py"]}),
    ("test_other", {"e2e": ["tests/e2e/test_walk.py::test_other"]}),
])
def test_python_tests(select, text, paths):
    selection = select(text)
    assert selection.paths == paths and not selection.programs


def test_tiers_and_the_host_s_tests(select):
    assert select("host").tiers == {"host"}
    assert select("checks::fmt").tiers == {"checks"} and not filters.wants_programs("checks::fmt")
    assert select("pluginmanager::1.18.1/product/plain/lists").host == "pluginmanager::1.18.1/product/plain/lists"


@pytest.mark.parametrize("text,verb", [("rustic::reads", "interop"), ("checks::clang-tidy tests", "lint ^tests/")])
def test_a_test_of_another_verb_names_that_verb(select, text, verb):
    with pytest.raises(console.Failure, match=re.escape(f"./dev {verb} runs {text}")):
        select(text)


def test_a_typing_error_is_answered_by_what_is_near(select):
    with pytest.raises(console.Failure, match="VolumeLeaseTest.Ends"):
        select("VolumeLeaseTest.Endz")


@pytest.mark.parametrize("name,matches", [
    ("S.C", ["S.C", "S.C/0", "N/S.C/0", "S/1.C", "N/S/1.C"]), ("N/S.C/7", ["N/S.C/7"]), ("S", ["S.C", "N/S.C/0"]),
])
def test_patterns_meet_tests_with_and_without_parameters(name, matches):

    patterns = manifest.gtest_patterns(name)
    assert all(any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns) for test in matches)
    assert not any(fnmatch.fnmatchcase("Other.C", pattern) for pattern in patterns)


@pytest.mark.parametrize("name,want", [
    ("", {"pluginmanager": "--version=118 --version=113", "host": "--version=118 --version=113"}),
    ("host::1.16.2/host/backup.fails", {"host": "--version=116 --filter backup.fails"}),
    ("pluginmanager::1.14.0/product/plain/lists", {"pluginmanager": "--version=114"}),
])
def test_the_host_s_runners_are_asked_for_no_more_than_the_test(name, want):
    programs = ("--scripted", "--fake-cluster")
    assert {prefix: " ".join(word for word in map(str, command[2:]) if "/" not in word and word not in programs)
            for prefix, command in tiers.host_commands(("118", "113"), name)} == want
