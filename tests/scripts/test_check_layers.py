"""Includes only point down, and no folder outgrows its budget; what the tree weighs is counted."""

import check_layers
import pytest

ROOT = check_layers.pathlib.Path(check_layers.__file__).resolve().parents[1]


def tree(tmp_path, path, line):
    source = tmp_path / "src" / path
    source.parent.mkdir(parents=True)
    source.write_text(f"#pragma once\n{line}\n")
    message = tmp_path / "proto" / "velero" / "PluginLister.proto"
    message.parent.mkdir(parents=True)
    message.write_text("")
    return tmp_path


@pytest.mark.parametrize("path,line", [
    ("csi/a.cc", '#include "k8s/api_client.h"'),
    ("csi/a.cc", '#include "csi/b.h"'),
    ("csi/a.cc", "#include <string>"),
    ("csi/a.cc", '#include "absl/status/status.h"'),
    ("cmd/a.cc", '#include "plugin/server.h"'),
    ("datamover/a.cc", '#include "inplace/in_place_volume.h"'),
    ("cmd/a.cc", '#include "cli/repository/backup.h"'),
    ("datamover/controller/a.cc", '#include "datamover/worker/b.h"'),
    ("datamover/worker/a.cc", '#include "datamover/settings.h"'),
    ("csi/a.cc", '#include "csi/group/group_lifecycle.h"'),
    ("base/json.h", "#include <nlohmann/json.hpp>"),
    ("net/a.cc", "#include <boost/asio.hpp>"),
    ("net/a.cc", "#include <openssl/ssl.h>"),
    ("base/crypto.cc", "#include <openssl/evp.h>"),
    ("plugin/lister.h", '#include "PluginLister.grpc.pb.h"'),
    ("incremental/sources/csi_metadata_source.cc", "#include <grpcpp/grpcpp.h>"),
])
def test_allowed(tmp_path, path, line):
    assert check_layers.check(tree(tmp_path, path, line)) == ([], 1)


@pytest.mark.parametrize("path,line,words", [
    ("k8s/a.h", '#include "csi/environment.h"', "k8s may not include csi"),
    ("k8s/a.h", '  #  include "csi/environment.h"', "k8s may not include csi"),
    ("velero/a.h", '#include "net/http_client.h"', "velero may not include net"),
    ("datamover/a.cc", '#include "inplace/mover_restore.h"', "datamover may not include inplace"),
    ("plugin/a.cc", '#include "snapshots/promotion.h"', "plugin may not include snapshots"),
    ("backupitemactions/a.cc", '#include "snapshots/promotion.h"', "backupitemactions may not include snapshots"),
    ("datamover/worker/a.cc", '#include "datamover/controller/b.h"', "datamover/worker may not include"),
    ("datamover/a.cc", '#include "datamover/worker/b.h"', "datamover/ may not include"),
    ("cli/snapshot/a.cc", '#include "cli/mover/b.h"', "cli/snapshot may not include"),
    ("csi/attic/a.cc", '#include "csi/drop.h"', "csi/attic is not in the table"),
    ("net/a.h", '#include "velero/labels.h"', "net may not include velero"),
    ("base/a.h", '#include "velero/labels.h"', "base may not include velero"),
    ("plugin/a.cc", '#include "backupitemactions/actions.h"', "plugin may not include backupitemactions"),
    ("backupitemactions/a.cc", '#include "restoreitemactions/actions.h"', "may not include"),
    ("backupitemactions/a.cc", '#include "plugin/server.h"', "may not include plugin"),
    ("csi/a.cc", '#include "cmd/a.h"', "csi may not include cmd"),
    ("csi/a.cc", '#include "PluginLister.pb.h"', "may not include messages of proto/velero"),
    ("csi/a.cc", '#include "proto/velero/PluginLister.pb.h"', "may not include messages of proto/velero"),
    ("csi/a.cc", "#include <nlohmann/json.hpp>", "has its home in base/json.h"),
    ("base/crypto.cc", "#include <openssl/ssl.h>", "has its home in net"),
    ("k8s/a.cc", "#include <boost/asio.hpp>", "has its home in net"),
    ("backupitemactions/a.cc", "#include <yaml-cpp/yaml.h>", "has its home in base/yaml.cc"),
    ("attic/a.cc", "#include <string>", "not in the table"),
])
def test_not_allowed(tmp_path, path, line, words):
    faults, _ = check_layers.check(tree(tmp_path, path, line))
    assert len(faults) == 1
    assert faults[0].startswith(f"src/{path}:2: ")
    assert words in faults[0]


def test_the_table_itself_points_down():
    order = list(check_layers.ALLOWED)
    for folder, allowed in check_layers.ALLOWED.items():
        if folder not in ("cli", "cmd"):
            assert all(order.index(below.split("/")[0]) < order.index(folder) for below in allowed), folder


@pytest.mark.parametrize("line", ['#include "base/json.h"', "void Read(const Json& object);",
                                  "return pvc.json();", "return pvc->json().size();", "Print(ToJson(pvc));"])
def test_no_file_above_objects_sees_bare_json(tmp_path, line):
    root = tree(tmp_path, "csi/a.h", "#include <string>")
    assert check_layers.check(root)[0] == []
    (root / "src" / "csi" / "b.h").write_text(f"// Json, which a comment may name.\n{line}\n")
    assert check_layers.check(root)[0] == ["src/csi/b.h: sees bare JSON: give what it reads a type in objects/"]


def test_a_comment_and_a_longer_name_see_none(tmp_path):
    assert check_layers.check(tree(tmp_path, "csi/a.h", "PrintJson(x);  // Json"))[0] == []


def test_an_empty_tree_is_not_a_pass(tmp_path):
    assert check_layers.main([str(tmp_path)]) == 1


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
    (tmp_path / "src" / "csi" / "expose" / "long.cc").write_text("\n" * check_layers.SMALL_MODULE_LINES)
    (tmp_path / "src" / "objects").mkdir()
    (tmp_path / "src" / "objects" / "patch.h").write_text("void SetDeletionPolicy();\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text("1\n2\n")
    (tmp_path / "tests" / "picture.png").write_bytes(b"\0\n")
    return tmp_path


def test_lines_are_counted_by_folder(root):
    weighed = check_layers.Weight(root)
    assert weighed.lines == {"csi": 12 + check_layers.SMALL_MODULE_LINES, "objects": 1}
    assert weighed.test_lines == 2
    assert weighed.types == 2
    assert weighed.small_modules == ["csi/pair", "objects/patch"]
    assert sorted(weighed.function_lines) == [1, 4]
    assert weighed.checks == 1
    assert weighed.policy_files == ["csi/pair.cc"]


@pytest.mark.parametrize("budget,faults", [(72, 0), (71, 1)])
def test_a_folder_with_its_subfolders_keeps_its_budget(root, monkeypatch, budget, faults):
    monkeypatch.setitem(check_layers.LINES_MAX, "csi", budget)
    found = check_layers.Weight(root).faults()
    assert len(found) == faults
    assert all("src/csi: 72 lines, its budget is 71" in fault for fault in found)


def test_tests_and_folders_without_a_budget_are_counted_too(root, monkeypatch):
    (root / "src" / "new").mkdir()
    (root / "src" / "new" / "a.h").write_text("\n")
    monkeypatch.setattr(check_layers, "TEST_LINES_MAX", 1)
    assert {fault.split(":")[0] for fault in check_layers.Weight(root).faults()} == {"src/new", "tests"}
    assert check_layers.main([str(root)]) == 1
