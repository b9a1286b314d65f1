"""Write a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from smforge.errors import ConfigurationError


def replace(path: Path, content: str) -> None:
    """Write `content` to `path` in one step: a kill leaves the old file.

    Raises:
        ConfigurationError: the folder cannot be written, or the disk is full.
    """
    try:
        _replace(path, content)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error.strerror})") from error


def _replace(path: Path, content: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
