"""A command of a niced thread leaves others the cores."""

import os
import threading

import console
import lint
import pytest

NICE_MAX = 19


def test_a_command_of_a_niced_thread_is_niced_with_its_whole_session():
    told = []
    wait = """nice; for turn in $(seq 200); do
        grep -q "nice $(nice)$" /proc/self/autogroup && break; sleep 0.05; done; cat /proc/self/autogroup"""

    def run():
        os.nice(7)
        told.extend(console.execute(["sh", "-c", wait], keep=True, quiet=True)[1])
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert told[0] == str(min(NICE_MAX, os.getpriority(os.PRIO_PROCESS, 0) + 7))
    if os.path.exists("/proc/self/autogroup"):  # A kernel that schedules sessions as groups.
        assert told[1].endswith(f"nice {told[0]}")


def test_a_filter_that_no_source_matches_is_a_failure(monkeypatch, tmp_path):
    monkeypatch.setattr(console, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(lint.build, "configure", lambda preset: None)
    monkeypatch.setattr(lint, "_generate", lambda preset: None)
    monkeypatch.setattr(lint, "_Digest", lambda folder: None)
    monkeypatch.setattr(lint, "_units", lambda folder: [{"file": str(console.ROOT / "src" / "base" / "clock.cc")}])
    with pytest.raises(console.Failure, match="no source of ours matches typo"):
        lint.clang_tidy("typo")
