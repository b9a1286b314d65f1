"""Child processes that compile: one JSON line in, one JSON line out, one process a job.

A compiler may abort the process it runs in. Where the system can fork, every job runs in a fork of
the warm child; where it cannot, the parent sees the pipe close and starts another child.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from smforge.errors import ToolchainError

Job = dict[str, Any]
TIMEOUT_S = 120.0  # for one job; the longest takes 6 s on two busy cores


# -------------------------------------------------------------------------------------------------
# The child
# -------------------------------------------------------------------------------------------------


def serve(greeting: Job, handle: Callable[[Job], Job]) -> int:
    """Answer jobs on standard input until it ends; `greeting` is the first line sent."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a compiler prints must not mix with the replies
    print(json.dumps(greeting), file=replies, flush=True)
    gc.freeze()  # a collection in a fork would copy every page of the parent
    for line in sys.stdin:
        job = json.loads(line)
        result = _forked(job, handle) if hasattr(os, "fork") else _guarded(job, handle)
        print(json.dumps(result), file=replies, flush=True)
    return 0


def _forked(job: Job, handle: Callable[[Job], Job]) -> Job:
    read, write = os.pipe()
    with tempfile.TemporaryFile() as noise:
        child = os.fork()
        if child == 0:
            os.close(read)
            os.dup2(noise.fileno(), 2)
            with os.fdopen(write, "wb") as pipe:
                pipe.write(json.dumps(_guarded(job, handle)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        noise.seek(0)
        said = noise.read().decode(errors="replace")
    if answer:
        result: Job = json.loads(answer)
        return result
    return {"ok": False, "error": f"the compiler aborted (signal {status & 127}): {reason(said)}"}


def _guarded(job: Job, handle: Callable[[Job], Job]) -> Job:
    try:
        return handle(job)
    except Exception as error:
        return {"ok": False, "error": f"{type(error).__name__}: {reason(str(error))}"}


_TELLING = re.compile(r"error|assert|fatal|requires|not supported|undefined|LLVM|refused", re.I)


def reason(text: str) -> str:
    """The line of a compiler's output that names the reason, at most 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines[-1:]
    return (telling[0] if telling else "no message")[:300]


# -------------------------------------------------------------------------------------------------
# The parent
# -------------------------------------------------------------------------------------------------


class Worker:
    """A running child; `greeting` is its first line. Raises ToolchainError if it does not start.

    `python` is the command that starts another interpreter than this one.
    """

    def __init__(
        self, module: str, environ: Mapping[str, str], python: Sequence[str] = (sys.executable,)
    ) -> None:
        self._command = [*python, "-m", module]
        self._environ = dict(environ)
        self._start()

    def ask(self, job: Job) -> Job:
        """The child's answer; a child that dies or hangs is a failed job, and is replaced."""
        alarm = threading.Timer(TIMEOUT_S, self._kill)
        alarm.start()
        try:
            answer = self._exchange(json.dumps(job))
        finally:
            alarm.cancel()
        if answer:
            result: Job = json.loads(answer)
            return result
        status = self._child.wait()
        error = f"the compiler ended (status {status}): {reason(self._said())}"
        self.close()
        self._start()
        return {"ok": False, "error": error}

    def close(self) -> None:
        """End the child and wait for it."""
        assert self._child.stdin
        assert self._child.stdout
        self._kill()
        with contextlib.suppress(OSError):  # what a dead child did not read
            self._child.stdin.close()
        self._child.stdout.close()
        self._noise.close()
        self._child.wait()

    def _kill(self) -> None:
        """The child and the fork that compiles: a fork left alone would hold the pipe open."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
        else:
            self._child.kill()

    def _start(self) -> None:
        self._noise: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        self._child = subprocess.Popen(
            self._command, env=self._environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._noise, text=True, encoding="utf-8", start_new_session=True,
        )  # fmt: skip
        assert self._child.stdout
        first = self._child.stdout.readline()
        if not first:
            said = self._said()
            self.close()
            raise ToolchainError(f"a compiler does not start: {reason(said)}")
        self.greeting: Job = json.loads(first)

    def _exchange(self, line: str) -> str:
        assert self._child.stdin
        assert self._child.stdout
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
        except OSError:
            return ""
        return self._child.stdout.readline()

    def _said(self) -> str:
        self._noise.seek(0)
        return self._noise.read().decode(errors="replace")
