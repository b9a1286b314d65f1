"""Ctrl-C and SIGTERM ask for a stop at the next safe point; a second one stops at once."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any


class Stopped(KeyboardInterrupt):
    """Stopped by a signal; the exit code is 128 plus its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.exit_code = 128 + signum


class Stop:
    """Within `with`, `signum` tells which signal came; outside a safe block it raises at once.

    Only the main thread can take signals over: elsewhere (a notebook's worker) nothing changes.
    """

    def __init__(self) -> None:
        self.signum = 0
        self.waits = False  # set while someone looks at `signum` between steps
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        try:
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._before[signum] = signal.signal(signum, self._came)
        except ValueError:
            pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signum, handler in self._before.items():
            if handler is not None:  # None: not set from Python, so not to be set back from it
                signal.signal(signum, handler)

    def _came(self, signum: int, _frame: FrameType | None) -> None:
        again, self.signum = bool(self.signum), signum
        if again or not self.waits:
            raise Stopped(signum)
        # Not print: a handler may run in the middle of one.
        os.write(2, b"\nstopping after this step; once more stops at once\n")
