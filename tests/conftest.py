"""Fixtures for every folder of tests."""

from __future__ import annotations

import pytest

from .windows.fixtures import mark_wine, windows_python, wine, wine_cmd

__all__ = ["windows_python", "wine", "wine_cmd"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_wine(items)
