"""`smforge channel build|test|index|publish|serve|bump`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from pathlib import Path

from smforge import tables, tiers
from smforge.errors import ConfigurationError, SmforgeError

HELP = """\
  smforge channel build                     every recipe that changed, then the index
  smforge channel build triton-windows      one recipe
  smforge channel test                      every package whole, its own tests run
  smforge channel serve                     http://127.0.0.1:8000 for pixi, conda and mamba
  smforge channel publish --to DIR          copy what is new to a folder that is served
  smforge channel publish --to prefix:NAME --attest
  smforge channel bump triton-windows       newer wheels: variants, hashes, pair table"""
# What the tool environment has and a tier has not.
NEEDED = ("rattler", "rattler_build", "zstandard")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `channel` and its own commands."""
    parser = subparsers.add_parser(
        "channel",
        help="build, test, index, publish and serve the conda channel",
        description="Builds the packages of recipes/ into channel/<platform>/ and serves them.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    verbs = parser.add_subparsers(metavar="VERB", required=True, dest="verb")
    build = add_verb(verbs, "build", "build the recipes that changed, and index them")
    build.add_argument("names", nargs="*", metavar="NAME", help="recipes (all but pytorch-kepler)")
    build.add_argument(
        "--variants", type=Path, help="a file in place of the recipe's variants.yaml"
    )
    build.add_argument(
        "--compression-level", type=int, default=3, choices=range(1, 23), metavar="1..22",
        help="zstandard's level: 3 is quick, 19 is for publishing (default: 3)",
    )  # fmt: skip
    build.add_argument(
        "--replace",
        action="store_true",
        help="overwrite published packages as well",
    )
    test = add_verb(verbs, "test", "check every package and run its own tests")
    test.add_argument(
        "--with", dest="others", action="append", metavar="CHANNEL",
        help="where the tests' other packages come from (default: conda-forge)",
    )  # fmt: skip
    add_verb(verbs, "index", "write repodata, shards and run exports")
    publish = add_verb(verbs, "publish", "copy to a folder or upload to prefix.dev")
    publish.add_argument("--to", required=True, metavar="DIR|prefix:NAME", help="where to")
    publish.add_argument("--attest", action="store_true", help="prefix: sign where it was built")
    serve = add_verb(verbs, "serve", "serve the channel on this machine")
    serve.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    bump = verbs.add_parser("bump", help="move triton-windows to newer wheels")
    bump.add_argument("name", choices=["triton-windows"])
    bump.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
    bump.add_argument("--python", metavar="3.X", help="the Python of new Triton minors")
    bump.add_argument(
        "--pair", action="append", default=[], metavar="TRITON=TORCH,...",
        help="the pytorch minors of a new Triton minor, such as 3.8=2.14,2.15",
    )  # fmt: skip


def add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    """A verb that works on a channel's folder."""
    verb = verbs.add_parser(name, help=summary, description=summary.capitalize() + ".")
    verb.add_argument(
        "--channel", type=Path, metavar="DIR", help="the channel's folder (default: channel/)"
    )
    return verb


def run(args: argparse.Namespace) -> int:
    """Run a verb, in the tool environment; 0 or the failure's exit code."""
    if not tables.in_workspace():
        raise ConfigurationError("smforge channel works in a checkout of smforge, on its recipes/")
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        from smforge import tools

        return tools.run_in_tool_environment(["-m", "smforge", *sys.argv[1:]])
    verb = {
        "build": build,
        "test": test,
        "index": index,
        "publish": publish,
        "serve": serve,
        "bump": bump,
    }[args.verb]
    if "channel" in args:
        args.channel = args.channel or tables.workspace() / "channel"
    verb(args)
    return 0


def build(args: argparse.Namespace) -> None:
    """Build and index."""
    from smforge.channel import build, index, publish

    publish.refuse_shared(args.channel)
    chosen = build.select(tables.workspace() / "recipes", args.names)
    try:
        built = build.build(
            chosen, args.channel, args.variants, args.compression_level, args.replace
        )
    except (SmforgeError, KeyboardInterrupt):
        # What was built before is whole; where nothing was, there is nothing to do.
        if not index.is_current(args.channel):
            with contextlib.suppress(SmforgeError):
                index.index(args.channel)
        raise
    index.index(args.channel)
    print(f"{len(built)} packages in {tables.shown(args.channel)}, indexed")


def test(args: argparse.Namespace) -> None:
    """Check and test."""
    from smforge.channel import check

    ran = check.check(args.channel, args.others or ["conda-forge"])
    print(f"{tables.shown(args.channel)}: all packages are as indexed; {ran} ran their tests here")


def index(args: argparse.Namespace) -> None:
    """Index anew."""
    from smforge.channel import index

    index.index(args.channel)
    print(f"{tables.shown(args.channel)} is indexed")


def publish(args: argparse.Namespace) -> None:
    """Copy or upload."""
    from smforge.channel import publish

    kind, _, name = args.to.partition(":")
    if kind == "prefix":
        sent = publish.to_prefix(args.channel, name, args.attest)
    elif args.attest:
        raise ConfigurationError("--attest goes with --to prefix:NAME only")
    else:
        sent = publish.to_folder(args.channel, Path(args.to))
    print(f"{len(sent)} packages published to {args.to}")


def serve(args: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    from smforge.channel import serve

    with serve.server(args.channel, args.port, quiet=False) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        print(f"serving {tables.shown(args.channel)} at {url} until Ctrl-C; for example")
        print(f"  conda install -c {url} -c conda-forge triton-windows", flush=True)
        server.serve_forever()


def bump(args: argparse.Namespace) -> None:
    """Show and write newer wheels."""
    from smforge.channel import bump

    recipe = tables.workspace() / "recipes" / args.name
    change = bump.plan(recipe, dict(answer(pair) for pair in args.pair), args.python)
    print(change.diff() or f"{args.name} has the newest wheels of its Triton minors")
    for minor, torch in change.new_pairs.items():
        lines = " and ".join(f'"{one}" = "{minor}"' for one in torch)
        print(f"envs/tiers.toml [pairs] needs {lines}")
    for version in change.unknown:
        minor = bump.minor_of(version)
        command = tiers.command(f"smforge channel bump {args.name} --pair {minor}=2.X,2.Y")
        print(f"{version} is newer: which pytorch does Triton {minor} pair with? Run {command}")
    if not args.dry_run:
        for path, text in change.files.items():
            path.write_text(text, "utf-8")


def answer(pair: str) -> tuple[str, tuple[str, ...]]:
    """("3.8", ("2.14", "2.15")) for "3.8=2.14,2.15"."""
    minor, _, torch = pair.partition("=")
    minors = tuple(torch.split(","))
    parts = [part for one in (minor, *minors) for part in one.split(".")]
    if len(parts) != 2 * (1 + len(minors)) or not all(part.isdigit() for part in parts):
        raise ConfigurationError(f"--pair {pair}: expected something like 3.8=2.14,2.15")
    return minor, minors
