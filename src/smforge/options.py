"""Settings from presets, the command line, a notebook or a checkpoint, checked before any work."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from smforge.errors import ConfigurationError

if TYPE_CHECKING:
    from smforge.train import Settings

UNSET = object()
# What a resumed run may change: the rest decides which batches it sees, or fits its weights.
CHANGEABLE = {"steps", "minutes", "tier", "dtype", "compile", "save_every", "eval_every"}


def setting(help: str, default: Any = UNSET, **presets: Any) -> Any:
    """One field of the settings block: the same `default` everywhere, or one per preset."""
    return field(metadata={"help": help, "default": default, "presets": presets})


def preset_of(cls: type[Settings], names: Sequence[str], name: str) -> Settings:
    """The settings of a preset; ConfigurationError if there is none of that name."""
    if name not in names:
        raise ConfigurationError(f"--preset must be {' or '.join(names)}, not {name}")
    values = {f.name: f.metadata["presets"].get(name, f.metadata["default"]) for f in fields(cls)}
    return cls(**values)


def add_flags(parser: argparse.ArgumentParser, cls: type[Settings]) -> None:
    """Give each setting its flag, with the presets' values in its help."""
    types = get_type_hints(cls)
    for one in fields(cls):
        flag, kind = f"--{one.name.replace('_', '-')}", types[one.name]
        shown: dict[str, Any] = {"default": argparse.SUPPRESS, "help": _help(one.metadata)}
        if kind == bool | None:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **shown)
        elif kind == tuple[str, ...]:
            parser.add_argument(flag, nargs="+", metavar="PATH", **shown)
        else:
            plain = kind if kind in (int, float) else str
            word = {int: "N", float: "X"}.get(plain, "NAME")
            parser.add_argument(flag, type=plain, metavar=word, **shown)


def _help(metadata: Mapping[str, Any]) -> str:
    text = str(metadata["help"])
    if text.endswith(")"):
        return text
    if metadata["presets"]:
        return f"{text} ({', '.join(f'{k} {v}' for k, v in metadata['presets'].items())})"
    default = metadata["default"]
    return text if default in (None, ()) else f"{text} ({default})"


def resolve(base: Settings, given: Mapping[str, Any]) -> Settings:
    """`base` with what was given in its place, checked.

    Raises:
        ConfigurationError: a name or a value that makes no sense, with the flag that mends it.
    """
    known = [f.name for f in fields(base)]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigurationError(f"there is no setting '{name}'{hint}")
    given = dict(given)
    if "data" in given:
        paths = given["data"] if isinstance(given["data"], (list, tuple)) else [given["data"]]
        if not all(str(path) for path in paths):  # it would be the working directory
            raise ConfigurationError("--data has an empty path: expected a file or a folder")
        given["data"] = tuple(str(Path(path).absolute()) for path in paths)
    if "minutes" in given and given.setdefault("steps", 0):
        raise ConfigurationError("--steps and --minutes both say how long: give one of them")
    settings = replace(base, **given)
    _check(settings)
    return settings


def _check(s: Settings) -> None:
    for name in ("batch_size", "block_size", "layers", "heads", "width"):
        _require(getattr(s, name) >= 1, name, "1 or more", getattr(s, name))
    for name in ("steps", "minutes", "warmup", "save_every", "seed", "weight_decay"):
        _require(getattr(s, name) >= 0, name, "0 or more", getattr(s, name))
    _require(math.isfinite(s.minutes), "minutes", "finite", s.minutes)
    _require(s.seed < 2**63, "seed", "below 2 to the 63", s.seed)
    for name in ("lr", "grad_clip"):
        value = getattr(s, name)
        _require(math.isfinite(value) and value > 0, name, "above 0", value)
    _require(s.eval_every >= 1, "eval_every", "1 or more", s.eval_every)
    _require(s.vocabulary >= 256, "vocabulary", "256 or more, one id for each byte", s.vocabulary)
    _require(s.steps or s.minutes, "minutes", "above 0 where --steps is 0", s.minutes)
    _require(s.dtype in (None, "float32", "bfloat16", "float16"), "dtype",
             "float32, bfloat16 or float16", s.dtype)  # fmt: skip
    if s.width % s.heads:
        raise ConfigurationError(
            f"--width {s.width} must be a multiple of --heads {s.heads}: "
            f"--width {math.ceil(s.width / s.heads) * s.heads} is"
        )


def _require(fine: object, name: str, wanted: str, found: object) -> None:
    if not fine:
        raise ConfigurationError(f"--{name.replace('_', '-')} must be {wanted}, not {found}")


def resumed(cls: type[Settings], saved: Mapping[str, Any], given: Mapping[str, Any]) -> Settings:
    """The settings of a checkpoint with what may change on the way.

    Raises:
        ConfigurationError: another value was given for what a run cannot change.
    """
    stored = cls(**{**saved, "data": tuple(saved["data"])})
    settings = resolve(stored, given)
    before, after = asdict(stored), asdict(settings)
    for name in given:
        if name not in CHANGEABLE and before[name] != after[name]:
            raise ConfigurationError(
                f"--{name.replace('_', '-')} {after[name]}: the run to resume has {before[name]}, "
                "and this cannot change on the way; leave the option out"
            )
    return settings
