"""smforge's conda channel: build the recipes, test, index, publish and serve what they make.

Needs py-rattler, py-rattler-build and zstandard: the tool environment has them.
"""

from __future__ import annotations
