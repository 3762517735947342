"""What the contracts' views must show for a world of the specification, key by key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from eth_abi import encode
from eth_utils import keccak

from zoo_compute.spec.state import (
    EMPTY_BYTES32,
    AggregatorSeat,
    Claim,
    Epoch,
    Seal,
    Share,
    Takeover,
    Vacancy,
    World,
)

SEAL_BYTES = 20  # a bid's word keeps the upper 160 bits


@dataclass(frozen=True)
class View:
    """One call of a view, and what it must answer: a value, or a record whose fields it must show."""

    contract: str
    name: str
    args: tuple[Any, ...]
    expected: Any


def seal_bytes(seal: Seal) -> bytes:
    values = (seal.job, seal.kind, seal.attempt, seal.operator, seal.price, seal.capacity, seal.salt)
    return keccak(encode(["uint256"] * 6 + ["bytes32"], values))


def stored_seal(seal: Seal | None) -> bytes:
    return seal_bytes(seal)[:SEAL_BYTES].ljust(32, b"\0") if seal else EMPTY_BYTES32


def claim_word(claim: Claim | None) -> bytes:
    if claim is None:
        return EMPTY_BYTES32
    types = ["uint256", "uint256", "bytes32", "uint256"]
    return keccak(encode(types, (claim.operator, claim.bitmap, claim.root, claim.deadline)))


def _record(contract: str, name: str, source: Callable[[World, Any], Any]) -> Callable[[World, Any], Iterator[View]]:
    def views(w: World, key: Any) -> Iterator[View]:
        args = key if isinstance(key, tuple) else (key,)
        yield View(contract, name, args, source(w, key))

    return views


def _operator_views(w: World, key: int) -> Iterator[View]:
    record = w.operator(key)
    yield View("registry", "operators", (key,), record)
    yield View("registry", "discount_bps", (key,), record.reputation)
    is_eligible = record.exit_at == 0 and record.stake >= w.config.preset.min_stake
    yield View("registry", "is_eligible", (key, record.hot), is_eligible)
    yield View("registry", "is_eligible", (key, w.config.registry), False)
    yield View("registry", "operator_count", (), len(w.operators))


def _job_views(w: World, key: int) -> Iterator[View]:
    yield View("tasks", "jobs", (key,), w.job(key))
    yield View("tasks", "job_count", (), len(w.jobs))


def _pool_views(w: World, key: str) -> Iterator[View]:
    yield View("rewards", "pool", (), w.pool)


# By the name of the World's dictionary: the views that show one of its keys.
VIEWS: dict[str, Callable[[World, Any], Iterator[View]]] = {
    "balances": lambda w, key: iter((View(f"token {key[0]}", "balanceOf", (key[1],), w.balances.get(key, 0)),)),
    "paused": lambda w, key: iter((View(key, "paused", (), w.paused.get(key, False)),)),
    "operators": _operator_views,
    "collateral": _record("registry", "collateral", lambda w, key: w.deposit_of(*key)),
    "pots": _record("registry", "pot", lambda w, key: w.pots.get(key, 0)),
    "burned": _record("registry", "burned", lambda w, key: w.burned.get(key, 0)),
    "allowed": _record("tasks", "is_allowed", lambda w, key: w.allowed.get(key, False)),
    "jobs": _job_views,
    "owed": _record("tasks", "owed", lambda w, key: w.owed.get(key, 0)),
    "checkpoint_roots": _record("tasks", "checkpoint_root", lambda w, key: w.checkpoint_roots.get(key, EMPTY_BYTES32)),
    "checkpoint_cids": _record("tasks", "checkpoint_cid", lambda w, key: w.checkpoint_cids.get(key, EMPTY_BYTES32)),
    "lots": _record("auction", "lots", lambda w, key: w.lot(*key)),
    "bids": _record("auction", "bids", lambda w, key: w.bid(*key)),
    "runs": _record("settlement", "runs", lambda w, key: w.run(key)),
    "seats": _record("settlement", "seats", lambda w, key: w.seat(*key)),
    "aggregator_seats": _record(
        "settlement", "aggregator_seats", lambda w, key: w.aggregator_seats.get(key, AggregatorSeat())
    ),
    "claims": _record("settlement", "claims", lambda w, key: claim_word(w.claims.get(key))),
    "vacancies": _record("settlement", "vacancies", lambda w, key: w.vacancies.get(key, Vacancy())),
    "takeovers": _record("settlement", "takeovers", lambda w, key: w.takeovers.get(key, Takeover())),
    "epochs": _record("rewards", "epochs", lambda w, key: w.epochs.get(key, Epoch())),
    "shares": _record("rewards", "shares", lambda w, key: w.shares.get(key, Share())),
    "buckets": _record("treasury", "buckets", lambda w, key: w.buckets.get(key, 0)),
}


def expected_field(record: Any, name: str) -> Any:
    """A record's field as its contract shows it."""
    value = getattr(record, name)
    return stored_seal(value) if name == "seal" else value


def changed_keys(before: World, after: World) -> Iterator[tuple[str, Any]]:
    """Which keys of which dictionaries a step wrote or deleted."""
    for name in VIEWS:
        old, new = getattr(before, name), getattr(after, name)
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                yield name, key
