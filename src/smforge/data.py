"""Bytes to train on: the standard library's own source, or the files and folders of `--data`.

Files are deduplicated and split by the sha256 of their content, so the split is the same on every
machine that has the same files, in whatever order and place they lie.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from smforge.errors import ConfigurationError

VALIDATION_SHARE = 0.1
# Left out of the standard library: what is not part of it, and tests, which only some
# distributions install.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
CHUNK = 1 << 24  # tokens counted at once: bounds the memory of a count over many gigabytes


@dataclass(frozen=True)
class Corpus:
    """Tokens (uint8, one dimension) for training and validation."""

    train: Tensor
    validation: Tensor
    fingerprint: str  # sha256 over the files' own: the same files give the same
    description: str


def load(paths: Sequence[str], block_size: int) -> Corpus:
    """Read, deduplicate and split the data; `ConfigurationError` says what is wrong with it."""
    files = _listed(paths) if paths else _standard_library()
    contents = {hashlib.sha256(text).hexdigest(): text for text in map(_read, files)}
    contents = {digest: contents[digest] for digest in sorted(contents) if contents[digest]}
    where = " ".join(paths) or "the standard library of this Python"
    if not contents:
        raise ConfigurationError(f"the data is empty: {where} holds no bytes to train on")
    train, validation, how = _split(contents)
    corpus = Corpus(
        train=_tokens(train),
        validation=_tokens(validation),
        fingerprint=hashlib.sha256("".join(contents).encode()).hexdigest(),
        description=f"{where}: {len(contents)} different files, {how}",
    )
    _require_length(corpus, block_size)
    return corpus


def _require_length(corpus: Corpus, block_size: int) -> None:
    shortest = min(len(corpus.train), len(corpus.validation))
    if shortest <= block_size:
        raise ConfigurationError(
            f"the data is too small: its smaller part has {shortest} bytes and --block-size "
            f"{block_size} needs {block_size + 1}; give more --data or a smaller --block-size"
        )


def _listed(paths: Sequence[str]) -> list[Path]:
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            files += _walk(path, skipped=set())
        elif path.exists():
            files.append(path)
        else:
            raise ConfigurationError(f"--data {path}: there is no such file or folder")
    return files


def _standard_library() -> list[Path]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = [path for path in _walk(folder, SKIPPED) if path.suffix == ".py"]
    if not files:
        raise ConfigurationError(
            f"this Python has no source of its standard library in {folder}: give --data PATH"
        )
    return files


def _walk(folder: Path, skipped: set[str]) -> Iterator[Path]:
    """Yield the regular files below a folder; hidden folders are left out, links not followed."""

    def stop(error: OSError) -> None:
        raise ConfigurationError(f"--data {error.filename}: cannot be read ({error.strerror})")

    for parent, folders, names in os.walk(folder, onerror=stop):
        folders[:] = sorted(n for n in folders if n not in skipped and not n.startswith("."))
        yield from (path for name in sorted(names) if (path := Path(parent, name)).is_file())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"--data {path}: cannot be read ({reason})") from error


def _split(contents: dict[str, bytes]) -> tuple[bytes, bytes, str]:
    """Split by file: a file whose digest falls into the first tenth is for validation.

    Too few files to leave something on both sides: the last tenth of their bytes is.
    """
    limit = int(VALIDATION_SHARE * 2**32)
    held = {digest for digest in contents if int(digest[:8], 16) < limit}
    train = b"".join(text for digest, text in contents.items() if digest not in held)
    validation = b"".join(contents[digest] for digest in contents if digest in held)
    if train and len(validation) >= len(train) * VALIDATION_SHARE / 4:
        return train, validation, f"{len(held)} of them for validation"
    whole = b"".join(contents.values())
    cut = int(len(whole) * (1 - VALIDATION_SHARE))
    return whole[:cut], whole[cut:], "the last tenth of their bytes for validation"


def _tokens(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.empty(0)


def batch(
    tokens: Tensor, count: int, block_size: int, seed: int, step: int
) -> tuple[Tensor, Tensor]:
    """Return inputs and targets (int64, (count, block_size)) that depend on seed and step alone."""
    mixed = hashlib.sha256(f"{seed}:{step}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(mixed[:8], "big") >> 1)
    starts = torch.randint(len(tokens) - block_size, (count,), generator=generator)
    return _windows(tokens, starts, block_size)


def evenly(tokens: Tensor, count: int, block_size: int) -> tuple[Tensor, Tensor]:
    """Return at most `count` windows spread evenly over the tokens, the same ones every time."""
    count = min(count, (len(tokens) - 1) // block_size)
    starts = torch.linspace(0, len(tokens) - block_size - 1, count).long()
    return _windows(tokens, starts, block_size)


def _windows(tokens: Tensor, starts: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    rows = tokens[starts[:, None] + torch.arange(block_size + 1)].long()
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


@dataclass(frozen=True)
class Baselines:
    """Validation losses, in nats per byte, of tables counted on the training part."""

    unigram: float
    bigram: float


def baselines(corpus: Corpus) -> Baselines:
    """Return what a model must beat; counts have one added to each, so no loss is infinite."""
    counts, seen = _pairs(corpus.train), _pairs(corpus.validation)
    bigram = torch.log((counts + 1) / (counts + 1).sum(1, keepdim=True))
    bytes_seen = counts.sum(0) + 1
    single = torch.log(bytes_seen / bytes_seen.sum())
    total = seen.sum()
    return Baselines(
        unigram=-((seen * single).sum() / total).item(),
        bigram=-((seen * bigram).sum() / total).item(),
    )


def _pairs(tokens: Tensor) -> Tensor:
    """Count each pair of neighbouring bytes: float64, (256, 256), first byte by second."""
    counts = torch.zeros(256 * 256, dtype=torch.int64)
    for start in range(0, len(tokens) - 1, CHUNK):
        part = tokens[start : start + CHUNK + 1].long()
        counts += torch.bincount(part[:-1] * 256 + part[1:], minlength=256 * 256)
    return counts.view(256, 256).double()
