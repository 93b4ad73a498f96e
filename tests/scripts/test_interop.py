"""What ./dev interop says where rustic cannot be compiled."""

import console
import interop
import pytest


def test_without_rust_the_failure_names_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CSI_DELTA_CACHE", str(tmp_path))
    monkeypatch.setattr(interop.shutil, "which", lambda name: None)
    with pytest.raises(console.Failure, match="install Rust 1.91"):
        interop.ensure_rustic()
