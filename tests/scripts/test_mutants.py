"""The mutant runner's own check result: the copy of the tree it works in, the changes that it makes up."""

import console
import mutants
import mutate
import pytest


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A scratch copy of a small tree; git and the build are not needed for it."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.cc").write_text("int a;\n")
    monkeypatch.setattr(mutants, "ROOT", source)
    monkeypatch.setattr(mutants.lint, "our_files", lambda *_: [path for path in source.rglob("*") if path.is_file()])
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    copy = mutants.Scratch()
    copy.root.mkdir(parents=True)
    copy.refresh()
    return copy


def test_refresh_undoes_a_change_and_keeps_the_build(scratch):
    untouched = (scratch.root / "a.cc").stat().st_mtime_ns
    (scratch.root / "build").mkdir()
    (scratch.root / "build" / "a.o").write_text("object")
    (scratch.root / "new.cc").write_text("a run made it\n")
    scratch.refresh()
    assert (scratch.root / "a.cc").stat().st_mtime_ns == untouched
    assert (scratch.root / "build" / "a.o").exists()
    assert not (scratch.root / "new.cc").exists()
    (scratch.root / "a.cc").write_text("int broken;\n")
    scratch.refresh()
    assert (scratch.root / "a.cc").read_text() == "int a;\n"


SOURCE = """#include <x>
constexpr int kMost = 10'000;

bool Fits(int a) {
  // a comment; with (brackets
  if (a < 3 && !Empty("a < b; }")) {
    CSIDELTA_LOG(kInfo, "one", {"n", 5});
    Count(a);
    return true;
  }
  return a == kMost;
}

absl::Status Store(int a) {
  RETURN_IF_ERROR(Check(a));
  return absl::InternalError("no");
}
"""


def _candidates(text=SOURCE):
    return mutate.Finder("src/a/a.cc", text).find()


def test_mutations_of_a_line():
    found = {(one.line, one.operator, one.new) for one in _candidates()}
    assert found == {
        (2, "off by one", "10001"), (4, "returns early", "Fits() { return {};"),
        (6, "negated", '!(a < 3 && !Empty("a < b; }"))'), (6, "comparison", 'a <= 3 && !Empty("a < b; }")'),
        (6, "and/or", 'a < 3 || !Empty("a < b; }")'), (6, "off by one", "4"), (8, "dropped", ""),
        (9, "flipped", "false"), (11, "comparison", "a != kMost"), (14, "returns early", "Store() { return {};"),
        (15, "dropped", ""), (16, "status is OK", "return absl::OkStatus();"),
    }


def test_a_source_with_mutants_differs_in_their_places_alone():
    chosen = [one for one in _candidates() if one.line in (2, 6, 8) and one.operator in ("negated", "dropped", "off by one")]
    chosen = [one for one in chosen if one.new != "4"]
    text = mutate.apply(SOURCE, list(enumerate(chosen, 1)))
    assert text.startswith(mutate.PRELUDE) and text.count("\n") == (mutate.PRELUDE + SOURCE).count("\n")
    changed = [line for line in text.removeprefix(mutate.PRELUDE).splitlines() if line not in SOURCE.splitlines()]
    numbers = {one.operator: number for number, one in enumerate(chosen, 1)}
    assert changed == [
        f"const int kMost = (::CsiDeltaMutant({numbers['off by one']}) ? 10001 : 10'000);",
        f"  if (::CsiDeltaMutant({numbers['negated']}) != static_cast<bool>(a < 3 && !Empty(\"a < b; }}\"))) {{",
        f"    if (!::CsiDeltaMutant({numbers['dropped']})) {{ Count(a); }}",
    ]


def test_the_text_of_a_source_stays_as_it_is():
    text = 'void A() {\n  Count("@");\n}\n'
    one, = (one for one in _candidates(text) if one.operator == "dropped")
    assert 'if (!::CsiDeltaMutant(7)) { Count("@"); }' in mutate.apply(text, [(7, one)])


def test_a_mask_keeps_every_place():
    for path in sorted((console.ROOT / "src" / "base").glob("*.cc")):
        text = path.read_text()
        masked = mutate.mask(text)
        assert len(masked) == len(text) and masked.count("\n") == text.count("\n")
        assert sum(masked.count(one) for one in "([{") == sum(masked.count(one) for one in ")]}")


def test_a_batch_overlaps_nowhere(tmp_path, monkeypatch):
    folder = tmp_path / "src" / "a"
    folder.mkdir(parents=True)
    (folder / "a.cc").write_text(SOURCE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    judged, seen = {}, []
    while batch := mutants.Folder("a", [], 7, set()).batch(judged, 4):
        spans = sorted(one.span for one in batch)
        assert all(before[1] < after[0] for before, after in zip(spans, spans[1:]))
        seen += map(mutants.key, batch)
        judged = dict.fromkeys(seen)
    assert sorted(seen) == sorted(map(mutants.key, _candidates()))
    first = mutants.Folder("a", [], 7, {("src/a/a.cc", 16)}).batch({}, 1)
    assert [one.line for one in first] == [16]


def test_changed_lines(monkeypatch):
    monkeypatch.setattr(console, "output", lambda command: "+++ b/src/a.cc\n@@ -1,2 +3,2 @@ x\n-a\n+b\n@@ -9 +8 @@\n"
                                                           "+++ b/src/b.cc\n@@ -1,3 +0,0 @@\n")
    assert mutants.changed_lines("main") == {("src/a.cc", 3), ("src/a.cc", 4), ("src/a.cc", 8)}


TINY = """#include <vector>
namespace tiny {
bool IsSmall(int a) {
  if (a < 3) {
    return true;
  }
  return false;
}
constexpr int kSize = 2;
int Count() {
  std::vector<int> values;
  values.push_back(1);
  values.shrink_to_fit();
  while (values.size() < 2) {
    values.push_back(2);
  }
  int fixed[kSize] = {};
  return fixed[0] + 2;
}
}  // namespace tiny
"""
TINY_TEST = """namespace tiny { bool IsSmall(int); int Count(); }
int main() { return tiny::IsSmall(2) && !tiny::IsSmall(3) && tiny::Count() == 2 ? 0 : 1; }
"""
NINJA = """rule program
  command = clang++-14 -std=c++20 -o $out $in
build tiny_test: program ../../src/tiny/tiny.cc ../../src/tiny/main.cpp
"""


def test_a_batch_is_judged(scratch, tmp_path, monkeypatch):
    """With a compiler and a program: what dies, survives, hangs, and does not compile."""
    build = scratch.root / "build" / mutants.PRESET
    for path, text in {"src/tiny/tiny.cc": TINY, "src/tiny/main.cpp": TINY_TEST}.items():
        for root in (tmp_path / "source", scratch.root):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
    build.mkdir(parents=True)
    (build / "build.ninja").write_text(NINJA)
    monkeypatch.setattr(mutants, "GRACE_SECONDS", 1)
    run = mutants.Generated(scratch, 5, 10)
    run.resume("tree")
    folder = mutants.Folder("tiny", [{"name": "tiny_test", "command": [str(build / "tiny_test")]}], 5, set())
    while run.judge(folder):
        pass
    verdicts = {}
    for key, (_, verdict) in run.judged.items():
        place, what = key.split(": ", 1)
        verdicts[int(place.split(":")[1]), what] = verdict
    assert verdicts[4, "negated: a < 3 -> !(a < 3)"] == verdicts[5, "flipped: true -> false"] == mutants.KILLED
    assert verdicts[15, "dropped: values.push_back(2); -> "] == mutants.KILLED  # Hangs.
    assert verdicts[13, "dropped: values.shrink_to_fit(); -> "] == mutants.SURVIVED
    assert verdicts[9, "off by one: 2 -> 3"] == mutants.INVALID  # The size of an array is no call.
    assert (scratch.root / "src/tiny/tiny.cc").read_text() == TINY
    again = mutants.Generated(scratch, 5, 10)
    again.resume("tree")
    assert again.judged == run.judged and not again.judge(folder)
    other = mutants.Generated(scratch, 5, 10)
    other.resume("another tree")
    assert other.judged == {}
    assert run.report()[-1].endswith("mutants killed, in 1 folders")
