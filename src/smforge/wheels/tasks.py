"""Run a task after those it depends on, or any program; its exit code is passed on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from smforge.errors import ConfigurationError
from smforge.venvs import say
from smforge.wheels.manifest import DEFAULT, Manifest, Task

# environment name -> its variables; builds the environment when needed
Activate = Callable[[str], dict[str, str]]


@dataclass(frozen=True)
class Step:
    """One program to run: its words, its environment's name, the task's own variables."""

    label: str
    words: tuple[str, ...]
    environment: str
    env: dict[str, str]


def plan(manifest: Manifest, environment: str | None, words: Sequence[str]) -> list[Step]:
    """The steps for `run WORDS`, dependencies first, each once.

    Raises ConfigurationError: a circle, an unknown dependency, arguments for a task without a
    command.
    """
    name, arguments = words[0], list(words[1:])
    if arguments and arguments[0] == "--":
        arguments.pop(0)
    home = _home(manifest, environment, name)
    if home is None:
        return [Step(name, (name, *arguments), environment or DEFAULT, {})]
    steps: dict[tuple[str, str], Step] = {}
    _collect(manifest, home, name, steps, ())
    task = manifest.tasks(home)[name]
    if arguments and not task.words:
        raise ConfigurationError(f"task '{name}' only runs other tasks and takes no arguments")
    ordered = list(steps.values())
    if task.words:
        last = ordered[-1]
        ordered[-1] = Step(name, (*last.words, *arguments), last.environment, last.env)
    return ordered


def _home(manifest: Manifest, environment: str | None, task: str) -> str | None:
    """The environment a task runs in: the one asked for if it has the task, else the task's own."""
    if environment is not None and environment not in manifest.environments:
        known = ", ".join(manifest.environments)
        raise ConfigurationError(f"no environment '{environment}'; pixi.toml has {known}")
    if task in manifest.tasks(environment or DEFAULT):
        return environment or DEFAULT
    return manifest.home_of(task)


def _collect(
    manifest: Manifest,
    environment: str,
    name: str,
    steps: dict[tuple[str, str], Step],
    above: tuple[str, ...],
) -> None:
    if name in above:
        circle = " -> ".join((*above[above.index(name) :], name))
        raise ConfigurationError(f"pixi.toml: tasks depend on each other in a circle: {circle}")
    if (name, environment) in steps:
        return
    task: Task = manifest.tasks(environment)[name]
    for other, where in task.depends:
        home = _home(manifest, where or environment, other)
        if home is None:
            raise ConfigurationError(f"pixi.toml: task '{name}' depends on no known task: {other}")
        _collect(manifest, home, other, steps, (*above, name))
    if task.words:
        steps[name, environment] = Step(name, task.words, environment, task.env)


def run(manifest: Manifest, steps: Sequence[Step], activate: Activate) -> int:
    """Run the steps in order in the workspace's folder; the first failure's exit code, or 0."""
    for step in steps:
        environ = activate(step.environment) | step.env
        program = shutil.which(step.words[0], path=environ["PATH"])
        if program is None:
            known = ", ".join(n for n in manifest.tasks(step.environment) if n[0] != "_")
            raise ConfigurationError(
                f"'{step.words[0]}' is neither a task nor a program of environment "
                f"'{step.environment}'; tasks: {known}"
            )
        command = [program, *step.words[1:]]
        if step.label != step.words[0]:
            say(f"{step.label}: {' '.join(step.words)}")
        if step is steps[-1] and sys.platform != "win32":
            # No process in between: signals and the exit code are the task's own.
            os.chdir(manifest.root)
            sys.stdout.flush()
            sys.stderr.flush()
            os.execve(program, command, environ)
        if code := _call(command, environ, manifest.root):
            return code
    return 0


def _call(command: list[str], environ: dict[str, str], folder: os.PathLike[str]) -> int:
    """The exit code of a child; 128 + N if signal N ended it. SIGTERM is handed on to it."""
    with subprocess.Popen(command, env=environ, cwd=folder) as child:
        # Ctrl-C reaches the child by itself, from the terminal; this process only waits for it.
        old_int = signal.signal(signal.SIGINT, signal.SIG_IGN)
        old_term = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            code = child.wait()
        finally:
            signal.signal(signal.SIGINT, old_int)
            signal.signal(signal.SIGTERM, old_term)
    return 128 - code if code < 0 else code
