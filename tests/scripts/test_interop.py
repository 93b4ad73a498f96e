"""Which Rust is new enough for rustic."""

import console
import interop
import pytest


def test_versions_of_rust_are_read():
    assert interop.parse_rust_version("rustc 1.95.0 (59807616e 2026-04-14)\n") == (1, 95)
    assert interop.parse_rust_version("error: no toolchain\n") is None


@pytest.mark.parametrize("words", ["rustc 1.63.0 (4b91a6ea7 2022-08-08)\n", "nothing\n"])
def test_an_older_rust_is_refused_in_words(monkeypatch, words):
    monkeypatch.setattr(interop.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(console, "output", lambda command: words)
    with pytest.raises(console.Failure, match="needs Rust 1.91"):
        interop.require_rust()


def test_without_rust_the_failure_names_what_is_missing(monkeypatch):
    monkeypatch.setattr(interop.shutil, "which", lambda name: None)
    with pytest.raises(console.Failure, match="install Rust 1.91"):
        interop.require_rust()
