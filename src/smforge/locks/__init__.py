"""Solve, write, check, audit and export pixi.lock with rattler, the library inside pixi.

`manifest` reads pixi.toml, `index` the channel, `sources` the recipes; `solve` and `write` make the
lock; `read` and `check` hold it against the manifest; `audit`, `export` and `sbom` use it.
"""
