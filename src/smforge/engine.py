"""One training step: gradients, in parts that fit, and the update; compiled while that works."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn

from smforge import compiling
from smforge.decisions import Decisions
from smforge.errors import GPUError, VerificationError
from smforge.model import GPT

Say = Callable[[str], None]


class Engine:
    """A model, its optimizer and the way its gradients are computed."""

    def __init__(
        self, model: GPT, decisions: Decisions, device: str, weight_decay: float, clip: float
    ) -> None:
        self.model = model.to(device)
        self.device = device
        self.clip = clip
        self.decisions = decisions
        self.dtype = getattr(torch, decisions.dtype.value)
        self.part = 0  # sequences computed at once; 0: all of a step's
        self.forward: Callable[..., Tensor] = model
        self.compile_failure = ""
        self._log, self._strict = Path("compile.log"), False
        self._say: Say = print
        self.fused = "fused" in decisions.optimizer.value
        self.optimizer = _optimizer(model, weight_decay, self.fused)
        self.scaler = _scaler(device == "cuda" and self.dtype is torch.float16)

    @property
    def compiled(self) -> bool:
        """Whether steps go through torch.compile."""
        return self.forward is not self.model

    def compile(self, log: Path, strict: bool, say: Say) -> None:
        """Compile from the next step on, if so decided; a failure there goes back to eager.

        Raises:
            ToolchainError: compiling failed under `strict`.
        """
        backend = self.decisions.compile.value
        if backend == "eager":
            return
        self._log, self._strict, self._say = log, strict, say
        try:
            if backend == "inductor":
                if missing := compiling.missing_compiler(os.environ, self.device):
                    raise RuntimeError(missing)
                if warning := compiling.blank_warning(os.environ):
                    say(f"warning: {warning}")
            # Shapes never change, but for a batch that is halved: then that one compiles anew.
            self.forward = torch.compile(self.model, backend=backend, dynamic=False)
            say(f"compiling with {backend}: the first step takes up to a minute")
        except Exception as error:  # torch 2.0 refuses Python 3.11 here; backends import here
            self._fall_back(error)

    def _fall_back(self, error: Exception) -> None:
        self.compile_failure = compiling.note_failure(error, self._log, self._strict, os.environ)
        self.forward = self.model
        self._say(f"torch.compile failed, going on in eager mode: {self.compile_failure}")

    def gradients(self, ids: Tensor, targets: Tensor) -> float:
        """Fill the gradients with those of a batch (batch, time) and return its mean loss.

        Out of memory: the batch is computed in more and smaller parts, with the same result.

        Raises:
            VerificationError: the loss or a gradient is not finite.
            GPUError: not even one sequence at a time fits.
        """
        while True:
            self.optimizer.zero_grad(set_to_none=True)
            try:
                return self._accumulate(ids, targets)
            except torch.cuda.OutOfMemoryError:
                shortage = True
            except (VerificationError, GPUError):
                raise
            except Exception as error:
                if not self.compiled:
                    raise
                shortage = False
                self._fall_back(error)
            # Outside the handler, whose traceback keeps the tensors of the failed try alive.
            if shortage:
                self._halve(len(ids))

    def _halve(self, count: int) -> None:
        part = smaller_part(count, self.part or count)
        if not part:
            raise GPUError("not even one sequence fits into the GPU's memory: take a smaller "
                           "--block-size, --layers or --width, or --tier cpu")  # fmt: skip
        self.part = part
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self._say(f"out of GPU memory: {part} sequences at a time, {count // part} times a step")

    def _accumulate(self, ids: Tensor, targets: Tensor) -> float:
        total = torch.zeros((), device=self.device)
        for part, wanted in self._parts(ids, targets):
            loss = self._loss(self.forward, part, wanted) * (len(part) / len(ids))
            self.scaler.scale(loss).backward()
            total += loss.detach()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        # float16 overflows now and then: the scaler then skips the update and lowers its scale.
        finite = torch.isfinite(total) & (torch.isfinite(norm) | self.scaler.is_enabled())
        if not finite:
            raise VerificationError(f"the loss is {total.item()} (gradient norm {norm.item()})")
        return total.item()

    def _parts(self, ids: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        size = self.part or len(ids)
        for start in range(0, len(ids), size):
            both = ids[start : start + size], targets[start : start + size]
            yield both[0].to(self.device), both[1].to(self.device)

    def _loss(self, forward: Callable[..., Tensor], ids: Tensor, targets: Tensor) -> Tensor:
        with self._autocast():
            return forward(ids, targets)

    def _autocast(self) -> AbstractContextManager[Any]:
        enabled = self.dtype is not torch.float32
        return torch.autocast(self.device, dtype=self.dtype if enabled else None, enabled=enabled)

    def update(self, lr: float) -> None:
        """Step the optimizer along the gradients."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.step(self.optimizer)
        self.scaler.update()

    @torch.no_grad()
    def evaluate(self, ids: Tensor, targets: Tensor, batch_size: int) -> float:
        """Mean loss over windows (count, time), in eager mode, which needs no build."""
        total, size = 0.0, self.part or batch_size
        for start in range(0, len(ids), size):
            part = ids[start : start + size].to(self.device)
            wanted = targets[start : start + size].to(self.device)
            total += self._loss(self.model, part, wanted).item() * len(part)
        return total / len(ids)

    def sample(self, prompt: bytes, count: int, seed: int) -> bytes:
        """Continue a prompt by `count` bytes; the same seed and weights give the same ones."""
        ids = torch.tensor([list(prompt)], device=self.device)
        with self._autocast():
            drawn = self.model.generate(ids, count, torch.Generator().manual_seed(seed))
        return bytes(drawn[0].tolist())

    def fit(self, ids: Tensor, targets: Tensor) -> None:
        """Find how much of a batch the GPU holds, before anything is compiled for it.

        The optimizer's two moments are not there yet: as much memory is held while trying.
        """
        if self.device == "cpu":
            return
        moments = [torch.empty_like(p) for p in self.model.parameters() for _ in range(2)]
        self.gradients(ids, targets)
        self.optimizer.zero_grad(set_to_none=True)
        # The scaler refuses to unscale twice without an update between.
        self.scaler = _scaler(self.scaler.is_enabled())
        del moments
        torch.cuda.empty_cache()

    @property
    def memory(self) -> int:
        """Bytes in use: the peak on the GPU, or what this process holds."""
        if self.device == "cuda":
            return torch.cuda.max_memory_allocated()
        return int(psutil.Process().memory_info().rss)

    def state(self) -> dict[str, Any]:
        """All that the next step depends on beside the weights; plain values and tensors."""
        cuda = self.device == "cuda"
        return {
            "optimizer": self.optimizer.state_dict()["state"],
            "scaler": self.scaler.state_dict(),
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if cuda else [],
        }

    def restore(self, model: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Go back to a checkpoint; the decisions (fused or not, dtype) stay this machine's."""
        self.model.load_state_dict(model)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        for moments in self.optimizer.state.values():  # torch 2.0 leaves it where it was saved
            moments["step"] = moments["step"].to(self.device if self.fused else "cpu")
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        torch.set_rng_state(state["rng"])
        if self.device == "cuda" and len(state["cuda_rng"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["cuda_rng"])


def smaller_part(count: int, part: int) -> int:
    """The largest divisor of `count` that is at most half of `part`; 0 when there is none."""
    return max((d for d in range(1, part // 2 + 1) if count % d == 0), default=0)


def _optimizer(model: GPT, weight_decay: float, fused: bool) -> torch.optim.AdamW:
    """Matrices decay; biases and norms do not."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), fused=fused)


def _scaler(enabled: bool) -> Any:
    """torch.amp.GradScaler came with torch 2.3; before it there is the one of torch.cuda."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cuda", enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)
