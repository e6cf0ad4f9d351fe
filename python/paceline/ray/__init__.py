"""Sweeps over a Ray cluster: `pip install paceline[ray]`.

    import paceline.ray
    found = paceline.ray.sweep("chain.toml", "captures/", strategies=["rss", "scr"], out="sweep", address="HOST:6379")

Each comparison is a task; a task that loses its worker is run again on another. `paceline sweep --ray ADDRESS` does the same.
"""

from paceline.ray._cluster import connected
from paceline.ray._sweep import sweep

__all__ = ["connected", "sweep"]
