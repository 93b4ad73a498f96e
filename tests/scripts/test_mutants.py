"""The mutant runner's own check result: the copy of the tree it works in, the changes that it makes up."""

import console
import mutants
import mutate
import pytest
from conftest import write

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
    assert found == {(1, "off by one", "10'000 -> 10001"), (2, "returns early", "{ -> Fits(int a) { return {};"), (3, "negated",
        f"{BOTH} -> !({BOTH})"), (3, "and/or", f'{BOTH} -> (a < 3) || (!Empty("a < b; }}"))'), (3, "comparison",
        "a < 3 -> (a) <= (3)"), (3, "off by one", "3 -> 4"), (5, "dropped", 'Count("@é"); ->'), (6, "flipped", "true -> false"), (8,
        "comparison", "a == kMost -> (a) != (kMost)"), (10, "returns early", "{ -> Store(int a) { return {};"), (11, "dropped",
        "RETURN_IF_ERROR(Check(a)); ->"), (17, "status is OK", 'return absl::InternalError("no"); -> return absl::OkStatus();')}


def test_a_source_with_mutants_differs_in_their_places_alone():
    found = mutate.find("a.cc", SOURCE.encode())
    chosen = [one for one in found if one.lines[0] in (1, 5, 17) or ": negated: " in one.key]
    text = mutate.apply(SOURCE.encode(), list(enumerate(chosen, 1))).decode().removeprefix(mutate.PRELUDE)
    old, new = SOURCE.splitlines(), text.splitlines()
    assert len(old) == len(new) and [line.strip() for line, before in zip(new,
        old) if line != before] == ["const int kMost = (::CsiDeltaMutant(1) ? (10001) : (10'000));",
        f"if (::CsiDeltaMutant(2) != static_cast<bool>({BOTH})) {{", 'if (!::CsiDeltaMutant(3)) { Count("@é"); }',
        '{ if (::CsiDeltaMutant(4)) { return absl::OkStatus(); } return absl::InternalError("no"); }']


def test_changed_lines(monkeypatch):
    monkeypatch.setattr(console, "output", lambda command: "+++ b/src/a.cc\n@@ -1,2 +3,2 @@ x\n-a\n+b\n@@ -9 +8 @@\n"
                                                           "+++ b/src/b.cc\n@@ -1,3 +0,0 @@\n")
    assert mutants.changed_lines("main") == {("src/a.cc", 3), ("src/a.cc", 4), ("src/a.cc", 8)}


TINY = """constexpr int kSize = 2;
int noticed;
bool IsSmall(int a) {
  noticed = a;
  while (a < 0) { ++a; }
  int fixed[kSize] = {};
  return a < fixed[0] + 3;
}
"""
TREE = {"src/tiny/tiny.cc": TINY,
    "tests/main.cpp": "bool IsSmall(int); int main() { return IsSmall(2) && IsSmall(-1) && !IsSmall(3) ? 0 : 1; }\n"}
NINJA = """rule program
  command = clang++-14 -std=c++20 -o $out $in
build bin/tiny_test: program ../../src/tiny/tiny.cc ../../tests/main.cpp
build tiny_test: phony bin/tiny_test
"""


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The scratch copy of a small tree, and this tree."""
    mutate.parser()  # From the cache of the machine.
    monkeypatch.setattr(mutants, "ROOT", tmp_path / "tree")
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path / "cache")
    write(tmp_path / "tree", TREE)
    return mutants.Scratch()


def test_refresh_undoes_a_change_and_keeps_the_build(scratch):
    tree = scratch.refresh()
    source, other, build = (scratch.root / name for name in ("src/tiny/tiny.cc", "tests/main.cpp", "build/a.o"))
    untouched = other.stat().st_mtime_ns
    build.parent.mkdir()
    build.write_text("object")
    source.write_text("int broken;\n")
    assert scratch.refresh() == tree and source.read_text() == TINY
    (mutants.ROOT / "src/tiny/tiny.cc").rename(mutants.ROOT / "src/tiny/moved.cc")
    assert scratch.refresh() != tree and not source.exists()
    assert other.stat().st_mtime_ns == untouched and build.exists()
    with pytest.raises(console.Failure, match="another ./dev mutants is running"):
        mutants.Scratch()


def test_batches_are_judged(scratch, monkeypatch, capsys):
    """With a compiler and a program: what dies, survives, hangs, and does not compile."""
    tree = scratch.refresh()
    scratch.build.mkdir(parents=True)
    (scratch.build / "build.ninja").write_text(NINJA)
    monkeypatch.setattr(mutants, "GRACE_SECONDS", 1)
    monkeypatch.setattr(mutants, "BATCH", 5)
    run = mutants.Generated(scratch, 5, tree, 10)
    candidates = run.candidates("tiny")
    while batch := run.batch(candidates):
        spans = sorted((one.edits[0][0], one.edits[-1][1]) for one in batch)
        assert all(before[1] < after[0] for before, after in zip(spans, spans[1:]))
        assert run.judge("tiny", ["tiny_test"], candidates)
    assert sorted(run.judged) == sorted(one.key for one in candidates)
    verdicts = {(int(key.split(":")[1]), key.split(": ", 1)[1]): verdict for key, verdict in run.judged.items()}
    assert verdicts[7, "comparison: a < fixed[0] + 3 -> (a) <= (fixed[0] + 3)"] == mutants.KILLED
    assert verdicts[5, "dropped: ++a; ->"] == mutants.KILLED  # Hangs.
    assert verdicts[4, "dropped: noticed = a; ->"] == mutants.SURVIVED
    assert verdicts[1, "off by one: 2 -> 3"] == mutants.INVALID  # The size of an array is no call.
    assert (scratch.root / "src/tiny/tiny.cc").read_text() == TINY
    again, other = mutants.Generated(scratch, 5, tree, 10), mutants.Generated(scratch, 6, tree, 10)
    assert again.judged == run.judged and not again.judge("tiny", ["tiny_test"], candidates)
    assert other.judged == mutants.Generated(scratch, 5, "another tree", 10).judged == {}
    assert again.candidates("tiny") == candidates != other.candidates("tiny")
    assert other.candidates("tiny", {("src/tiny/tiny.cc", 4)})[0].lines[0] == 4
    run.report()
    printed = capsys.readouterr().out.split("survived: ", 1)[1]
    assert "dropped: noticed = a; ->" in printed and printed.endswith(" mutants killed\n")
