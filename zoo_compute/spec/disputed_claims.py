"""What Referee keeps of a disputed claim, its numbers, and what it asks of other contracts (docs/protocol/referee.md)."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from eth_utils.crypto import keccak

from zoo_compute.spec import clocks
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.clocks import ClockPreset, End, answer_fee, heavy_fee
from zoo_compute.spec.exploration import UNIT_BYTES, Node, Status, TreePosition, abi_words
from zoo_compute.spec.frames import EMPTY, Frame, Hashes, Position, claim_hash
from zoo_compute.spec.params import COIN
from zoo_compute.spec.receipts import is_of_job
from zoo_compute.spec.revert import require

if TYPE_CHECKING:
    from zoo_compute.spec.state import Claim

RESULT = 3  # in place of a kind: the slot's result leaf
ANSWER_GAS = 60_000  # of any answer
CHILD_GAS = 1_600  # of each child that it shows
LEAF_GAS = 24_000  # of each leaf of words
STAGE_GAS = 260_000  # of an answer that leads into another tree
MAX_SLOTS_COUNTED = 255  # of an operator: eight bits of the claim's word
MAX_ASKS = 65_535  # open at once, of a claim
MOST_LEFT_S = 2**20 - 1  # twenty bits of the claim's word
KEYS_KEPT = 4096  # of the last claims: a claim's key is asked for wherever a dispute of it could be


@dataclass(frozen=True, slots=True)
class Terms:
    """What the contract that keeps a claim says of it. deadline: 0 while the claim's turn is open."""

    work_root: bytes
    reexecute_s: int
    slots: int
    deadline: int


class Court(Protocol):
    """What the other contracts answer and are called for."""

    def dispute_terms(self, job: int, claim: Claim) -> Terms: ...
    def claim_deadline(self, job: int, turn: int) -> int: ...
    def reexecution_price(self, job: int, is_aggregation: bool) -> tuple[str, int]: ...
    def may_answer(self, operator: int, account: str) -> bool: ...
    def owner_of(self, operator: int) -> str: ...
    def part_count(self, descriptor: bytes, element: int) -> int: ...
    def judge(self, kind: int, frame: Frame, position: Position, data: bytes) -> None: ...
    def open_dispute(self, job: int, claim: Claim) -> None: ...
    def close_dispute(self, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None: ...
    def reward_finder(self, job: int, claim: Claim, finder: str) -> None: ...
    def take(self, token: str, account: str, amount: int) -> bool: ...
    def send(self, token: str, account: str, amount: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class DisputedClaim:
    """A claim's word. latest: up to when something can be asked, whatever the deadline is; used_s: the most on one path.

    left_s: from the first ask to the deadline; the most that is counted where that was not known yet. slot: of a judged claim.
    """

    job: int
    operator: int
    turn: int
    reexecute_s: int
    slots: int
    deadline: int
    latest: int = 0
    open: int = 0
    heavy_open: int = 0
    heavy_made: int = 0
    used_s: int = 0
    end: End | None = None
    left_s: int = MOST_LEFT_S
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of a conviction: its step. By evidence: when that was first asked for, and when it was judged; by silence 0."""

    unit: bytes
    asked_at: int = 0
    judged_at: int = 0


@dataclass(frozen=True, slots=True)
class Finder:
    account: str
    sealed_at: int
    is_rewarded: bool = False


@dataclass
class Explorations:
    """All that the contract keeps. nodes: by id, the record and its status."""

    court: Court = field(compare=False, repr=False)
    preset: ClockPreset
    claims: dict[bytes, DisputedClaim] = field(default_factory=dict)
    nodes: dict[bytes, tuple[Node, Status]] = field(default_factory=dict)
    heavy: dict[tuple[int, int], int] = field(default_factory=dict)  # open, by job and operator
    verdicts: dict[bytes, Verdict] = field(default_factory=dict)
    finders: dict[bytes, Finder] = field(default_factory=dict)
    seals: dict[bytes, int] = field(default_factory=dict)
    owed: dict[tuple[str, str], int] = field(default_factory=dict)
    burned: dict[str, int] = field(default_factory=dict)

    def fork(self) -> Explorations:
        """A copy that shares no writes with the original."""
        new = copy(self)
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, dict):
                setattr(new, item.name, dict(value))
        return new


@dataclass(frozen=True, slots=True)
class Place:
    """A node, or a child of an answered one with its siblings."""

    id: bytes
    node: Node
    status: int
    is_child: bool = False
    number: int = 0
    child: bytes = EMPTY
    path: Hashes = ()


@lru_cache(KEYS_KEPT)
def claim_key(job: int, claim: Claim) -> bytes:
    return bytes(keccak(abi_words(job, claim_hash(claim))))


def unit_of(id: bytes) -> bytes:
    return id[:UNIT_BYTES]


def fee_of(position: TreePosition, open_asks: int, base_fee: int) -> int:
    """Coin that an ask prepays, which is one of so many open of its claim."""
    return answer_fee(open_asks, answer_gas(position), base_fee)


def answer_gas(position: TreePosition) -> int:
    if position.shows_words:
        return ANSWER_GAS + (LEAF_GAS << position.height)
    return ANSWER_GAS + (CHILD_GAS << position.span) if position.height else STAGE_GAS


def price_of(claim: Claim) -> int:
    """What a claim is paid for each slot, or for the aggregation."""
    return claim.price // max(claim.count, 1)


def heavy_price(w: Explorations, job: int, is_aggregation: bool, price: int) -> tuple[str, int]:
    """What a heavy ask prepays, in which token. price: what the claim is paid for a slot, or for the aggregation."""
    if not is_of_job(job):
        return COIN, 0
    token, reserve = w.court.reexecution_price(job, is_aggregation)
    return token, heavy_fee(price, reserve)


# --- what every call checks


def with_deadline(w: Explorations, word: DisputedClaim) -> DisputedClaim:
    if word.deadline:
        return word
    deadline = w.court.claim_deadline(word.job, word.turn)
    return word if deadline == UINT256_MAX else replace(word, deadline=deadline)


def require_node(w: Explorations, id: bytes, node: Node, status: int) -> None:
    require(w.nodes.get(id) == (node, status), "referee: other node")


def require_pending(word: DisputedClaim) -> None:
    require(word.end is None, "referee: not pending")


def require_open(w: Explorations, word: DisputedClaim, now: int) -> None:
    require_pending(word)
    require(not is_final(w, word, now), "referee: final")


def is_final(w: Explorations, word: DisputedClaim, now: int) -> bool:
    """The deadline and every path's clock have passed, and no ask is open."""
    word = with_deadline(w, word)
    latest = max(word.latest, word.deadline + w.preset.asker_s)
    return word.deadline > 0 and clocks.is_final(now, word.deadline, latest, word.open)
