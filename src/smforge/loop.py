"""The training loop: gradients, checkpoint, update, validation, and what is written at the end."""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from smforge import checkpoint, data, tiers
from smforge.data import Corpus
from smforge.engine import Engine
from smforge.errors import ConfigurationError, VerificationError
from smforge.progress import Bar, Metric, Metrics, clock, plot, printable
from smforge.stopping import Stop, Stopped

if TYPE_CHECKING:
    from smforge.train import Settings

FINAL_LR = 0.05  # the cosine ends at this share of the highest learning rate
VALIDATION_BYTES = 1 << 15  # seen by a validation on the way; the last one sees four times as many
TIMED_FROM = 10  # --minutes: the steps up to this one compile and warm up
SAMPLE_PROMPT, SAMPLE_BYTES, SAMPLE_LINES = b"def ", 500, 6


@dataclass(frozen=True)
class Result:
    """How a run ended; losses in nats per byte, `compile_failure` "" where it worked."""

    run: Path
    steps: int
    loss: float
    val_loss: float
    unigram: float
    bigram: float
    compile_failure: str


@dataclass
class Job:
    """A run under way; `done` updates were made, `saved` of them are in the checkpoint, if any."""

    run: Path
    settings: Settings
    corpus: Corpus
    engine: Engine
    stop: Stop
    done: int = 0
    saved: int | None = None
    saved_at: float = 0.0
    peak: float | None = None  # FLOP/s, for the model FLOPs utilisation

    def go(self, strict: bool) -> Result:
        """Train to the end, with one line for a disk that does not take what is written."""
        try:
            return self.start(strict)
        except BrokenPipeError:  # the reader of our lines left; the disk is fine
            raise
        except OSError as error:
            whole = f"its checkpoint of step {self.saved} is whole: make room, then "
            advice = f"{whole}{self.resume_command}" if self.saved is not None else "make room"
            raise ConfigurationError(
                f"{self.run} cannot be written ({error.strerror}); {advice}"
            ) from error

    def start(self, strict: bool) -> Result:
        """Save the first checkpoint, train, finish."""
        began, tables = time.perf_counter(), data.baselines(self.corpus)
        print(f"model     {self.engine.model.size:,} parameters; to beat: {tables.bigram:.3f} nats "
              f"per byte, a table of byte pairs ({tables.unigram:.3f}: of single bytes)",
              flush=True)  # fmt: skip
        if self.saved is None:
            self.save()
        with (
            Metrics(self.run / "metrics.jsonl", self.done) as metrics,
            Bar(self.settings.steps, self.mfu_of_a_token) as bar,
        ):
            if self.unfinished:
                self.engine.fit(*self.batch())
                self.engine.compile(self.run / "compile.log", strict, bar.say)
            else:
                bar.say(f"this run is finished at step {self.done}: --steps N takes it further")
            self.loop(bar, metrics)
        last = self.finish(metrics, {"byte pairs": tables.bigram, "single bytes": tables.unigram})
        print(f"done      validation {last.val_loss:.3f} nats per byte after {self.done} steps in "
              f"{clock(time.perf_counter() - began)} (byte pairs {tables.bigram:.3f}, single bytes "
              f"{tables.unigram:.3f}): {self.run}")  # fmt: skip
        failure = self.engine.compile_failure
        if failure:
            print(f"eager     torch.compile failed: {failure}")
        return Result(self.run, self.done, last.loss, last.val_loss or math.nan, tables.unigram,
                      tables.bigram, failure)  # fmt: skip

    def loop(self, bar: Bar, metrics: Metrics) -> None:
        """Step by step; a checkpoint holds weights that the next loss has shown to be good."""
        tokens = self.settings.batch_size * self.settings.block_size
        seconds: list[float] = []
        self.stop.waits = True
        while self.unfinished:
            started = time.perf_counter()
            loss = self.gradients()
            saving = self.save_if_due(bar)
            self.update()
            seconds.append(time.perf_counter() - started - saving)
            if not self.settings.steps and len(seconds) == TIMED_FROM:
                self.count_steps(statistics.median(seconds[1:]), bar)
            metric = Metric(self.done, loss, self.validate(), tokens / seconds[-1])
            metrics.add(metric)
            bar.step(metric, self.engine.memory)

    @property
    def mfu_of_a_token(self) -> float:
        """Model FLOPs utilisation at one token a second; 0 where the card's peak is unknown."""
        return self.engine.model.flops_per_token / self.peak if self.peak else 0.0

    @property
    def unfinished(self) -> bool:
        """Whether there are steps left, or it is not known yet how many there will be."""
        return not self.settings.steps or self.done < self.settings.steps

    @property
    def resume_command(self) -> str:
        """What goes on from the last checkpoint."""
        return f"{tiers.command('train')} --resume {self.run}"

    def batch(self) -> tuple[Tensor, Tensor]:
        """This step's batch, drawn from the seed and the step alone."""
        s = self.settings
        return data.batch(self.corpus.train, s.batch_size, s.block_size, s.seed, self.done)

    def gradients(self) -> float:
        """Compute this step's gradients; return its loss."""
        try:
            return self.engine.gradients(*self.batch())
        except VerificationError as error:
            raise VerificationError(
                f"step {self.done + 1}: {error}; the checkpoint of step {self.saved} in {self.run} "
                f"is good. Start anew with a smaller --lr ({self.settings.lr:g} was used)"
            ) from None

    def update(self) -> None:
        """Step along the gradients, at this step's learning rate."""
        self.engine.update(rate(self.settings, self.done))
        self.done += 1

    def save_if_due(self, bar: Bar) -> float:
        """Save now and then, and when told to stop; return the seconds it took."""
        now = time.perf_counter()
        if self.stop.signum or now - self.saved_at >= self.settings.save_every:
            self.save()
        if self.stop.signum:
            bar.say(f"stopped at step {self.done}; go on with {self.resume_command}")
            raise Stopped(self.stop.signum)
        return time.perf_counter() - now

    def save(self) -> None:
        """Write the checkpoint of `done` updates, unless it is there."""
        self.saved_at = time.perf_counter()
        if self.saved == self.done:
            return
        state = {
            "step": self.done,
            "settings": asdict(self.settings),
            "fingerprint": self.corpus.fingerprint,
            **self.engine.state(),
        }
        model = self.engine.model
        checkpoint.save(self.run, model.state_dict(), state, asdict(model.shape))
        self.saved, self.saved_at = self.done, time.perf_counter()

    def restore(self, weights: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Go on where a checkpoint was written."""
        self.engine.restore(weights, state)
        self.done = self.saved = state["step"]
        self.saved_at = time.perf_counter()

    def count_steps(self, seconds: float, bar: Bar) -> None:
        """Fix the number of steps now that the time of one is known."""
        steps = self.done + max(1, round(self.settings.minutes * 60 / seconds))
        self.settings = replace(self.settings, steps=steps)
        bar.total = steps
        bar.say(f"{self.settings.minutes:g} minutes at {seconds:.3f} s a step: {steps} steps")

    def validate(self) -> float | None:
        """The validation loss, where this step has one: over more bytes at the end."""
        last, size = self.done == self.settings.steps, self.settings.block_size
        if not last and self.done % self.settings.eval_every:
            return None
        count = max(1, VALIDATION_BYTES * (4 if last else 1) // size)
        windows = data.evenly(self.corpus.validation, count, size)
        return self.engine.evaluate(*windows, self.settings.batch_size)

    def finish(self, metrics: Metrics, tables: dict[str, float]) -> Metric:
        """Write the last checkpoint, the curve and a sample; return the last step's metric."""
        self.save()
        self.stop.waits = False
        plot(self.run / "loss.png", metrics.kept, tables)
        text = self.engine.sample(SAMPLE_PROMPT, SAMPLE_BYTES, self.settings.seed)
        sample = text.decode("utf-8", "replace")
        (self.run / "sample.txt").write_text(sample, "utf-8")
        shown = printable(sample, sys.stdout.encoding or "utf-8").splitlines()[:SAMPLE_LINES]
        print("sample    " + "\n          ".join(shown))
        return metrics.kept[-1] if metrics.kept else Metric(self.done, math.nan, self.validate(), 0)


def rate(settings: Settings, step: int) -> float:
    """Learning rate of a step (from 0): a linear rise, then a cosine if the end is known."""
    warmup = min(settings.warmup, settings.steps // 2) if settings.steps else settings.warmup
    if step < warmup:
        return settings.lr * (step + 1) / warmup
    if not settings.steps:
        return settings.lr
    done = (step - warmup) / (settings.steps - warmup)
    return settings.lr * (FINAL_LR + (1 - FINAL_LR) * (1 + math.cos(math.pi * done)) / 2)
