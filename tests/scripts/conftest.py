"""Lets the tests import the scripts that they test."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "dev")]


def pytest_configure(config):
    config.addinivalue_line("markers", "clang_tidy: compiles the project's plugin of clang-tidy; ./dev ci runs it")
