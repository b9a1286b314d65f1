"""A small GPT in plain PyTorch: pre-norm blocks, learned positions, one table in and out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The sizes that make a model; `width` is a multiple of `heads`."""

    layers: int
    heads: int
    width: int
    block_size: int
    vocabulary: int


class Block(nn.Module):
    """Causal self-attention, then a feed-forward network, each added to what came in."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.feed_in = nn.Linear(width, 4 * width)
        self.feed_out = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        batch, time, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.feed_out(functional.gelu(self.feed_in(self.feed_norm(x))))


class GPT(nn.Module):
    """Token ids in, logits or a mean cross-entropy out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.block_size, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.apply(_initialise)
        # Every block adds to the same stream twice, so its outputs start that much smaller.
        for name, weight in self.named_parameters():
            if name.endswith("_out.weight"):
                nn.init.normal_(weight, std=0.02 / (2 * shape.layers) ** 0.5)

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return logits (batch, time, vocabulary), or the mean loss in nats if targets are given.

        `ids` and `targets` are int64 of shape (batch, time), time at most `block_size`.
        """
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        # The head is the token table itself: one tensor, so a checkpoint holds it once.
        logits = functional.linear(self.norm(x), self.token.weight)
        if targets is None:
            return logits
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(p.numel() for p in self.parameters())

    @property
    def flops_per_token(self) -> int:
        """Operations of a training step for one token: 6 N + 12 L H Q T (PaLM, appendix B).

        N leaves the positions out, which are only added; attention counts as if it were not causal.
        """
        s = self.shape
        multiplied = self.size - self.position.weight.numel()
        return 6 * multiplied + 12 * s.layers * s.width * s.block_size

    @torch.no_grad()
    def generate(self, prompt: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Return `prompt` (1, time) followed by `count` byte ids drawn at temperature 0.8.

        Only the 256 byte ids are drawn, whatever the vocabulary. `generator` is on the CPU.
        """
        ids = prompt
        for _ in range(count):
            logits = self(ids[:, -self.shape.block_size :])[0, -1, :256].float().cpu()
            drawn = torch.multinomial(torch.softmax(logits / 0.8, 0), 1, generator=generator)
            ids = torch.cat([ids, drawn.view(1, 1).to(ids.device)], 1)
        return ids


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
