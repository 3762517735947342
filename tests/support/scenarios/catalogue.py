"""All directed sequences, in the order of a job's life. Together they reach all that docs/protocol/ lists."""

from tests.support.scenarios import (
    admissions,
    auctions,
    audits,
    availability,
    clearing,
    delayed_jobs,
    disputes,
    explorations,
    payments,
    promises,
    rewards,
    rounds,
    windows,
    withheld_data,
)
from tests.support.scenarios.auctions import SCENARIOS, Scenario

__all__ = [
    "SCENARIOS",
    "Scenario",
    "admissions",
    "auctions",
    "audits",
    "availability",
    "clearing",
    "delayed_jobs",
    "disputes",
    "explorations",
    "payments",
    "promises",
    "rewards",
    "rounds",
    "windows",
    "withheld_data",
]
