"""Read TOML into frozen dataclasses, or say in one line which file, table and key is wrong."""

from __future__ import annotations

import dataclasses
import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from smforge.errors import ConfigurationError

T = TypeVar("T")
PAIR = re.compile(r"(\d+)\.(\d+)")


def data_file(name: str) -> Path:
    """Where a data file lies: inside the installed package, else in the workspace's envs/.

    Found from this file, never from the working directory.
    """
    installed = Path(__file__).with_name("data") / name
    return installed if installed.exists() else workspace() / "envs" / name


def workspace() -> Path:
    """The folder that would hold pixi.toml if this package runs from a checkout."""
    return Path(__file__).resolve().parents[2]


def in_workspace() -> bool:
    """Whether this package runs from a checkout rather than from an installed copy."""
    return (workspace() / "pixi.toml").is_file()


def shown(path: Path) -> str:
    """The path as a message prints it: relative to the workspace where it can be."""
    try:
        return path.resolve().relative_to(workspace()).as_posix()
    except ValueError:
        return str(path)


def read_toml(path: Path) -> dict[str, Any]:
    """The file's content; ConfigurationError when it is missing or no TOML 1.0."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{shown(path)}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{shown(path)}: not valid TOML: {error}") from None


def build(cls: type[T], table: object, where: str) -> T:
    """An instance of the dataclass `cls` from `table`.

    Field types decide what is accepted: str, int, float, bool, tuple[X, ...] (an array),
    tuple[int, int] (written "8.6"), dict[str, X], another dataclass, and X | None.

    Raises:
        ConfigurationError: unknown key, missing key or wrong type, named after `where`.
    """
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: found {table!r}, expected a table")
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            known = ", ".join(fields)
            raise ConfigurationError(f"{where}: unknown key '{key}'; expected one of {known}")
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in table:
            values[name] = convert(hints[name], table[name], f"{where} key '{name}'")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigurationError(f"{where}: missing key '{name}'")
    return cls(**values)


def convert(hint: Any, value: object, where: str) -> Any:
    """`value` as the type `hint` asks for; ConfigurationError when it is another."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return convert(next(a for a in args if a is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return value if type(value) is hint else build(typing.cast(type, hint), value, where)
    if hint == tuple[int, int]:
        return pair(value, where)
    if origin is tuple:
        return tuple(convert(args[0], item, where) for item in expect(list, value, where))
    if origin is dict:
        items = expect(dict, value, where).items()
        return {key: convert(args[1], item, f"{where} key '{key}'") for key, item in items}
    if hint is Any:
        return value
    if hint is float and type(value) is int:
        return float(value)
    return expect(hint, value, where)


def expect(kind: type[T], value: object, where: str) -> T:
    """`value` itself when it is exactly a `kind` (true is no integer here)."""
    if type(value) is not kind:
        names = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
        wanted = names.get(kind, "an array" if kind is list else "a table")
        raise ConfigurationError(f"{where}: found {value!r}, expected {wanted}")
    return value


def pair(value: object, where: str) -> tuple[int, int]:
    """(8, 6) for "8.6": a compute capability or a CUDA version."""
    match = PAIR.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ConfigurationError(f'{where}: found {value!r}, expected a string such as "8.6"')
    return int(match[1]), int(match[2])


def dotted(version: tuple[int, int]) -> str:
    """ "8.6" for (8, 6)."""
    return f"{version[0]}.{version[1]}"
