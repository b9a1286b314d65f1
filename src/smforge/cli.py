"""`smforge COMMAND`: parse, call, print, exit code. A command is imported when it is used."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence

from smforge import __version__, tiers
from smforge.arguments import Parser
from smforge.errors import ConfigurationError, SmforgeError
from smforge.tables import in_workspace

# name -> (module with add_parser(subparsers) and run(args) -> int, one line of help)
COMMANDS = {
    "train": ("smforge.train", "train a small GPT on this machine"),
    "verify": ("smforge.verify", "compile, check and time reference kernels on this machine"),
    "report": ("smforge.report", "show results of verify side by side"),
    "which": ("smforge.which", "say which tier this machine gets, and why"),
    "tiers": ("smforge.tiers_command", "print the table of tiers"),
    "lock": ("smforge.locks.lock_command", "solve pixi.toml and write pixi.lock, or check it"),
    "audit": ("smforge.locks.audit_command", "check every locked environment against its tier"),
    "export": ("smforge.locks.export_command", "write envs/<tier>/ for conda and mamba users"),
    "sbom": ("smforge.locks.sbom_command", "print the bill of materials of one environment"),
    "channel": ("smforge.channel.command", "build, test, index, publish and serve the channel"),
    "test": ("smforge.testing", "run the test suite in the tool environment"),
    "env": ("smforge.env_command", "print what activation decided, and why"),
    "kernel": ("smforge.kernel_spec", "install a Jupyter kernel that starts activated"),
    "pins": ("smforge.pins", "pin the wheels of envs/wheels and envs/tools"),
}
EXIT_CODES = """\
exit codes: 0 fine, 1 internal error, 2 configuration, 3 no suitable GPU, 4 toolchain,
5 verification failed, 130/143 stopped by Ctrl-C or SIGTERM"""


def build_parser(chosen: str | None = None) -> Parser:
    """The parser; only the chosen command's own options are loaded."""
    parser = Parser(
        prog=tiers.command("smforge") if in_workspace() else "smforge",
        description="Locked PyTorch and Triton environments for every NVIDIA GPU generation.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"smforge {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        if name == chosen:
            importlib.import_module(module).add_parser(commands)
        else:
            commands.add_parser(name, help=summary, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; failures are one line on standard error."""
    argv = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in argv if not word.startswith("-")), None)
    try:
        parser = build_parser(chosen)
        args, unknown = parser.parse_known_args(argv)
        if unknown:
            raise ConfigurationError(
                f"unknown: {' '.join(unknown)}; see {parser.prog} {chosen} --help"
            )
        code = int(args.run(args))
        sys.stdout.flush()  # here, where a full disk and a reader that left are told
        return code
    except SmforgeError as error:
        complain(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        complain("stopped")
        return 130
    except BrokenPipeError:  # the reader of a pipe left, as `| head` does
        drop_output()
        return 0
    except Exception as error:
        if os.environ.get("SMFORGE_TRACEBACK"):
            raise
        return unexpected(error)


def unexpected(error: Exception) -> int:
    """Tell an error that no command foresaw; what the system refused is no bug of this program."""
    if isinstance(error, OSError) and error.strerror:
        if not error.filename:
            drop_output()  # most likely it: Python would try it again, and complain, on its way out
        complain(f"error: {error.filename or 'the output'}: {error.strerror}")
        return ConfigurationError.exit_code
    complain(f"internal error: {type(error).__name__}: {error} (SMFORGE_TRACEBACK=1 shows where)")
    return 1


def drop_output() -> None:
    """Let what is still to be written to standard output go nowhere."""
    with contextlib.suppress(OSError):  # a notebook's output has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(line: str) -> None:
    """One line on standard error, red on a terminal unless NO_COLOR is set."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    start, end = ("\x1b[31m", "\x1b[0m") if colour else ("", "")
    print(f"{start}smforge: {line}{end}", file=sys.stderr)
