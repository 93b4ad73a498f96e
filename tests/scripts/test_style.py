"""Style rules: what style.py must find, and what it must leave alone."""

import subprocess

import pytest
import style
from conftest import write
from console import ROOT


@pytest.fixture
def project(tmp_path):
    """A function that makes files in a fresh repository and returns the complaints about them."""
    def check(**files):
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        return style.check(write(tmp_path, files))[0]
    return check


@pytest.mark.parametrize("name,text,words", [
    ("README.md", "a word\nTODO: more\n", "README.md:2: "), ("scripts/a.sh", "# FIXME\n", "do it now"),
    ("docs/a.md", "see /home/ann/docs\n", "path of one machine"),
    ("src/k8s/a.cc", "void F() { std::this_thread::sleep_for(x); }\n", "condition with a deadline"),
    ("tests/k8s/helper.cc", "void F() { absl::SleepFor(x); }\n", "condition with a deadline"),
    ("src/k8s/a.cc", "auto t = absl::Now();\n", "time is a parameter"),
    ("src/k8s/a.cc", "auto t = std::chrono::steady_clock::now();\n", "time is a parameter"),
    ("src/k8s/a.cc", "std::random_device device;\n", "chance is a parameter"),
    ("src/k8s/a.cc", 'void F() { printf("x"); }\n', "stdout belongs"),
    ("src/k8s/a.cc", "void F() { t.detach(); }\n", "owner that joins"),
    ("src/k8s/a.cc", "std::mutex mutex;\n", "base/mutex.h"), ("src/k8s/a.cc", "void F() { throw 1; }\n", "absl::Status"),
    ("src/csi/a.cc", '#include "base/json.h"\n', "type in objects/"),
    ("src/csi/a.cc", "void Read(const Json& object);\n", "type in objects/"),
    ("src/csi/a.cc", "int F() { return pvc->json().size(); }\n", "type in objects/"),
    ("src/csi/a.cc", "int x = Print(ToJson(pvc));\n", "type in objects/"),
    ("src/csi/a.cc", 'void F() { content.SetDeletionPolicy("Delete"); }\n', "csi/drop.h"),
    ("tests/k8s/helper.cc", "void F() { GTEST_SKIP(); }\n", "prints why"), ("src/k8s/a.h", "int x;\n", "#pragma once"),
    ("src/k8s/a.cc", "void F() {\n  if (x) return;\n}\n", "src/k8s/a.cc:2: `if (x)`: what it controls stands in braces"),
    ("src/k8s/a.cc", "class A::B : public C {\n  int F() {\n" + "    G();\n" * 4 + "  }\n" + "  int x;\n" * 120 + "};\n",
     "src/k8s/a.cc:1: class B of 128 lines"),
    ("src/k8s/a.cc", "void F() {\n  if (G(1, (H())))\n    H();\n}\n", "stands in braces"),
    ("src/k8s/a.cc", "void F() {\n  for (;;) G();\n}\n", "stands in braces"),
    ("src/k8s/a.cc", "void F() {\n  while (G()) H();\n}\n", "stands in braces"),
    ("src/k8s/a.cc", "void F() {\n  if (x) {\n  } else G();\n}\n", "stands in braces"),
    ("src/k8s/a.cc", "int F() {\n" + "  G();\n" * 70 + "}\n", "src/k8s/a.cc:1: function of 72 lines"),
    ("scripts/a.py", "def f():\n" + "    g()\n" * 71, "scripts/a.py:1: function of 72 lines"),
    ("scripts/a.py", "class A:\n    def f(self):\n" + "        g()\n" * 71, "scripts/a.py:2: function of 72 lines"),
    ("tests/k8s/a_test.cc", "int x;\n", "no line of tests/k8s/CMakeLists.txt builds it"),
    ("tests/fuzz/a_fuzz.cc", "int x;\n", "no line of tests/fuzz/CMakeLists.txt builds it"),
    ("tests/k8s/test_a.py", "x = 1\n", "nothing runs it"),
    ("docs/a.md", "It needs Kubernetes 1.33.\n", "docs/a.md:1: `needs Kubernetes 1.3`: link to docs/compat"),
    ("docs/a.md", "You need:\n\n- Velero 1.12 or newer\n", "compatibility"), ("docs/a.md", "1.18.3 are tested\n", "compatibility"),
    ("SECURITY.md", "requires\nVelero ≥ 1.14\n", "compatibility"), ("docs/a.md", "The tests run 1.13.1\n", "compatibility"),
    ("README.md", "one\nhas patience\n", "README.md:2: `patience`: say grace period, timeout; retry")])
def test_found(project, name, text, words):
    faults = project(**{name: text})
    assert len(faults) == 1, faults
    assert words in faults[0]


@pytest.mark.parametrize("name,text", [
    ("src/k8s/a.cc", "// throw, printf( and sleep_for in a comment\n"),
    ("src/k8s/a.cc", 'const char* kText = "throw printf( if (x) return;";\n'),
    ("src/k8s/a.cc", 'const char* kText = R"(if (x) return; throw)";\n'),
    ("src/k8s/a.cc", "#define A(x)   \\\n  if (x) return x\n"),
    ("src/k8s/a.cc", "void F() {\n  if constexpr (x) {\n  } else if (y) {\n  } else {\n  }\n}\n"),
    ("src/k8s/a.cc", "void F() {\n  do {\n  } while (x);\n}\n"),
    ("src/k8s/a.cc", "namespace a {\n" + "int x;\n" * 100 + "}\n"),
    ("src/k8s/a.cc", "class A {\n" + "  int x() { return 1; }\n" * 100 + "};\n"),
    ("src/k8s/a.cc", "const int kTable[] = {\n" + "    1,\n" * 100 + "};\n"),
    ("src/k8s/a.cc", "char F() { return '{'; }\nint64_t x = 1'000'000;\n"),
    ("src/base/clock.cc", "auto t = absl::Now();\n"),
    ("src/csi/a.cc", "// Json, which a comment may name.\nint x = PrintJson(x);\n"),
    ("tests/k8s/helper.cc", 'void F() { GTEST_SKIP() << "no ipv6"; }\n'), ("tests/scripts/test_a.py", "x = 1\n"),
    ("docs/a.md", "From Velero 1.14 on, with Kubernetes 1.36 and later.\n\nWith `velero` 1.18, v1.13.1 ends it. Seen on 1.18.1."),
    ("docs/compatibility.md", "It needs Kubernetes 1.33.\n"),
    ("docs/a.md", "It turns on the room and is judged by who wakes, follows or moves it."),
    ("src/k8s/a.cc", "// What may stand in a header line.\n"), ("docs/a.md", "there is no volume snapshot"),
    ("docs/cluster-objects.md", "`mover.csi-delta.io/handing-over-at`"), ("proto/csi/csi.proto", "nobody")])
def test_left_alone(project, name, text):
    assert project(**{name: text}) == []


def test_a_test_that_is_built_is_alive(project):
    listing = "csidelta_tests(NAME a_test SOURCES a_test.cc)\n"
    assert project(**{"tests/k8s/a_test.cc": "int x;\n", "tests/k8s/CMakeLists.txt": listing}) == []


@pytest.mark.parametrize("text,phrase", [
    ("// Whoever holds it writes.\n", "whoever"), ("nobody reads it", "nobody"), ("a snapshot of ours", "of ours"),
    ("it is not ours", "not ours"), ("it waits in vain", "in vain"), ("bytes behind the volume", "behind the volume"),
    ("the run begins anew", "anew"), ("until it comes to its end", "comes to its end"),
    ("the driver lets go of it", "lets go"), ("the snapshot is cut", "snapshot is cut"),
    ("the group is handed over", "handed over"), ("The lists that lie are refused.", "lists that lie"),
    ("class VolumeTurn {", "volume turn"), ("TEST(A, WhatNobodyWroteStays) {", "nobody"),
    ("bool let_go = false;", "let go"), ("// Waits in\n// vain.\n", "in vain"),
    ('Print("waits in "\n      "vain");\n', "in vain"), ("# in\n# vain\n", "in vain")])
def test_a_phrase_is_found_in_prose_in_identifiers_and_across_a_line_break(text, phrase):
    assert [line.split("`")[:2] for line in style.rule_faults("src/a.txt", text)] == [["src/a.txt:1: ", phrase]]


def test_phrases_are_few_and_what_is_left_out_exists():
    assert len(style.PHRASES) <= 12
    names = [str(path) for path in style.project_files(ROOT)]
    left_out = (*style.NOT_OUR_WORDS, *style.QUOTE_THE_RULES)
    assert [place for place in left_out if not any(name.startswith(place) for name in names)] == []
