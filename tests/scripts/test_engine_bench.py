"""The arithmetic of the benches: which other tools go on, what a verdict says, how extents are drawn, what tables show."""

import json
import types

import engine_images
import engine_lab
import engine_run
import engine_table
import engine_world
import pytest


def tool(name, family):
    return types.SimpleNamespace(name=name, family=family)


def sample(seconds):
    return engine_lab.Sample(seconds, 0, 0, 0, "")


def test_only_the_fastest_of_each_family_go_on():
    speeds = {"ours": 1, "old": 10, "new": 10.5, "slow": 20, "shown": 3}
    tools = [tool("ours", "ours"), tool("old", "restic"), tool("new", "restic"), tool("slow", "restic"), tool("shown", "kopia")]
    outcome = engine_world.duel(types.SimpleNamespace(runs=3), tools, lambda one: sample(speeds[one.name]), once=("kopia",))
    counts = {name: len(samples) for name, samples in outcome.samples.items()}
    assert counts == {"ours": 3, "old": 3, "new": 3, "slow": 1, "shown": 1}
    assert engine_world.fastest(outcome, tools, ("restic", "kopia")).name == "shown"


def test_a_ratio_below_its_promise_is_missed_and_limits_of_the_rows_are_kept():
    outcome = engine_world.Outcome({"ours": [sample(2)] * 3, "theirs": [sample(5), sample(4), sample(9)]})
    engine_world.judge(outcome, tool("ours", "ours"), tool("theirs", "restic"), 3)
    engine_world.judge(outcome, tool("ours", "ours"), tool("theirs", "restic"), 2.5)
    assert [verdict.held for verdict in outcome.verdicts] == [False, True]
    assert outcome.verdicts[0].text().endswith("2.50x (must >= 3x) MISSED")
    assert engine_world.Verdict("requests", 20, 20, at_most=True).held
    assert not engine_world.Verdict("requests", 21, 20, at_most=True).held
    assert engine_world.Verdict("shown", 21, None).held


def test_a_row_that_fails_or_misses_is_named_and_rows_of_the_same_kind_of_run_stay(tmp_path, monkeypatch):
    def held(_):
        return engine_world.joined({"full": engine_world.Outcome({"csi-delta": [sample(2)]}, [engine_world.Verdict("ratio", 1, 2)])})

    def failing(_):
        raise engine_lab.BenchError("no")
    monkeypatch.setattr(engine_run, "ROOT", tmp_path)
    rows = {"held": held, "failing": failing}
    missed = engine_run.run_rows(rows, None, ["held", "failing"], engine_run.Record("x", {"size": 1}))
    assert missed == ["held: full: ratio: 1.00x (must >= 2x) MISSED", "failing: failed"]
    record = engine_run.Record("x", {"size": 1})
    record.keep_row("other", {})
    kept = json.loads((tmp_path / "build/bench/x.json").read_text())["rows"]
    assert list(kept) == ["held", "other"] and list(kept["held"]["samples"]) == ["full: csi-delta"]
    assert not engine_run.Record("x", {"size": 2}).document["rows"]


def test_the_page_gets_the_medians_of_the_fastest_of_each_family_and_nothing_that_was_not_measured(tmp_path):
    def runs(*seconds):
        return [{"seconds": one, "peak_bytes": int(one) << 20} for one in seconds]
    row = {"load": 0.5, "samples": {"csi-delta": runs(1, 3, 2), "restic 0.14": runs(9), "restic 0.18 --x": runs(8, 4, 6), "kopia": runs(30)}}
    check = {"load": 2, "samples": {"csi-delta": runs(1), "restic 0.14": runs(2)}}
    full = {**row, "stored_bytes": {"csi-delta": 1 << 20, "restic 0.14": 2 << 20, "kopia": 3 << 20}}
    record = {"run": {"machine": "a machine", "versions": ["a", "b"], "size_mib": 4096, "runs": 3},
              "rows": {name: {"full-random": full, "check": check}.get(name, row) for name in engine_table.ROWS}}
    text = engine_table.table(record)
    assert "| full backup | 2.00 s (1.00 to 3.00) | 6.00 s (4.00 to 8.00) | 30.00 s (one run) |\n" in text
    assert "| check of all data | 1.00 s (one run) | 2.00 s (one run) | not measured |\n" in text
    assert "| memory, at most (VmHWM) | 3 MiB | 8 MiB | 30 MiB |\n" in text and "| 1 MiB | 2 MiB | 3 MiB |\n" in text
    assert "full backup: `restic 0.18 --x`" in text and "load after a row 0.5 to 2.0" in text
    del record["rows"]["rescan"]
    with pytest.raises(ValueError, match="not measured yet: ./dev bench engine --row rescan$"):
        engine_table.table(record)
    assert engine_table.MARKS.search(engine_table.PAGE.read_text())


def test_extents_are_drawn_the_same_every_time_and_change_the_image_only_for_a_while(tmp_path):
    size_bytes = 64 * engine_images.CHUNK_BYTES
    extents = engine_images.uniform_pages(size_bytes, 0.01, 1)
    assert extents == engine_images.uniform_pages(size_bytes, 0.01, 1)
    assert sum(length for _, length in extents) == round(size_bytes / 4096 * 0.01) * 4096
    assert engine_images.touched_chunks([(0, 1), (1, 1), (engine_images.CHUNK_BYTES, 1)]) == 2
    image = tmp_path / "image"
    image.write_bytes(bytes(size_bytes))
    with engine_images.Changed(image, extents, 2):
        assert any(image.read_bytes())
    assert not any(image.read_bytes())
