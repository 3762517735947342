"""Zoo Compute under its short name: `from gym import DistributedTrainer`. Not OpenAI Gym.

Every name of `zoo_compute` is here. The unrelated package `gym` of PyPI (reinforcement learning) has the same import name, and
cannot be installed beside this one: use its successor `gymnasium`, another virtual environment, or `zoo_compute` in place of `gym`.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

import zoo_compute

if TYPE_CHECKING:
    from zoo_compute import *  # noqa: F403

__all__ = list(zoo_compute.__all__)

_WAYS = (
    "For reinforcement learning install and import `gymnasium`, or use another virtual environment. "
    "Zoo Compute is importable as `zoo_compute` too."
)


def _other_gym() -> str:
    """The version of OpenAI Gym in this environment; empty without it."""
    try:
        return metadata.version("gym")
    except metadata.PackageNotFoundError:
        return ""


if _other_gym():
    raise ImportError(
        f"zoo-gym and gym {_other_gym()} (OpenAI Gym) are both installed; both write the module `gym`, so one of them is broken. "
        f"Run `pip uninstall gym zoo-gym`, then install the one you want. {_WAYS}"
    )


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(zoo_compute, name)
    raise AttributeError(
        f"module 'gym' has no attribute {name!r}: this is zoo-gym (Zoo Compute), not OpenAI Gym. {_WAYS}"
    )


def __dir__() -> list[str]:
    return sorted(__all__)
