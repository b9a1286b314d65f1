"""A lock between processes that the operating system drops when its holder dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from smforge.errors import ToolchainError

# On Windows a locked byte cannot be read by others: it lies far behind the holder's process id.
_LOCKED_BYTE = 1 << 30


@contextmanager
def locked(path: Path, on_wait: Callable[[str], None], poll: float = 0.2) -> Iterator[None]:
    """Hold the lock `path` for a `with` block.

    When another process holds it, `on_wait` is called once with that process's id (or "?"), then
    this one waits. The file stays: removing it would let a third process lock another file of the
    same name. Raises ToolchainError where the folder cannot be written or locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not "w": another's process id must survive until the lock is ours.
        file = path.open("a+b")
    except OSError as error:
        raise ToolchainError(f"{path} cannot be written ({error.strerror})") from error
    with file:
        if not _try_lock(file):
            on_wait(_holder(file))
            while not _try_lock(file):
                time.sleep(poll)
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()).encode())
        file.flush()
        yield


def _holder(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(20).decode(errors="replace") or "?"


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        file.seek(_LOCKED_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ToolchainError(f"{file.name} cannot be locked ({error.strerror})") from error
        return True
