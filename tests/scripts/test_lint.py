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
    with pytest.raises(console.Failure, match="no source of the project matches typo"):
        lint.clang_tidy("typo")


def test_a_source_that_unites_tests_is_judged_as_tests_are(tmp_path):
    """It lies in build/, where clang-tidy would take the rules of the product."""
    tests = tmp_path / "csi_test_united.cc"
    tests.write_text('#include "tests/csi/one_test.cc"\n')
    product = tmp_path / "csi_united.cc"
    product.write_text('#include "csi/one.cc"\n')
    alone = console.ROOT / "tests" / "fuzz" / "json_fuzz.cc"
    assert lint.config_of(tests) == [f"--config-file={console.ROOT / 'tests' / '.clang-tidy'}"]
    assert lint.config_of(product) == []
    assert lint.config_of(alone) == []
