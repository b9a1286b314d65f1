"""Which wheels count for the download size of a system and Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from smforge import pins, tables
from smforge.errors import ConfigurationError


def package(name: str, *wheels: str, marker: str | None = None) -> dict[str, object]:
    """A package as uv's pylock.toml lists it."""
    urls = [{"url": f"https://index.invalid/{file}", "size": 7} for file in wheels]
    return {"name": name, "wheels": urls} | ({"marker": marker} if marker else {})


def names(found: list[dict[str, object]]) -> list[str]:
    return [str(wheel["url"]).rpartition("/")[2] for wheel in found]


def test_the_wheel_that_pip_prefers_counts() -> None:
    plain, built = "a-1-py3-none-any.whl", "a-1-cp312-cp312-manylinux_2_28_x86_64.whl"
    other = "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"
    found, missing = pins._wheels([package("a", plain, other, built)], "linux-64", 12)
    assert (names(found), missing) == ([built], [])
    found, missing = pins._wheels([package("a", plain, other, built)], "win-64", 12)
    assert (names(found), missing) == ([plain], [])


def test_a_package_without_a_wheel_is_named() -> None:
    only = package("a", "a-1-cp311-cp311-win_amd64.whl")
    assert pins._wheels([only], "win-64", 14) == ([], ["a"])


def test_a_package_for_another_system_does_not_count() -> None:
    mac = package("a", marker="sys_platform == 'darwin'")
    old = package("b", marker="python_full_version < '3.12'")
    assert pins._wheels([mac, old], "linux-64", 12) == ([], [])
    assert pins._wheels([mac, old], "linux-64", 11) == ([], ["b"])


def test_a_size_that_the_index_lists_is_not_asked_for() -> None:
    assert pins._size({"url": "https://index.invalid/a.whl", "size": 7}) == 7


def test_a_source_line_fixes_the_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "envs" / "tools" / "windows-x.in"
    source.parent.mkdir(parents=True)
    source.write_text("# python-version: 3.12\na==1\n")
    asked = []

    def uv(source: Path, output: Path, fixed: object, form: str) -> None:
        asked.append(form)
        output.write_text("packages = []\n" if form == "pylock.toml" else "a==1 --hash=x\n")

    monkeypatch.setattr(pins, "_uv", uv)
    target = pins.pin(source)
    lines = target.read_text().splitlines()[1:]
    head = ["# python-version: 3.12", "# download win-64 3.12: 0"]
    assert lines == [*head, "", "a==1 --hash=x"]
    assert asked == ["requirements.txt", "pylock.toml"]


def test_an_unknown_name_lists_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins.tools, "in_tool_environment", lambda: True)
    arguments = pins.argparse.Namespace(names=["nothing"])
    with pytest.raises(ConfigurationError, match=r"no envs/\*/nothing\.in; there are 2\."):
        pins.run(arguments)
    assert (tables.workspace() / "envs" / "tools" / "base.in").is_file()
