"""Reading, deduplicating, splitting and drawing from the data."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from smforge import data
from smforge.errors import ConfigurationError


def write(folder: Path, count: int = 40) -> Path:
    """Files of different content."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number}.txt").write_text(f"file {number}\n" * 20)
    return folder


def test_the_standard_library_gives_megabytes_without_its_tests() -> None:
    corpus = data.load((), 128)
    assert len(corpus.train) > 5_000_000
    assert 0.03 < len(corpus.validation) / len(corpus.train) < 0.25
    assert corpus.train.dtype is torch.uint8


def test_a_file_is_either_for_training_or_for_validation(tmp_path: Path) -> None:
    corpus = data.load([str(write(tmp_path))], 8)
    train, validation = (bytes(part.tolist()) for part in (corpus.train, corpus.validation))
    for number in range(40):
        line = f"file {number}\n".encode()
        assert (line in train) != (line in validation)


def test_the_split_depends_on_content_and_not_on_names_or_order(tmp_path: Path) -> None:
    first = data.load([str(write(tmp_path / "a"))], 8)
    for number, path in enumerate(sorted(write(tmp_path / "b").iterdir())):
        path.rename(path.with_name(f"renamed-{99 - number}"))
    second = data.load([str(tmp_path / "b")], 8)
    assert torch.equal(first.train, second.train)
    assert torch.equal(first.validation, second.validation)
    assert first.fingerprint == second.fingerprint


def test_copies_of_a_file_count_once(tmp_path: Path) -> None:
    once = data.load([str(write(tmp_path / "a"))], 8)
    write(tmp_path / "twice")
    twice = data.load([str(tmp_path / "a"), str(tmp_path / "twice")], 8)
    assert torch.equal(once.train, twice.train)


def test_another_content_has_another_fingerprint(tmp_path: Path) -> None:
    before = data.load([str(write(tmp_path))], 8)
    (tmp_path / "0.txt").write_text("changed")
    assert data.load([str(tmp_path)], 8).fingerprint != before.fingerprint


def test_a_single_file_is_split_within(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_bytes(bytes(range(200)))
    corpus = data.load([str(path)], 8)
    assert (len(corpus.train), len(corpus.validation)) == (180, 20)


def test_hidden_folders_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "seen")
    plain = data.load([str(tmp_path)], 8)
    (write(tmp_path / ".git") / "secret").write_text("not to be read")
    assert data.load([str(tmp_path)], 8).fingerprint == plain.fingerprint


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere: there is no such file or folder"):
        data.load([str(tmp_path / "nowhere")], 8)


@pytest.mark.parametrize("content", [None, b""], ids=["empty-folder", "empty-file"])
def test_empty_data_is_said_to_be_empty(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(ConfigurationError, match="the data is empty"):
        data.load([str(tmp_path)], 8)


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path) / "3.txt"
    read = Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigurationError, match=r"3\.txt: cannot be read \(Permission denied\)"):
        data.load([str(tmp_path)], 8)


def test_data_smaller_than_a_block_names_both_sizes(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_bytes(b"x" * 100)
    with pytest.raises(ConfigurationError, match=r"has 10 bytes and --block-size 16 needs 17"):
        data.load([str(path)], 16)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    tokens = torch.arange(256, dtype=torch.uint8).repeat(8)
    first = data.batch(tokens, 4, 16, seed=1, step=7)
    torch.rand(3)
    again = data.batch(tokens, 4, 16, seed=1, step=7)
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], data.batch(tokens, 4, 16, seed=1, step=8)[0])
    assert not torch.equal(first[0], data.batch(tokens, 4, 16, seed=2, step=7)[0])


def test_targets_are_the_inputs_one_byte_later() -> None:
    tokens = torch.arange(200, dtype=torch.uint8)
    ids, targets = data.batch(tokens, 8, 16, seed=1, step=0)
    assert ids.shape == targets.shape == (8, 16)
    assert torch.equal(ids + 1, targets)


def test_batches_reach_the_first_and_the_last_byte() -> None:
    tokens = torch.arange(18, dtype=torch.uint8)
    ids, targets = data.batch(tokens, 64, 16, seed=1, step=0)
    assert ids.min() == 0
    assert targets.max() == 17


def test_validation_windows_span_the_whole_part() -> None:
    ids, targets = data.evenly(torch.arange(101, dtype=torch.uint8), 5, 10)
    assert ids[0, 0] == 0
    assert targets[-1, -1] == 100
    assert len(ids) == 5


def test_a_short_validation_part_gives_fewer_windows() -> None:
    assert len(data.evenly(torch.arange(35, dtype=torch.uint8), 100, 10)[0]) == 3


def corpus_of(train: bytes, validation: bytes) -> data.Corpus:
    parts = (torch.tensor(list(part), dtype=torch.uint8) for part in (train, validation))
    return data.Corpus(*parts, fingerprint="", description="")


def test_baselines_of_a_fair_coin_are_its_entropy() -> None:
    coin = bytes(torch.randint(2, (200_000,), generator=torch.Generator().manual_seed(0)).tolist())
    tables = data.baselines(corpus_of(coin, coin[:50_000]))
    assert tables.unigram == pytest.approx(math.log(2), abs=0.01)
    assert tables.bigram == pytest.approx(math.log(2), abs=0.01)


def test_pairs_foresee_what_single_bytes_cannot() -> None:
    alternating = bytes([0, 1]) * 50_000
    tables = data.baselines(corpus_of(alternating, alternating[:10_000]))
    assert tables.unigram == pytest.approx(math.log(2), abs=0.01)
    assert tables.bigram < 0.02


def test_pairs_across_chunks_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.randint(256, (1000,), dtype=torch.uint8)
    whole = data.baselines(data.Corpus(tokens, tokens, "", ""))
    monkeypatch.setattr(data, "CHUNK", 7)
    assert data.baselines(data.Corpus(tokens, tokens, "", "")) == whole
