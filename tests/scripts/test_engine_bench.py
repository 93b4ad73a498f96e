"""The arithmetic of the engine's bench: which other tools go on, what a verdict says, how extents are drawn."""

import types

import engine_images
import engine_lab
import engine_world


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
