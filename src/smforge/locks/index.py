"""The channel a solve reads: conda-forge over the network, or a folder with the same index."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import zstandard
from rattler import Channel, Gateway, SparseRepoData

from smforge.errors import ConfigurationError

Source: TypeAlias = Channel | SparseRepoData
SUBDIRS = ("linux-64", "win-64", "noarch")


class Index:
    """Where packages come from, per subdir; made by `online` or `offline`."""

    def __init__(self, sources: dict[str, list[Source]], files: tuple[Path, ...] = ()) -> None:
        self._sources = sources
        self._files = files  # the plain index, where it lies on this machine
        self._mentioned: dict[str, bool] = {}
        self.gateway = Gateway()  # one for all solves: it remembers what it fetched

    def sources(self, subdir: str) -> list[Source]:
        """What the solver asks for `subdir` and noarch, highest channel first."""
        return self._sources[subdir]

    def mentions(self, name: str) -> bool:
        """Whether any record may depend on `name`; True where the index is not at hand."""
        if name not in self._mentioned:
            text = name.encode()
            found = any(text in file.read_bytes() for file in self._files)
            self._mentioned[name] = found or not self._files
        return self._mentioned[name]


def online(channels: tuple[str, ...]) -> Index:
    """The channels themselves, fetched and cached by rattler as pixi does it."""
    return Index({subdir: [Channel(url) for url in channels] for subdir in SUBDIRS})


@contextmanager
def offline(channels: tuple[str, ...], folder: Path) -> Iterator[Index]:
    """`folder/<subdir>/repodata.json[.zst]` in place of the manifest's only channel."""
    if len(channels) != 1:
        raise ConfigurationError(
            f"--channel-dir stands for one channel, but pixi.toml has {len(channels)}: "
            "solve without it"
        )
    channel = Channel(channels[0])
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="smforge-")))
        data, files = {}, []
        for subdir in SUBDIRS:
            path = _plain(folder / subdir, temporary / f"{subdir}.json")
            files.append(path)
            data[subdir] = stack.enter_context(_open(channel, subdir, path, folder))
        sources: dict[str, list[Source]] = {s: [data[s], data["noarch"]] for s in SUBDIRS[:2]}
        yield Index(sources, tuple(files))


def _plain(folder: Path, temporary: Path) -> Path:
    """The uncompressed index: rattler maps it into memory, so it has to be a plain file."""
    plain, packed = folder / "repodata.json", folder / "repodata.json.zst"
    if plain.is_file():
        return plain
    if not packed.is_file():
        raise ConfigurationError(
            f"{folder} holds no repodata.json(.zst): --channel-dir wants a folder with "
            f"{', '.join(SUBDIRS)}, each with its index"
        )
    try:
        with packed.open("rb") as source, temporary.open("wb") as target:
            shutil.copyfileobj(zstandard.ZstdDecompressor().stream_reader(source), target)
    except zstandard.ZstdError as error:
        raise ConfigurationError(f"{packed} is not a zstd file: {error}") from None
    return temporary


def _open(channel: Channel, subdir: str, path: Path, folder: Path) -> SparseRepoData:
    try:
        return SparseRepoData(channel, subdir, path)
    except Exception as error:  # rattler raises plain exceptions here
        reason = str(error).splitlines()[0]
        raise ConfigurationError(f"{folder / subdir} holds no conda index: {reason}") from None
