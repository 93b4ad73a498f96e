"""What the watcher of the scenarios tells of files that come and go."""

import sys

import conftest

E2E = conftest.ROOT / "tests" / "e2e"
sys.path.insert(0, str(E2E))

import changes  # noqa: E402

SECONDS_MAX = 20


def seen_of(watch, count):
    watch.await_count(count, lambda change: True, lambda seen: False, SECONDS_MAX)
    return [(change.verb, change.name) for change in watch.seen()]


def test_files_that_come_and_go_are_told_in_order(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "there").write_text("1")
    with changes.Changes(None, [], tmp_path) as watch:
        (tmp_path / "old" / "more").write_text("2")
        assert seen_of(watch, 1) == [("put", "old/more")]
        (tmp_path / "new" / "deep").mkdir(parents=True)
        (tmp_path / "new" / "deep" / "file").write_text("3")
        assert seen_of(watch, 2)[1:] == [("put", "new/deep/file")]
        (tmp_path / "old" / "there").unlink()
        assert seen_of(watch, 3)[2:] == [("removed", "old/there")]
        (tmp_path / "new" / "deep" / "file").unlink()
        (tmp_path / "new" / "deep").rmdir()
        assert seen_of(watch, 4)[3:] == [("removed", "new/deep/file")]
