"""Read a .conda archive and write it again so that the same content gives the same bytes.

A .conda file is a zip of `metadata.json` and two zstandard-compressed tar archives, `pkg-*` (what
is installed) and `info-*` (its metadata). Order, owners, times and the build time in
`info/index.json` are what makes two builds of the same files differ.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smforge import tiers
from smforge.errors import ToolchainError

# The oldest time that a zip can hold; every zip entry gets it.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


class DamagedArchiveError(ToolchainError):
    """A file in a channel is no whole .conda archive."""


def read_parts(path: Path, kinds: tuple[str, ...] = ("",)) -> dict[str, bytes]:
    """The members of the zip whose names start with one of `kinds`, each `.tar.zst` decompressed.

    Raises:
        DamagedArchiveError: the file is truncated or no zip of zstandard streams.
    """
    import zstandard

    parts: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in (n for n in archive.namelist() if n.startswith(kinds)):
                data = archive.read(name)
                if name.endswith(".tar.zst"):
                    data = decompress(data)
                parts[name] = data
    except (zipfile.BadZipFile, zstandard.ZstdError, EOFError) as error:
        raise DamagedArchiveError(
            f"{path} is damaged ({error}): delete it and run {tiers.command('channel build')} again"
        ) from None
    return parts


def decompress(data: bytes) -> bytes:
    """A zstandard frame's content: in one step where the frame says how long it is."""
    import zstandard

    unpacker = zstandard.ZstdDecompressor()
    told = zstandard.frame_content_size(data) >= 0
    content: bytes = (
        unpacker.decompress(data) if told else unpacker.stream_reader(io.BytesIO(data)).read()
    )
    return content


def read_files(path: Path, kind: str) -> dict[str, bytes]:
    """The files of the package's "info" or "pkg" tar, by their path."""
    parts = read_parts(path, (f"{kind}-",))
    if len(parts) != 1:
        raise DamagedArchiveError(f"{path} is no conda package: it has no {kind}-*.tar.zst")
    try:
        with tarfile.open(fileobj=io.BytesIO(*parts.values())) as tar:
            return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]
    except tarfile.TarError as error:
        raise DamagedArchiveError(
            f"{path} is damaged ({error}): delete it and build again"
        ) from None


def read_info(path: Path) -> dict[str, bytes]:
    """The files below `info/`, by their path."""
    return read_files(path, "info")


def index_record(path: Path) -> dict[str, Any]:
    """`info/index.json` of a package."""
    record: dict[str, Any] = json.loads(read_info(path)["info/index.json"])
    return record


def rewrite(
    source: Path, target: Path, epoch: int, extra: Mapping[str, str], level: int = 3
) -> None:
    """Write `source` to `target` with fixed order, owners and times.

    Args:
        epoch: seconds since 1970, the time of every file and of the record.
        extra: added to `info/about.json` under "extra".
        level: zstandard's compression level.
    """
    import zstandard

    def normalise(name: str, data: bytes) -> bytes:
        if name == "info/index.json":
            data = dump(json.loads(data) | {"timestamp": epoch * 1000})
        elif name == "info/about.json":
            about = json.loads(data)
            about["extra"] = about.get("extra", {}) | dict(extra)
            data = dump(about)
        return data

    # threads=-1: one for each core. How many there are does not change the bytes.
    compress = zstandard.ZstdCompressor(level=level, threads=-1).compress
    partial = target.with_name(target.name + ".part")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            for name, data in sorted(read_parts(source).items(), key=zip_order):
                if name.endswith(".tar.zst"):
                    data = compress(rewrite_tar(data, epoch, normalise))  # noqa: PLW2901
                # conda finds its two tars by the file's own name
                archive.writestr(zipfile.ZipInfo(renamed(name, target), ZIP_TIME), data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def zip_order(item: tuple[str, bytes]) -> tuple[int, str]:
    """metadata.json first and info last, where readers look for them."""
    name = item[0]
    return (0 if name == "metadata.json" else 1 + name.startswith("info-"), name)


def renamed(name: str, target: Path) -> str:
    """`pkg-x.tar.zst` named after the file that will hold it."""
    kind = name.partition("-")[0]
    return f"{kind}-{target.stem}.tar.zst" if name.endswith(".tar.zst") else name


def rewrite_tar(data: bytes, epoch: int, normalise: Callable[[str, bytes], bytes]) -> bytes:
    """The tar with its members sorted, without owners, at one time; `info/` normalised."""
    content = memoryview(data)  # its slices are no copies: a package holds hundreds of MB
    parts: list[bytes | memoryview] = []
    with tarfile.open(fileobj=io.BytesIO(data)) as old:
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            size = member.size if member.isfile() else 0
            body: bytes | memoryview = content[member.offset_data : member.offset_data + size]
            if member.name.startswith("info/"):
                body = normalise(member.name, bytes(body))
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.linkname, entry.size = member.type, member.linkname, len(body)
            entry.mode = 0o755 if member.mode & 0o100 else 0o644
            entry.mtime = epoch
            parts += [entry.tobuf(tarfile.GNU_FORMAT), body, bytes(-len(body) % tarfile.BLOCKSIZE)]
    return b"".join([*parts, bytes(2 * tarfile.BLOCKSIZE)])


def dump(value: Any) -> bytes:
    """JSON with sorted keys."""
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
