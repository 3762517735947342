"""A devnet's windows, as long beside a fault as production's are: a fault of seconds must leave time for what it delayed.

Production's windows are 30 minutes and more; here they are a minute, where a fault lasts some seconds.
"""

from __future__ import annotations

import dataclasses

from zoo_compute.spec.params import DEVNET, PRESETS

WINDOWS = dataclasses.replace(
    DEVNET, bid_window_s=15, reveal_window_s=60, ready_window_s=120, min_window_s=20, answer_s=60, benchmark_s=120
)


def use() -> None:
    """In this process, for good."""
    PRESETS[DEVNET.name] = WINDOWS
