"""`smforge test`: the test suite, in the tool environment (which holds py-rattler)."""

from __future__ import annotations

import argparse
from typing import Any

from smforge.errors import ConfigurationError
from smforge.tables import in_workspace

EPILOG = """\
Everything after `test` goes to pytest: `test -k tiers -x`; `test -n 0` uses one process instead of
one a core. SMFORGE_NO_SKIP=wine,chromium makes
the tests that a machine without them would skip fail instead."""
# A file's tests run in one process, since they share what is slow to make. Files run side by side:
# no test may rely on a folder that another file's tests use. (Not loadgroup: with pytest 9.2,
# pytest-xdist 3.8 leaves its groups out without a word.)
PARALLEL = ("-n", "auto", "--dist", "loadfile")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "test",
        help="run the test suite in the tool environment",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # "-x" and "-q" are pytest's: with another prefix they are plain words to this parser.
        prefix_chars="+",
        add_help=False,
    )
    parser.add_argument("words", nargs="*", metavar="PYTEST-ARGUMENT")
    parser.set_defaults(run=run, show_help=parser.print_help)


def run(args: argparse.Namespace) -> int:
    if args.words in (["-h"], ["--help"]):
        args.show_help()
        return 0
    if not in_workspace():
        raise ConfigurationError("the tests are in a checkout of smforge: run this task there")
    from smforge.tools import run_in_tool_environment

    return run_in_tool_environment(["-m", "pytest", *PARALLEL, *args.words])
