"""Includes only point down, and no folder outgrows its budget; what the tree weighs is counted."""

import check_layers
import pytest
from conftest import write


def tree(tmp_path, path, line):
    return write(tmp_path, {f"src/{path}": f"#pragma once\n{line}\n", "proto/velero/PluginLister.proto": ""})


@pytest.mark.parametrize("path,line", [
    ("csi/a.cc", '"k8s/api_client.h"'), ("csi/a.cc", '"csi/b.h"'), ("csi/a.cc", "<string>"), ("csi/a.cc", '"absl/status/status.h"'),
    ("cmd/a.cc", '"plugin/server.h"'), ("datamover/a.cc", '"inplace/in_place_volume.h"'), ("cmd/a.cc", '"cli/repository/backup.h"'),
    ("datamover/controller/a.cc", '"datamover/worker/b.h"'), ("datamover/worker/a.cc", '"datamover/settings.h"'),
    ("csi/a.cc", '"csi/group/group_lifecycle.h"'), ("base/json.h", "<nlohmann/json.hpp>"), ("net/a.cc", "<boost/asio.hpp>"),
    ("net/a.cc", "<openssl/ssl.h>"), ("base/crypto.cc", "<openssl/evp.h>"), ("plugin/lister.h", '"PluginLister.grpc.pb.h"'),
    ("incremental/sources/csi_metadata_source.cc", "<grpcpp/grpcpp.h>")])
def test_allowed(tmp_path, path, line):
    assert check_layers.check(tree(tmp_path, path, f"#include {line}")) == ([], 1)


@pytest.mark.parametrize("path,line,words", [
    ("k8s/a.h", '"csi/environment.h"', "k8s may not include csi"),
    ("velero/a.h", '"net/http_client.h"', "velero may not include net"),
    ("datamover/a.cc", '"inplace/mover_restore.h"', "datamover may not include inplace"),
    ("plugin/a.cc", '"snapshots/promotion.h"', "plugin may not include snapshots"),
    ("backupitemactions/a.cc", '"snapshots/promotion.h"', "backupitemactions may not include snapshots"),
    ("datamover/worker/a.cc", '"datamover/controller/b.h"', "datamover/worker may not include"),
    ("datamover/a.cc", '"datamover/worker/b.h"', "datamover/ may not include"),
    ("cli/snapshot/a.cc", '"cli/mover/b.h"', "cli/snapshot may not include"),
    ("csi/attic/a.cc", '"csi/drop.h"', "csi/attic is not in the table"),
    ("net/a.h", '"velero/labels.h"', "net may not include velero"),
    ("base/a.h", '"velero/labels.h"', "base may not include velero"),
    ("plugin/a.cc", '"backupitemactions/actions.h"', "plugin may not include backupitemactions"),
    ("backupitemactions/a.cc", '"restoreitemactions/actions.h"', "may not include"),
    ("backupitemactions/a.cc", '"plugin/server.h"', "may not include plugin"), ("csi/a.cc", '"cmd/a.h"', "csi may not include cmd"),
    ("csi/a.cc", '"PluginLister.pb.h"', "has its home in plugin"),
    ("csi/a.cc", '"proto/velero/PluginLister.pb.h"', "has its home in plugin"),
    ("csi/a.cc", "<nlohmann/json.hpp>", "has its home in base/json.h"),
    ("base/crypto.cc", "<openssl/ssl.h>", "has its home in net"), ("k8s/a.cc", "<boost/asio.hpp>", "has its home in net"),
    ("backupitemactions/a.cc", "<yaml-cpp/yaml.h>", "has its home in base/yaml.cc"),
    ("attic/a.cc", "<string>", "not in the table")])
def test_not_allowed(tmp_path, path, line, words):
    for spelled in ("#include ", "  #  include "):
        fault, = check_layers.check(tree(tmp_path, path, spelled + line))[0]
        assert fault.startswith(f"src/{path}:2: ") and words in fault


def test_the_table_itself_points_down_and_an_empty_tree_is_not_a_pass(tmp_path):
    assert check_layers.main([str(tmp_path)]) == 1
    order = list(check_layers.ALLOWED)
    for folder, allowed in check_layers.ALLOWED.items():
        if folder not in ("cli", "cmd"):
            assert all(order.index(below.split("/")[0]) < order.index(folder) for below in allowed), folder


HEADER = """#pragma once
// struct InAComment {
struct Pair {
  enum class Kind { kOne };
  int first() { return 1; }
};
class Declared;
"""
SOURCE = '#include "csi/pair.h"\nvoid Keep(Json& content) {\n  CSIDELTA_CHECK(content.ok());\n}\n'
LONG = "\n" * check_layers.SMALL_MODULE_LINES


@pytest.fixture(name="root")
def _root(tmp_path):
    return write(tmp_path, {"src/csi/pair.h": HEADER, "src/csi/pair.cc": SOURCE, "src/csi/expose/long.cc": LONG,
                            "src/objects/patch.h": "void Declared();\n", "tests/picture.png": "\0\n",
                            "tests/a.py": "1\n2\n"})


def test_lines_are_counted_by_folder(root):
    weighed = check_layers.Weight(root)
    assert weighed.lines == {"csi": 11 + check_layers.SMALL_MODULE_LINES, "objects": 1}
    assert (weighed.test_lines, weighed.types, weighed.checks, weighed.function_lines) == (2, 2, 1, [1, 3])
    assert weighed.small_modules == ["csi/pair", "objects/patch"]


def test_a_folder_with_its_subfolders_keeps_its_budget_and_one_without_is_told(root, monkeypatch):
    monkeypatch.setitem(check_layers.LINES_MAX, "csi", 71)
    assert check_layers.Weight(root).faults() == []
    monkeypatch.setitem(check_layers.LINES_MAX, "csi", 70)
    fault, = check_layers.Weight(root).faults()
    assert "src/csi: 71 lines, its budget is 70" in fault
    monkeypatch.setitem(check_layers.LINES_MAX, "csi", 71)
    monkeypatch.setattr(check_layers, "TEST_LINES_MAX", 1)
    write(root, {"src/new/a.h": "\n"})
    assert {fault.split(":")[0] for fault in check_layers.Weight(root).faults()} == {"src/new", "tests"}
    assert check_layers.main([str(root)]) == 1
