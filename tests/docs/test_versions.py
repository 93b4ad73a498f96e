"""./dev versions: what tiers reported becomes "tested" on docs/compatibility.md, and nothing else does."""

import json
import re
import subprocess

import pytest
import scenarios
import versions
from console import ROOT, Failure

SNAPSHOT, HOST = "tests/e2e/test_round_trip.py::test_policy_snapshot", "host::{}/host/backup restore and delete"
PAGE = ("# Page\n\n| Velero | 1.12.4 | 1.13.1 | 1.18.3 |\n|---|---|---|---|\n"
        f"| A <!-- {SNAPSHOT} --> | read in source[^a] | unknown | unknown |\n"
        f"| B <!-- {HOST} --> | no | unknown | unknown |\n| C | no | no | no |\n\n| Kubernetes | 1.37.2 |\n|---|---|\n"
        f"| D <!-- {SNAPSHOT} --> | unknown |\n\n| Other | x |\n| E <!-- {SNAPSHOT} --> | **tested** |\n")
MADE = PAGE.replace("unknown | unknown", "unknown | **tested**", 1).replace("unknown | unknown", "**tested** | unknown").replace(
    "--> | unknown", "--> | **tested**")
OLD, BED = "tests/e2e/test_old_velero.py::test_snapshot_to_delete", "Kubernetes 1.37.2, external-snapshotter 8.7.0"
GO_MOD = ("require (\n\tgithub.com/vmware-tanzu/velero v1.18.3\n\tk8s.io/kubernetes v1.37.2\n\tk8s.io/other v9.9.9\n"
          "\tgithub.com/kubernetes-csi/external-snapshotter/v8 v8.7.0\n)\nreplace k8s.io/kubernetes => ./x v7.7.7\n")
PASSED = {SNAPSHOT: "passed", OLD: "passed", "tests/e2e/test_x.py::test_y": "failed", "a_test::A.B": "passed"}


@pytest.fixture(name="leave")
def fixture_leave(tmp_path, monkeypatch):
    """A function that leaves the report of a part of --all, at a commit of a checkout that pins three projects."""
    write(tmp_path, {"docs/compatibility.md": PAGE, "docs/tested.txt": versions.HEAD, "tests/e2e/modules/cluster/go.mod": GO_MOD,
                     "tests/e2e/modules/velero113/go.mod": "require github.com/vmware-tanzu/velero v1.13.1\n"})
    for name, value in (("PAGE", tmp_path / "docs/compatibility.md"), ("RECORD", tmp_path / "docs/tested.txt"), ("ROOT", tmp_path)):
        monkeypatch.setattr(versions, name, value)
    monkeypatch.setattr(versions.report, "folder", lambda: tmp_path / "build")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        _git(*words)
    commit = _git("rev-parse", "HEAD")

    def leave(tests, number=1, passed=True, of="{}"):
        told = {"part": f"{number}/4", "commit": of.format(commit), "passed": passed, "tests": tests}
        write(tmp_path, {f"build/all/{number}.json": json.dumps(told), "other": "not for the commit"})
        return commit
    return leave


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _git(*words):
    return subprocess.run(["git", "-C", versions.ROOT, *words], check=True, text=True, capture_output=True).stdout.strip()


def test_what_passed_becomes_tested_and_is_forgotten_with_its_pin(leave, capsys):
    commit = leave(PASSED)
    leave({HOST.replace("{}", "1.13.1"): "passed", HOST.replace("{}", "1.18.3"): "skipped"}, 4)
    versions.record()
    assert versions.RECORD.read_text() == versions.HEAD + (
        f"host 4/4 | Velero 1.13.1 | {commit} | 1 | {HOST.replace('{}', '1.13.1')}\n"
        f"scenarios 1/4 | Velero 1.13.1, {BED} | {commit} | 1 | \n"
        f"scenarios 1/4 | Velero 1.18.3, {BED} | {commit} | 1 | {SNAPSHOT}\n")
    assert versions.PAGE.read_text() == MADE and _git("show", "--name-only", "--format=%s").splitlines() == [
        "docs: record the versions that tiers passed with", "", "docs/compatibility.md", "docs/tested.txt"]
    versions.check()
    versions.record()
    assert "nothing was reported since" in capsys.readouterr().out
    write(versions.ROOT, {"tests/e2e/modules/cluster/go.mod": GO_MOD.replace("1.18.3", "1.18.4")})
    with pytest.raises(Failure, match="Velero has no column 1.18.4, which is pinned"):
        versions.check()
    versions.record()  # The pins of the report are those of its commit.
    assert "Velero 1.18" not in versions.RECORD.read_text() and versions.PAGE.read_text().count("**tested**") == 2


@pytest.mark.parametrize("how", [{"passed": False}, {"of": "{}+"}, {"of": "0" * 40}])
def test_a_part_that_failed_or_is_of_no_commit_of_this_history_proves_nothing(leave, how):
    leave(PASSED, **how)
    versions.record()
    assert versions.RECORD.read_text() == versions.HEAD
    versions.PAGE.write_text(MADE)
    with pytest.raises(Failure, match="`tested` is not what docs/tested.txt has"):
        versions.check()


def test_pinned_served_and_passed_are_printed(leave, monkeypatch, capsys):
    passed = f"scenarios 1/4 at {leave(PASSED)[:8]}"
    lists = {"github.com/vmware-tanzu/velero": "v1.13.1 v1.13.2 v1.18.10 v1.18.9 v1.20.0-rc.1", "k8s.io/kubernetes": "v1.37.2"}
    monkeypatch.setattr(versions.console, "execute", lambda command, **_: (
        int(command[-1] not in lists), [f"{command[-1]} {lists.get(command[-1], '')}"]))
    versions.show()
    assert [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["Velero", "1.18.3", "1.18.10", "1.18.10", passed], ["Velero", "1.13.1", "1.13.2", "1.18.10", passed],
        ["Kubernetes", "1.37.2", "1.37.2", "1.37.2", f"{passed}, {passed}"],
        ["external-snapshotter", "8.7.0", "unknown", "unknown", f"{passed}, {passed}"]]


def test_pins_are_those_of_the_tiers_and_the_page_names_tests_and_notes_that_exist():
    pinned, page, host = versions.pins(), versions.PAGE.read_text(), (ROOT / "tests/pluginmanager/run.py").read_text()
    newest, *_, oldest = pinned["Velero"]
    assert all(pinned.values()) and sorted(re.findall(r'Release\("\d+", "v([\d.]+)"', host)) == sorted(pinned["Velero"])
    assert f'{{"{newest}": "velero118", "{oldest}": "velero113"}}' in (ROOT / "tests/e2e/bed.py").read_text()
    cases = "".join((ROOT / "tests" / name).read_text() for name in ("host/cases.py", "pluginmanager/harness/product.go"))
    names = {name for row in versions._rows(page) for name in row[3]}
    texts = {name: name.split("/")[-1].replace(" v1 ", " {_version} ") for name in names if not name.startswith("tests/")}
    assert [name for name in names if name not in texts and not scenarios.is_declared(name)] == []
    assert [text for text in texts.values() if text not in cases and text.replace(" ", "_") not in cases] == []
    notes = re.findall(r"read in source(\[\^\w+\])?", page.partition("\n## ")[2])  # A cell without one gives "".
    assert set(notes) == set(re.findall(r"^(\[\^\w+\]):", page, re.M))
    versions.check()


def test_the_page_of_drivers_has_those_that_are_known_to_fill_before_they_bind():
    known = re.search(r"kFilledWhenBound = \{\{(.*?)^\}\};", (ROOT / "src/csi/population.cc").read_text(), re.M | re.S)[1]
    page = (ROOT / "docs/csi-drivers.md").read_text().partition("## Bound is not filled")[2].partition("\n## ")[0]
    rows = "".join(line for line in page.splitlines() if "| the PVC is bound" in line)
    assert sorted(re.findall(r"`([\w.-]+)`", rows)) == sorted(re.findall(r'^    \{"([\w.]+)"', known, re.M))
