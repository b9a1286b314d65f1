"""What a run shows and records: the live bar or plain lines, metrics.jsonl and loss.png."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


@dataclass(frozen=True)
class Metric:
    """One line of metrics.jsonl; losses in nats per byte, the loss before the step's update."""

    step: int
    loss: float
    val_loss: float | None
    tokens_per_s: float


class Bar:
    """A live bar on a terminal, a plain line now and then elsewhere (notebooks too).

    `total` may be 0 as long as the number of steps is not known; `mfu` is the model FLOPs
    utilisation at one token a second, 0 where it is not known. rich honours NO_COLOR.
    """

    def __init__(self, total: int, mfu: float = 0.0, console: Console | None = None) -> None:
        self.total, self._mfu = total, mfu
        self._console = console or Console()
        self._live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._first, self._began, self._said = 0, 0.0, 0.0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"),
            console=self._console,
        )  # fmt: skip
        self._task = self._bar.add_task("training", total=total or None, text="first step")

    def __enter__(self) -> Bar:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._bar.stop()

    def step(self, metric: Metric, memory: int) -> None:
        """Show a step; every line without a terminal costs a line of somebody's log."""
        now = time.perf_counter()
        text = self._text(metric, memory, now)
        if self._live:
            self._bar.update(self._task, completed=metric.step, total=self.total or None, text=text)
        elif now - self._said >= PLAIN_SECONDS or metric.step == self.total or metric.val_loss:
            self._said = now
            self.say(text)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _text(self, metric: Metric, memory: int, now: float) -> str:
        parts = [f"step {metric.step}/{self.total or '?'}", f"loss {metric.loss:.3f}"]
        if metric.val_loss is not None:
            parts.append(f"validation {metric.val_loss:.3f}")
        parts.append(f"{metric.tokens_per_s:,.0f} tokens/s")
        if self._mfu:
            parts.append(f"MFU {metric.tokens_per_s * self._mfu:.0%}")
        parts.append(f"{memory / 2**30:.1f} GiB")
        if not self._began:  # the first step compiles and warms up: what is left is told after it
            self._first, self._began = metric.step, now
        elif self.total:
            pace = (now - self._began) / (metric.step - self._first)
            parts.append(f"{clock(pace * (self.total - metric.step))} left")
        return "  ".join(parts)


def clock(seconds: float) -> str:
    """Minutes and seconds, as in 2:45; hours where there are some."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Metrics:
    """metrics.jsonl: one line a step, written at once, so that a kill loses at most the last."""

    def __init__(self, path: Path, done: int) -> None:
        """Go on after step `done`: lines of later steps, or half a line, are dropped."""
        self.kept = [metric for metric in read_metrics(path) if metric.step <= done]
        temporary = path.with_name(path.name + ".new")
        temporary.write_text("".join(map(_line, self.kept)), "utf-8")
        temporary.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def add(self, metric: Metric) -> None:
        """Append a line."""
        self.kept.append(metric)
        self._file.write(_line(metric))
        self._file.flush()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def printable(text: str, encoding: str) -> str:
    """Text with every control character replaced, in what a terminal's encoding can show."""
    text = "".join(c if c.isprintable() or c == "\n" else "." for c in text)
    return text.encode(encoding, "replace").decode(encoding)


def _line(metric: Metric) -> str:
    return json.dumps(asdict(metric)) + "\n"


def read_metrics(path: Path) -> list[Metric]:
    """The whole lines of a metrics.jsonl; a missing file has none, a half-written line is none."""
    metrics = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            metrics.append(Metric(**json.loads(line)))
        except (ValueError, TypeError):
            break
    return metrics


def plot(path: Path, metrics: Sequence[Metric], baselines: dict[str, float]) -> None:
    """Draw the losses over the steps, and the tables that the model must beat, into a PNG."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([m.step for m in metrics], [m.loss for m in metrics], lw=0.8, label="training")
    validated = [(m.step, m.val_loss) for m in metrics if m.val_loss is not None]
    if validated:
        axes.plot(*zip(*validated, strict=True), marker="o", label="validation")
    for shade, (name, loss) in zip(("0.7", "0.4"), baselines.items(), strict=False):
        axes.axhline(loss, color=shade, ls="--", lw=0.8, label=f"{name} table")
    axes.set(xlabel="step", ylabel="loss, nats per byte")
    axes.legend()
    temporary = path.with_name(path.name + ".new")
    FigureCanvasAgg(figure).print_png(temporary)
    temporary.replace(path)
