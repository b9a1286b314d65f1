"""Which cell a free core compiles next: the longest first, and few starts of compilers."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from smforge.kernels import catalogue
from smforge.verify.cells import Cell

# CPU seconds of a cell (Triton 3.7, 2.5 GHz Xeon, 2026-11-21); other Triton cells take half of one.
_SECONDS = {
    "attention-backward": 2.2, "attention": 1.3, "gemm": 0.9, "layer-norm-backward": 0.9,
}  # fmt: skip


def seconds(cell: Cell) -> float:
    """About how long a cell takes, to sort by."""
    if cell.tool.startswith("nvrtc"):
        return 0.2
    return _SECONDS.get(catalogue.CASES[cell.case].family, 0.5)


class Order:
    """Hands out the indices of cells, each once, to threads that name the tool they have running.

    A thread keeps its tool while cells are left for it: a start costs as much as a cell. Then it
    takes the tool that the fewest threads are at, and of those the one with the most work left.
    """

    def __init__(self, cells: Iterable[tuple[int, Cell]]) -> None:
        self._left: dict[str, list[tuple[float, int]]] = {}
        for index, cell in cells:
            self._left.setdefault(cell.tool, []).append((seconds(cell), -index))
        for cells_of_tool in self._left.values():
            cells_of_tool.sort()
        self._at: dict[str, int] = dict.fromkeys(self._left, 0)
        self._lock = threading.Lock()

    def take(self, tool: str) -> tuple[int, str]:
        """The next cell's index and its tool; `tool` is the one of the last answer, "" at first.

        To be called once a cell.
        """
        with self._lock:
            chosen = tool if self._left.get(tool) else self._next(tool)
            return -self._left[chosen].pop()[1], chosen

    def _next(self, tool: str) -> str:
        if tool:
            self._at[tool] -= 1
        waiting = [name for name, cells in self._left.items() if cells]
        chosen = min(waiting, key=lambda name: (self._at[name], -self._work(name)))
        self._at[chosen] += 1
        return chosen

    def _work(self, tool: str) -> float:
        return sum(weight for weight, _ in self._left[tool])
