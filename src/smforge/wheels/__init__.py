"""The wheel engine behind pixiw: pixi.toml's tasks in a virtual environment of pinned wheels.

Standard library alone: any Python >= 3.11 starts it (`python3 src/smforge/wheels run train`).
"""
