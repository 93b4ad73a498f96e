"""The entries of ctest, of all test programs and of cmake/Runs.cmake: what they need is made, and each is in a run."""

import json
import re

import console
import pytest
import runs
import scenarios
import selection
from conftest import ROOT

# CMake's own commands that make programs do nothing here.
PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(all NONE)
enable_testing()
foreach(name add_executable target_include_directories target_compile_options target_link_libraries add_dependencies
        csidelta_precompile)
  cmake_language(EVAL CODE "function(${{name}})\\nendfunction()")
endforeach()
set(PROJECT_SOURCE_DIR "{ROOT}")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY /bin)
include("{ROOT}/cmake/Entries.cmake")
include("{ROOT}/cmake/Targets.cmake")
"""
_CALLS = re.compile(r"^ *csidelta_(?:tests|entry)\([^()]*\)", re.MULTILINE)
_NOT_HERE = re.compile(r"HELPERS( [\w.]+)+|\$<TARGET_FILE:[^>]*>")
_PROMISES = re.compile("(import|from) promises")
E2E = sorted((ROOT / "tests/e2e").glob("test_*.py"))


def _entries(folder, build_type):
    text, is_release = PROJECT, build_type == "Release"
    for listing in sorted((ROOT / "tests").glob("*/CMakeLists.txt")):
        calls = [_NOT_HERE.sub("", call) for call in _CALLS.findall(listing.read_text())]
        calls = [call for call in calls if "${ARG_" not in call and (is_release or "csidelta_entry" not in call)]
        text += "\n".join([f'set(CMAKE_CURRENT_SOURCE_DIR "{listing.parent}")', *calls, ""])
    (folder / "CMakeLists.txt").write_text(text + (f'include("{ROOT}/cmake/Runs.cmake")\n' if is_release else ""))
    console.output(["cmake", "-S", folder, "-B", folder / "asan", f"-DCMAKE_BUILD_TYPE={build_type}"])
    told = json.loads(console.output(["ctest", "--test-dir", folder / "asan", "--show-only=json-v1"]))
    return {one["name"]: {"command": one["command"]} | {each["name"]: each["value"] for each in one["properties"]}
            for one in told["tests"]}


@pytest.fixture(name="every", scope="module")
def fixture_every(tmp_path_factory):
    """What ctest knows of each entry, by name."""
    return _entries(tmp_path_factory.mktemp("all"), "Release")


def _labelled(entries, pattern):
    return {name for name, one in entries.items() if any(re.fullmatch(pattern, label) for label in one["LABELS"])}


def test_what_an_entry_waits_for_is_there_and_a_tree_has_one_build_at_a_time(every):
    made = {fixture for one in every.values() for fixture in one.get("FIXTURES_SETUP", ())}
    for name, one in every.items():
        assert set(one.get("FIXTURES_REQUIRED", ())) <= made and set(one.get("DEPENDS", ())) <= set(every), name
        assert one.get("RESOURCE_LOCK") or f"{ROOT}/scripts/dev/build.py" not in one["command"], name
        # ctest leaves entry.py the time to tidy up.
        assert float(one["command"][one["command"].index("--seconds") + 1]) < one["TIMEOUT"] - 100, name


def test_each_entry_is_in_a_run_and_all_has_what_test_has(every):
    assert set(every) - _labelled(every, "in-(test|ci|sweep|sweep-all|interop|all-[1-4])|tier:build") == {"e2e"}
    parts = [_labelled(every, f"in-all-{number}") for number in range(1, runs.PARTS + 1)]
    assert all(parts) and sum(map(len, parts)) == len(set.union(*parts))
    plain = {name.split(".")[0] for name in set.union(*parts)}
    assert {name.split(".")[0] for name in _labelled(every, "in-test")} - plain == {"journeys", "journeys-moves"}
    quick = _labelled(every, "tier:(unit|unit-quiet|restic|checks|scripts)")
    polite = {name for name, one in every.items() if one["command"][one["command"].index("--nice") + 1] == "19"}
    for part in parts:  # Scenarios come after what a lack of processors disturbs, and beside what takes what they leave.
        lanes = [set(every[name]["DEPENDS"]) for name in part if re.match(r"scenarios-(moves-)?\d", name)]
        busy = {name for name in part if not name.startswith("scenarios")} - polite - quick
        assert len(lanes) == 2 and all(busy <= after for after in lanes)


def test_each_file_of_scenarios_is_in_one_part_and_alone_if_it_promises_seconds(every):
    parts = []
    for file in E2E:
        promises = bool(_PROMISES.search(file.read_text()))
        mine = {name: every[name] for name in sorted(_labelled(every, "tier:scenarios")) if str(file) in every[name]["command"]}
        marks = ["scenarios-quiet: not long"] if promises else [
            "scenarios-moves: moves and not long", "scenarios: not moves and not long"]
        assert sorted(f"{name[:-2]}: {one['command'][-1]}" for name, one in mine.items()) == marks, file.name
        parts += {name[-1] for name in mine}
        assert {one.get("RUN_SERIAL", False) for one in mine.values()} == {promises}
        assert {"CSI_DELTA_QUIET=1" in one["ENVIRONMENT"] for one in mine.values()} == {promises}
        assert promises or "check_canceled(" not in file.read_text()  # Of moving.py, the one helper that promises some.
    assert len(parts) == len(E2E) and all(abs(parts.count(number) - len(E2E) / 4) < 1 for number in "1234")
    helpers = [path.name for path in (ROOT / "tests/e2e").glob("*.py") if path not in E2E and _PROMISES.search(path.read_text())]
    tells = {word for one in every.values() for word in one["command"] if "::test" in word}
    assert sorted(helpers) == ["conftest.py", "moving.py"]
    assert [scenarios.is_declared(one.removeprefix(f"{ROOT}/")) for one in tells] == [True]


def test_names_that_the_scripts_know_are_entries(every):
    builds = {"build-programs", "build-unit-tests", "build-root-tests", "build-real-tests", "go-bed", "go-old-velero"}
    known = {*selection.PYTEST_ENTRIES.values(), *sum(selection.WHOLE.values(), ()), *selection.HOST_ALL, "storm_test.sweep"}
    assert known | builds <= set(every) and all(_labelled(every, f"tier:{tier}") for tier in selection.TIERS)


def test_unit_tests_that_promise_seconds_are_found_and_run_alone(every):
    sources = [path for path in (ROOT / "tests").rglob("*") if path.suffix in (".cc", ".h") and path.name != "await.h"]
    promising = {str(path) for path in sources if re.search("AssertsSeconds|CSI_DELTA_QUIET", path.read_text())}
    quiet = [every[name] for name in _labelled(every, "tier:unit-quiet")]
    assert len(promising) >= 4 and promising == {path for one in quiet for path in one["REQUIRED_FILES"]}
    assert all(one["RUN_SERIAL"] and one["ENVIRONMENT"] == ["CSI_DELTA_QUIET=1"] for one in quiet)
    assert all(selection.tests_with(path, "support::AssertsSeconds(") for path in promising)


def test_a_sanitizer_runs_each_unit_test_once(every, tmp_path):
    sanitized = _entries(tmp_path, "Debug")
    assert _labelled(sanitized, "tier:asan") == set(sanitized) and _labelled(sanitized, "unit") == _labelled(every, "tier:unit")
    assert _labelled(sanitized, "threads") and not [name for name in sanitized if re.search(r"\.(sweep|quiet|later)", name)]


def test_a_test_judges_what_was_just_built():
    targets, seen = (ROOT / "cmake/Targets.cmake").read_text(), set()
    shipped = r"foreach\(label root restic real\)[^\n]*\n\s*add_dependencies\(csidelta_\${label}_tests velero\S+ csi-delta\)"
    assert re.search(shipped, targets)  # By the tiers that run what is shipped.
    for listing in sorted((ROOT / "tests").glob("*/CMakeLists.txt")):
        for name, words in re.findall(r"csidelta_tests\(NAME (\w+)([^()]*)", text := listing.read_text()):
            sources = " ".join((listing.parent / word).read_text() for word in words.split() if word.endswith(".cc"))
            run = set(re.findall(r'(?:\bBuiltProgram\("|build/release/bin/)([\w-]+)', sources))
            assert run <= set(" ".join(re.findall(rf"add_dependencies\({name} ([^)]*)\)", text)).split()), name
            seen |= run
    assert {"velero-plugin-for-csi-delta", "csi-delta"} < seen
