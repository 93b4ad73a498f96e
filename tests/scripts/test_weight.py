"""What the tree weighs, and that no folder outgrows its budget."""

import check_layers
import pytest
import weight

HEADER = """#pragma once
// struct InAComment {
struct Pair {
  enum class Kind { kOne };
  int first() { return 1; }
};
class Declared;
"""
SOURCE = """#include "csi/pair.h"
void Keep(Json& content) {
  CSIDELTA_CHECK(content.ok());
  SetDeletionPolicy(content);
}
"""


@pytest.fixture(name="root")
def _root(tmp_path):
    (tmp_path / "src" / "csi" / "expose").mkdir(parents=True)
    (tmp_path / "src" / "csi" / "pair.h").write_text(HEADER)
    (tmp_path / "src" / "csi" / "pair.cc").write_text(SOURCE)
    (tmp_path / "src" / "csi" / "expose" / "long.cc").write_text("\n" * weight.SMALL_MODULE_LINES)
    (tmp_path / "src" / "objects").mkdir()
    (tmp_path / "src" / "objects" / "patch.h").write_text("void SetDeletionPolicy();\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text("1\n2\n")
    (tmp_path / "tests" / "picture.png").write_bytes(b"\0\n")
    return tmp_path


def test_lines_are_counted_by_folder(root):
    weighed = weight.weigh(root)
    assert weighed.lines == {"csi": 12, "csi/expose": weight.SMALL_MODULE_LINES, "objects": 1}
    assert weighed.test_lines == 2
    assert weighed.types == 2
    assert weighed.small_modules == ("csi/pair", "objects/patch")
    assert sorted(weighed.function_lines) == [1, 4]
    assert weighed.checks == 1
    assert weighed.policy_files == ("csi/pair.cc",)


@pytest.mark.parametrize("budget,faults", [(72, 0), (71, 1)])
def test_a_folder_with_its_subfolders_keeps_its_budget(root, monkeypatch, budget, faults):
    monkeypatch.setitem(check_layers.LINES_MAX, "csi", budget)
    found = list(check_layers.budget_faults(weight.weigh(root)))
    assert len(found) == faults
    assert all("src/csi: 72 lines, its budget is 71" in fault for fault in found)


def test_tests_and_folders_without_a_budget_are_counted_too(root, monkeypatch):
    (root / "src" / "new").mkdir()
    (root / "src" / "new" / "a.h").write_text("\n")
    monkeypatch.setattr(check_layers, "TEST_LINES_MAX", 1)
    assert {fault.split(":")[0] for fault in check_layers.budget_faults(weight.weigh(root))} == {"src/new", "tests"}
    assert check_layers.main([str(root)]) == 1
