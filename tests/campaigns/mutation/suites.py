"""What must notice a change of a contract: files of tests, those that notice most first."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CONTRACTS = ROOT / "contracts"
EVENTS = "contracts/test_events.py"
WIRING = "contracts/test_wiring.py"
MONEY = "contracts/test_money.py"
SCENARIOS = "differential/test_scenarios.py"  # contract against specification: they have the plain refusals
SUITES = {
    "ZenToken": ("contracts/test_zen.py", WIRING, MONEY),
    "Timelock": (MONEY, WIRING),
    "Treasury": (MONEY, EVENTS, WIRING),
    "AuditPool": (MONEY, EVENTS, WIRING),
    "Credits": ("contracts/test_credits.py", EVENTS, WIRING, SCENARIOS),
    "Guardian": ("contracts/test_guardian.py", EVENTS, WIRING, SCENARIOS),
    "NodeRegistry": (
        "contracts/test_registry.py",
        "contracts/test_promises.py",
        EVENTS,
        WIRING,
        MONEY,
        "contracts/test_convictions.py",
        "contracts/test_auction.py",
        SCENARIOS,
    ),
    "TaskRegistry": (
        "contracts/test_tasks.py",
        EVENTS,
        WIRING,
        MONEY,
        "contracts/test_ending.py",
        "contracts/test_settlement.py",
        SCENARIOS,
    ),
    "Rewards": (
        "contracts/test_rewards.py",
        "contracts/test_rewards_receipts.py",
        "contracts/test_rewards_data.py",
        EVENTS,
        WIRING,
        MONEY,
    ),
    "Datasets": ("contracts/test_rewards_data.py", EVENTS, WIRING),
    "Channels": ("contracts/test_channels.py", WIRING, SCENARIOS),
    "Auction": (
        "contracts/test_auction.py",
        "contracts/test_clearing.py",
        EVENTS,
        WIRING,
        "contracts/test_takeover.py",
        "contracts/test_ending.py",
        SCENARIOS,
    ),
    "Locks": (
        "contracts/test_convictions.py",
        "contracts/test_takeover.py",
        "contracts/test_dispute_ends.py",
        "contracts/test_ending.py",
        "contracts/test_parking.py",
        EVENTS,
        WIRING,
        SCENARIOS,
    ),
    "Settlement": (
        "contracts/test_takeover.py",
        "contracts/test_turns.py",
        "contracts/test_convictions.py",
        "contracts/test_dispute_ends.py",
        "contracts/test_parking.py",
        "contracts/test_ending.py",
        "contracts/test_settlement.py",
        "contracts/test_rollbacks.py",
        WIRING,
        SCENARIOS,
    ),
    "Audits": (
        "contracts/test_audits.py",
        "contracts/test_tokens.py",
        WIRING,
        SCENARIOS,
    ),
    "Availability": (
        "contracts/test_availability.py",
        "contracts/test_availability_ends.py",
        "contracts/test_availability_signers.py",
        WIRING,
    ),
    "Custody": ("differential/test_custody.py", "differential/test_custody_events.py", WIRING, SCENARIOS),
    "Admissions": ("contracts/test_admissions.py", WIRING),
    "Serving": (SCENARIOS, WIRING, "referee/test_askers_answers.py"),
    "OpExecutor": ("referee/test_operators.py",),
    "Evidence": ("referee/test_evidence_parts.py",),
    "ConsistencyProofs": (
        "referee/test_evidence_bindings.py",
        "referee/test_evidence_data.py",
        "referee/test_evidence_updates.py",
    ),
    "Descent": (
        "contracts/test_one_result.py",
        "referee/test_referee_paths.py",
        "referee/test_referee_refusals.py",
        "referee/test_referee_walk.py",
        "referee/test_askers.py",
    ),
    "Referee": (
        "contracts/test_one_result.py",
        "referee/test_referee_paths.py",
        "referee/test_referee_refusals.py",
        "referee/test_referee_ends.py",
        "referee/test_referee_attacks.py",
        "referee/test_referee_hostile.py",
        "referee/test_referee_walk.py",
        "referee/test_askers_trials.py",
    ),
    "mocks/Float32Harness": ("referee/test_float32.py",),
    "mocks/MerkleDouble": ("contracts/test_merkle.py",),
}
# More of contract against specification, which takes minutes where a mutant survives: `--whole` has it too.
WALKS = "differential/test_rewards.py"
LAWS = {
    "NodeRegistry": (WALKS,),
    "Rewards": (WALKS, SCENARIOS),
    "Datasets": (WALKS,),
    "Availability": (SCENARIOS,),
    "Admissions": (SCENARIOS,),
}
# Each takes longer than all others of its file together, and none is needed for one function alone.
LEFT_OUT = (
    "a_bid_takes_the_place_of_a_spent_one_256_jobs_before",
    "a_job_has_at_most_128_seats",
    "test_post_checkpoint__128_seats__counts_every_bit",
    # These say what the other tests of their file have reached: run first, or alone, they fail.
    "test_every_function_state_and_refusal_of_the_protocol_is_reached",
    "test_every_refusal_of_the_contracts__was_met_here",
)


@cache
def imports(path: Path) -> frozenset[Path]:
    """The modules of ours that a source imports, by way of others too."""
    modules = set()
    for dots, package, name in re.findall(r"^from (\.+)([\w.]*) ?import (\w+)", path.read_text(), re.MULTILINE):
        module = path.parents[len(dots) - 1].joinpath(*package.split("."), f"{name}.vy")
        if module.exists():
            modules |= {module, *imports(module)}
    return frozenset(modules)


def users(path: Path) -> list[str]:
    """The contracts that a source is part of: itself, or those that import it."""
    if path.parent == CONTRACTS:
        return [path.stem]
    return [name for name in SUITES if path in imports(CONTRACTS / f"{name}.vy")]


def files(contracts: list[str], *, whole: bool = False) -> list[str]:
    """The files of tests that look at any of these contracts."""
    suites = [SUITES[name] for name in contracts] + [LAWS.get(name, ()) for name in contracts if whole]
    columns = (suite[at] for at in range(max(map(len, suites))) for suite in suites if at < len(suite))
    return [f"tests/{name}" for name in dict.fromkeys(columns)]
