"""Apply edits.toml to a source tree of PyTorch 2.0.1.

    python edits.py TREE --dry-run             show the difference, write nothing
    python edits.py TREE                       for Visual C++
    python edits.py TREE --for intel cmake4    for icx, and for CMake 4

All anchors are checked before a file is written; applied twice, it changes nothing.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

NEEDS = ("msvc", "intel", "clang-cl", "cmake4")
DATA = Path(__file__).with_name("edits.toml")


class EditError(Exception):
    """The data is wrong, or an anchor is missing or ambiguous; one line names which."""


@dataclass(frozen=True)
class Edit:
    """One fragment of one file and what replaces it."""

    id: str
    file: str  # relative to the tree
    anchor: str
    replacement: str
    count: int  # how often the anchor stands in the file
    needs: list[str]  # what fails without it, of NEEDS
    reason: str
    applied_to: str  # where it was tried


def load(path: Path = DATA) -> list[Edit]:
    """The rows of edits.toml, checked."""
    edits = []
    for row in tomllib.loads(path.read_text("utf-8"))["edit"]:
        try:
            edit = Edit(**row)
        except TypeError as error:
            raise EditError(f"{path.name}: {row.get('id', row)}: {error}") from None
        parts = Path(edit.file).parts
        if ".." in parts or Path(edit.file).is_absolute():
            raise EditError(f"{path.name}: {edit.id}: {edit.file} leaves the tree")
        if "\n" in edit.anchor + edit.replacement or not edit.anchor:
            raise EditError(f"{path.name}: {edit.id}: an anchor is part of one line")
        if edit.anchor in edit.replacement:
            raise EditError(f"{path.name}: {edit.id}: applied twice it would change again")
        if not edit.needs or set(edit.needs) - set(NEEDS):
            raise EditError(f"{path.name}: {edit.id}: needs is one or more of {', '.join(NEEDS)}")
        edits.append(edit)
    if len({edit.id for edit in edits}) != len(edits):
        raise EditError(f"{path.name}: two rows have the same id")
    return edits


def chosen(edits: Iterable[Edit], needs: Sequence[str]) -> list[Edit]:
    """The edits that one of `needs` calls for."""
    return [edit for edit in edits if set(edit.needs) & set(needs)]


def edited(edit: Edit, data: bytes) -> bytes:
    """`data` with the edit applied, or as it is where it was applied before."""
    anchor, replacement = edit.anchor.encode(), edit.replacement.encode()
    found = data.count(anchor)
    if found == edit.count:
        return data.replace(anchor, replacement)
    if found == 0 and data.count(replacement) == edit.count:
        return data
    what = "is missing" if found == 0 else f"stands there {found} times, expected {edit.count}"
    raise EditError(f"{edit.id}: {edit.file}: the anchor `{edit.anchor}` {what}")


def changes(edits: Iterable[Edit], tree: Path) -> dict[Path, bytes]:
    """The new content of every file that the edits change; nothing is written."""
    new: dict[Path, bytes] = {}
    for edit in edits:
        path = tree / edit.file
        if path not in new and not path.is_file():
            raise EditError(f"{edit.id}: {edit.file} is not in {tree}")
        new[path] = edited(edit, new.get(path) or path.read_bytes())
    return {path: data for path, data in new.items() if data != path.read_bytes()}


def apply(edits: Iterable[Edit], tree: Path) -> list[Path]:
    """Write the changed files; returns them."""
    new = changes(edits, tree)
    for path, data in new.items():
        partial = path.with_name(path.name + ".part")
        partial.write_bytes(data)  # bytes: line endings stay what they were
        partial.replace(path)
    return list(new)


def diff(edits: Iterable[Edit], tree: Path) -> str:
    """What `apply` would change, as a unified diff."""
    parts: list[str] = []
    for path, data in changes(edits, tree).items():
        name = path.relative_to(tree).as_posix()
        old = path.read_bytes().decode("utf-8", "replace").splitlines()
        new = data.decode("utf-8", "replace").splitlines()
        parts += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Apply or show; 0, or 2 with one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path, help="the unpacked source")
    parser.add_argument("--for", dest="needs", nargs="+", choices=NEEDS, default=["msvc"])
    parser.add_argument("--dry-run", action="store_true", help="show the difference alone")
    args = parser.parse_args(argv)
    try:
        edits = chosen(load(), args.needs)
        if args.dry_run:
            print(diff(edits, args.tree) or "nothing to change")
        else:
            for path in apply(edits, args.tree):
                print(f"edited {path}")
    except EditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
