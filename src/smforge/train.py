"""Train a small GPT on this machine.

    ./pixiw run train                                 a few minutes, with or without a GPU
    ./pixiw run train --data notes.txt src            on your own files and folders
    ./pixiw run train --preset gpt2 --minutes 10      124 million parameters, for a GPU
    ./pixiw run train --steps 100 --width 128         any size of your own
    ./pixiw run train --resume                        go on with the newest run
    ./pixiw run train --preset gpt2 --compare 50      eager against compiled
    python -m smforge.train --help                    the same, in a Python of one's own

In a notebook: `from smforge.train import train; train(preset="tiny")`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smforge import activation, tiers
from smforge.errors import ConfigurationError, ToolchainError
from smforge.options import add_flags, preset_of, resolve, resumed, setting
from smforge.stopping import Stop, Stopped

if TYPE_CHECKING:
    from smforge.data import Corpus
    from smforge.decisions import Decisions, Place
    from smforge.engine import Engine
    from smforge.loop import Result

# -------------------------------------------------------------------------------------------------
# Settings: every field is a flag (block_size is --block-size), kept in the checkpoint
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What a run is made of."""

    preset: str = setting("tiny or gpt2 (gpt2 on a GPU with 8 GB)", tiny="tiny", gpt2="gpt2")
    # How long.
    steps: int = setting("optimizer steps; 0: as many as --minutes hold", tiny=600, gpt2=0)
    minutes: float = setting("train this long, counted after step 10", tiny=0, gpt2=10)
    # What a step sees: batch_size x block_size bytes.
    data: tuple[str, ...] = setting("files or folders to learn from (Python's own library)", ())
    batch_size: int = setting("sequences in a step", tiny=16, gpt2=32)
    block_size: int = setting("bytes in a sequence", tiny=128, gpt2=1024)
    seed: int = setting("draws the first weights and every batch", 1)
    # The model.
    layers: int = setting("transformer blocks", tiny=4, gpt2=12)
    heads: int = setting("attention heads in a block", tiny=4, gpt2=12)
    width: int = setting("size of a token's vector", tiny=192, gpt2=768)
    vocabulary: int = setting("rows of the token table", tiny=256, gpt2=50304)
    # The optimizer.
    lr: float = setting("highest learning rate", tiny=2e-3, gpt2=6e-4)
    warmup: int = setting("steps of rising learning rate", tiny=50, gpt2=100)
    weight_decay: float = setting("decay of the weight matrices", 0.1)
    grad_clip: float = setting("longest gradient", 1.0)
    # What the tier decides unless it is said here.
    tier: str | None = setting("decide as for this tier; 'cpu' always works (this machine's)", None)
    dtype: str | None = setting("float32, bfloat16 or float16 (the tier's)", None)
    compile: bool | None = setting("use torch.compile (as the tier says)", None)
    # What is written, and when.
    eval_every: int = setting("steps between two validations", 100)
    save_every: float = setting("seconds between two checkpoints", tiny=30, gpt2=120)


PRESETS = ("tiny", "gpt2")


# -------------------------------------------------------------------------------------------------
# A run, top to bottom
# -------------------------------------------------------------------------------------------------


def train(
    preset: str | None = None,
    *,
    out: str | Path = "runs",
    resume: bool | str | Path = False,
    compare: int = 0,
    strict: bool = False,
    **settings: Any,
) -> Result | None:
    """Train and return how it ended; with `compare`, time that many steps and return None.

    `settings` are the fields of `Settings`. `resume=True` goes on with the newest run in `out`.

    Raises:
        ConfigurationError: a setting, the data, or a folder that cannot be written.
        GPUError: the tier that was asked for, or is installed, cannot run on this machine.
        ToolchainError: a package is missing, or compiling failed under `strict`.
        VerificationError: the loss stopped being a number.
        Stopped: Ctrl-C or SIGTERM; the checkpoint was saved.
    """
    with Stop() as stop:
        import_packages()
        from smforge import checkpoint, data, decisions
        from smforge.compare import check_comparable, compare_steps
        from smforge.loop import Job

        weights: dict[str, Any] = {}
        state: dict[str, Any] = {}
        if preset:
            settings["preset"] = preset
        if resume:
            run = checkpoint.find_run("" if resume is True else str(resume), Path(out))
            weights, state = checkpoint.load(run)
            chosen = resumed(Settings, state["settings"], settings)
            place = decisions.here(chosen.tier)
        else:
            place = decisions.here(settings.get("tier"))
            base = preset_of(Settings, PRESETS, preset or decisions.default_preset(place))
            chosen = resolve(base, settings)
        decided = decisions.decide(place, chosen.dtype, chosen.compile)
        if compare:
            check_comparable(compare, decided.compile)
        corpus = data.load(chosen.data, chosen.block_size)
        if state and state["fingerprint"] != corpus.fingerprint:
            raise ConfigurationError(f"the data has changed since {run} was started: give back "
                                     "what it was, or start a new run")  # fmt: skip
        run = run if resume else checkpoint.new_run(Path(out))
        announce(run, place, decided, corpus, chosen)
        with decisions.applied(decided, place.device):
            engine = build(chosen, place, decided)
            job = Job(run, chosen, corpus, engine, stop, peak=decisions.peak(place, decided))
            if compare:
                compare_steps(job, lambda: build(chosen, place, decided), compare, strict)
                return None
            if state:
                job.restore(weights, state)
            return job.go(strict)


def import_packages() -> None:
    """Import what training needs, or name what is missing."""
    try:
        import matplotlib  # noqa: F401
        import psutil  # noqa: F401
        import rich  # noqa: F401
        import safetensors.torch  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise ToolchainError(
            f"{error.name or error} is missing from {sys.executable}: "
            f"{tiers.command('install')} makes an environment that has it"
        ) from None


def announce(
    run: Path, place: Place, decided: Decisions, corpus: Corpus, settings: Settings
) -> None:
    """Say once what was decided, and why."""
    import torch

    if place.warning:
        print(f"warning   {place.warning}")
    print(f"tier      {place.tier.name}: {place.reason} (torch {torch.__version__})")
    print("\n".join(decided.lines()))
    print(f"data      {corpus.description}")
    if settings.vocabulary > 256:
        print(f"note      bytes use 256 of the vocabulary's {settings.vocabulary:,} rows; the "
              "rest is there for the sake of speed figures")  # fmt: skip
    print(f"run       {run}", flush=True)


def build(settings: Settings, place: Place, decided: Decisions) -> Engine:
    """The model with its first weights, and what trains it."""
    import torch

    from smforge.engine import Engine
    from smforge.model import GPT, Shape

    torch.manual_seed(settings.seed)
    s = settings
    model = GPT(Shape(s.layers, s.heads, s.width, s.block_size, s.vocabulary))
    return Engine(model, decided, place.device, s.weight_decay, s.grad_clip)


# -------------------------------------------------------------------------------------------------
# The command
# -------------------------------------------------------------------------------------------------


def add_parser(commands: Any) -> None:
    """Add `train` and its flags to the command line."""
    description, _, examples = (__doc__ or "").partition("\n\n")
    parser = commands.add_parser(
        "train",
        help="train a small GPT on this machine",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flags(parser, Settings)
    parser.add_argument("--out", default="runs", metavar="DIR", help="folder of the runs (runs)")
    parser.add_argument("--resume", nargs="?", const=True, default=False, metavar="DIR",
                        help="go on with this run, or with the newest one")  # fmt: skip
    parser.add_argument("--compare", type=int, default=0, metavar="N",
                        help="only time N steps, in eager mode and compiled")  # fmt: skip
    parser.add_argument("--strict", action="store_true",
                        help="exit with 4 if torch.compile fails, instead of going on")  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train as the flags say."""
    activation.require_compiler(os.environ)
    settings = {name: value for name, value in vars(args).items() if name != "run"}
    try:
        train(**settings)
    except Stopped as stopped:
        print(f"smforge: stopped by {stopped}", file=sys.stderr)
        return stopped.exit_code
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run `smforge train` with these words, failures in one line."""
    from smforge import cli

    return cli.main(["train", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    raise SystemExit(main())
