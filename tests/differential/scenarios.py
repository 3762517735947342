"""All directed sequences, in the order of a job's life. Together they reach all that docs/protocol.md lists."""

from . import (
    admitting,
    auditing,
    clearing,
    delaying,
    holding,
    judging,
    opening,
    paying,
    promising,
    rewarding,
    running,
    watching,
)
from .opening import SCENARIOS, Scenario

__all__ = [
    "SCENARIOS",
    "Scenario",
    "admitting",
    "auditing",
    "clearing",
    "delaying",
    "holding",
    "judging",
    "opening",
    "paying",
    "promising",
    "rewarding",
    "running",
    "watching",
]
