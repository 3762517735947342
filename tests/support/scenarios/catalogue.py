"""All directed sequences, in the order of a job's life. Together they reach all that docs/protocol/ lists."""

from tests.support.scenarios import (
    admissions,
    auctions,
    audited_lies,
    audits,
    availability,
    channels,
    clearing,
    convictions,
    credits,
    custody,
    custody_ends,
    custody_turns,
    delayed_jobs,
    disputes,
    explorations,
    governance,
    halts,
    misses,
    parking,
    payments,
    promises,
    requirements,
    rewards,
    rounds,
    serving,
    several_aggregators,
    signers,
    windows,
    withheld_data,
)
from tests.support.scenarios.auctions import SCENARIOS, Scenario

# The Referee keeps hashes of records, and of addresses: these are no sequences of names, and have no vectors.
EXPLORING = {
    name
    for name, play in SCENARIOS.items()
    if play.__module__ in (explorations.__name__, audited_lies.__name__, serving.__name__)
    or "ExploredJob" in play.__code__.co_names
}

__all__ = [
    "EXPLORING",
    "SCENARIOS",
    "Scenario",
    "admissions",
    "auctions",
    "audited_lies",
    "audits",
    "availability",
    "channels",
    "clearing",
    "convictions",
    "credits",
    "custody",
    "custody_ends",
    "custody_turns",
    "delayed_jobs",
    "disputes",
    "explorations",
    "governance",
    "halts",
    "misses",
    "parking",
    "payments",
    "promises",
    "requirements",
    "rewards",
    "rounds",
    "serving",
    "several_aggregators",
    "signers",
    "windows",
    "withheld_data",
]
