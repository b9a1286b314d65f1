"""The wheel engine's command line: the part of pixi's that it has, and one line for the rest."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from smforge import __version__, tables
from smforge.arguments import Parser
from smforge.errors import ConfigurationError, SmforgeError, ToolchainError
from smforge.probe import gpu
from smforge.venvs import is_complete, say
from smforge.wheels import activation, environment, manifest, stack, tasks

_COMMANDS = ("run", "install", "info")
_DESCRIPTION = """\
Run the tasks of pixi.toml in a virtual environment of wheels, each pinned by sha256.
pixiw uses this engine where there is no pixi and GitHub cannot be reached."""
_EPILOG = """\
examples:
  ./pixiw run train --steps 20     a task, with arguments of its own
  ./pixiw run python -V            any program of the environment
  ./pixiw run                      list the tasks
  ./pixiw install -e cpu           build an environment
SMFORGE_ENGINE=pixi|wheels chooses the engine. No card: the CPU. Linux with an NVIDIA card: the
stack that carries it, or exit 3 with the reason.
exit codes: 0 fine, 2 configuration, 3 no suitable GPU, 4 toolchain or download; a task's own"""


class _Stopped(BaseException):
    """SIGTERM, raised where the engine stands so that its children and locks are let go."""


def main(argv: Sequence[str]) -> int:
    """Run one command; the exit code."""
    if sys.platform != "win32":
        signal.signal(signal.SIGTERM, _stop)
    try:
        return _main(list(argv))
    except SmforgeError as error:
        say(f"error: {error}")
        return error.exit_code
    except OSError as error:  # a folder that this user may not read or write
        say(f"error: {error.filename or 'the output'}: {error.strerror or error}")
        return ToolchainError.exit_code
    except KeyboardInterrupt:
        say("stopped; what was downloaded stays in pip's cache")
        return 130
    except _Stopped:
        return 143


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Stopped


def _main(argv: list[str]) -> int:
    if argv and not argv[0].startswith("-") and argv[0] not in _COMMANDS:
        raise ConfigurationError(
            f"the wheel engine has no '{argv[0]}', only {', '.join(_COMMANDS)}; with pixi: install "
            "it, or set SMFORGE_ENGINE=pixi where GitHub can be reached"
        )
    args = _parser().parse_args(argv or ["--help"])
    found = manifest.find(args.manifest_path, Path.cwd(), tables.workspace())
    if args.command == "install":
        return _install(found, args.environment)
    if args.command == "info":
        return _info(found, args.environment, as_json=args.json)
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        return _list(found, args.environment)
    steps = tasks.plan(found, args.environment, words)
    return tasks.run(found, steps, lambda name: _activated(found, name))


def _parser() -> Parser:
    parser = Parser(
        prog="./pixiw",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"smforge wheel engine {__version__} (in place of pixi)"
    parser.add_argument("--version", "-V", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a task, or a program of the environment")
    install = commands.add_parser("install", help="build an environment")
    info = commands.add_parser("info", help="say what this machine gets, and where it lies")
    info.add_argument("--json", action="store_true", help="print one JSON object")
    for command in (run, install, info):
        command.add_argument("--manifest-path", metavar="FILE", help="pixi.toml or its folder")
        command.add_argument("--environment", "-e", metavar="ENV", help="sm86, cpu, dev, ...")
        # Always so here: every wheel is pinned.
        for flag in ("--locked", "--frozen"):
            command.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="TASK [ARGS]")
    return parser


def _activated(found: manifest.Manifest, name: str) -> dict[str, str]:
    chosen = _choose(found, name)
    prefix = environment.prepare(found, chosen)
    return activation.variables(found, chosen, prefix)


def _choose(found: manifest.Manifest, name: str | None) -> stack.Stack:
    name = name or manifest.DEFAULT
    needs_gpu = name not in (stack.TOOLS_ENVIRONMENT, "cpu")
    return stack.choose(found, name, gpu.detect() if needs_gpu else gpu.Machine())


def _install(found: manifest.Manifest, name: str | None) -> int:
    chosen = _choose(found, name)
    prefix = environment.prepare(found, chosen)
    say(f"environment '{chosen.environment}' is installed: tier {chosen.tier}, {prefix}")
    return 0


def _list(found: manifest.Manifest, name: str | None) -> int:
    print("tasks (./pixiw run TASK [ARGS]):")
    for each in [name] if name else found.environments:
        for task in found.tasks(each).values():
            if task.name[0] != "_" and found.home_of(task.name) in (each, name):
                print(f"  {task.name:12} {task.description}")
    return 0


def _info(found: manifest.Manifest, name: str | None, as_json: bool) -> int:
    chosen = _choose(found, name)
    prefix = environment.folder_of(found, chosen)
    answer = {
        "engine": f"smforge wheel engine {__version__}",
        "workspace": str(found.root),
        "environment": chosen.environment,
        "tier": chosen.tier,
        "reason": chosen.reason,
        "torch": chosen.wheels,
        "pins": os.path.relpath(chosen.requirements, found.root),
        "prefix": str(prefix),
        "installed": is_complete(prefix),
    }
    if as_json:
        print(json.dumps(answer, indent=2))
    else:
        for key, value in answer.items():
            print(f"{key:12} {value}")
    return 0
