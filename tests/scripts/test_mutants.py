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
    mutate.parser()  # From the cache of the machine.
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


SOURCE = """constexpr int kMost = 10'000;
bool Fits(int a) {  // (no bracket
  if (a < 3 && !Empty("a < b; }")) {
    CSIDELTA_LOG(kInfo, "one", {"n", 5});
    Count("@é");
    return true;
  }
  return a == kMost;
}
absl::Status Store(int a) {
  RETURN_IF_ERROR(Check(a));
  ASSIGN_OR_RETURN(
      const std::map<int, T> all,
      List(a));
  ASSIGN_OR_RETURN(kept_, Keep(all));
  const auto keep = [&]() ABSL_GUARDED_BY(mutex_) -> absl::StatusOr<int> { return absl::InternalError("no"); };
  return absl::InternalError("no");
}
"""
BOTH = 'a < 3 && !Empty("a < b; }")'


def test_mutations_of_a_line():
    found = {(one.lines[0], *one.key.split(": ", 2)[1:]) for one in mutate.find("a.cc", SOURCE.encode())}
    assert found == {
        (1, "off by one", "10'000 -> 10001"), (2, "returns early", "{ -> Fits(int a) { return {};"),
        (3, "negated", f"{BOTH} -> !({BOTH})"), (3, "and/or", f'{BOTH} -> (a < 3) || (!Empty("a < b; }}"))'),
        (3, "comparison", "a < 3 -> (a) <= (3)"), (3, "off by one", "3 -> 4"), (5, "dropped", 'Count("@é"); ->'),
        (6, "flipped", "true -> false"), (8, "comparison", "a == kMost -> (a) != (kMost)"),
        (10, "returns early", "{ -> Store(int a) { return {};"), (11, "dropped", "RETURN_IF_ERROR(Check(a)); ->"),
        (17, "status is OK", 'return absl::InternalError("no"); -> return absl::OkStatus();'),
    }


def test_a_source_with_mutants_differs_in_their_places_alone():
    found = mutate.find("a.cc", SOURCE.encode())
    chosen = [one for one in found if one.lines[0] in (1, 5, 17) or ": negated: " in one.key]
    text = mutate.apply(SOURCE.encode(), list(enumerate(chosen, 1))).decode().removeprefix(mutate.PRELUDE)
    old, new = SOURCE.splitlines(), text.splitlines()
    assert len(old) == len(new) and [line.strip() for line, before in zip(new, old) if line != before] == [
        "const int kMost = (::CsiDeltaMutant(1) ? (10001) : (10'000));",
        f"if (::CsiDeltaMutant(2) != static_cast<bool>({BOTH})) {{",
        'if (!::CsiDeltaMutant(3)) { Count("@é"); }',
        '{ if (::CsiDeltaMutant(4)) { return absl::OkStatus(); } return absl::InternalError("no"); }']


def test_a_batch_overlaps_nowhere(tmp_path, monkeypatch):
    folder = tmp_path / "src" / "a"
    folder.mkdir(parents=True)
    (folder / "a.cc").write_text(SOURCE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    judged, seen = {}, []
    while batch := mutants.Folder("a", [], 7, set()).batch(judged, 4):
        spans = sorted((one.edits[0][0], one.edits[-1][1]) for one in batch)
        assert all(before[1] < after[0] for before, after in zip(spans, spans[1:]))
        seen += [one.key for one in batch]
        judged = dict.fromkeys(seen)
    assert sorted(seen) == sorted(one.key for one in mutate.find("src/a/a.cc", SOURCE.encode()))
    first = mutants.Folder("a", [], 7, {("src/a/a.cc", 17)}).batch({}, 1)
    assert [one.lines[0] for one in first] == [17]


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
    assert verdicts[15, "dropped: values.push_back(2); ->"] == mutants.KILLED  # Hangs.
    assert verdicts[13, "dropped: values.shrink_to_fit(); ->"] == mutants.SURVIVED
    assert verdicts[9, "off by one: 2 -> 3"] == mutants.INVALID  # The size of an array is no call.
    assert (scratch.root / "src/tiny/tiny.cc").read_text() == TINY
    again = mutants.Generated(scratch, 5, 10)
    again.resume("tree")
    assert again.judged == run.judged and not again.judge(folder)
    other = mutants.Generated(scratch, 5, 10)
    other.resume("another tree")
    assert other.judged == {}
    assert run.report()[-1].endswith("mutants killed, in 1 folders")
