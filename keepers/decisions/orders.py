"""Inputs and results of a keeper's decisions: plain values between `duties` and the keeper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keepers.decisions.defence import Promise
from zoo_compute.amounts import ZEN, Token
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Claim, Kind
from zoo_compute.spec.params import MAX_AGGREGATORS, MAX_SLOTS
from zoo_compute.spec.requirements import Capability

# Numbers from here on are no seats, but shares of the newest checkpoint of a delayed job, which the open turn's slots do not start from.
NEWEST_CHECKPOINT = AGGREGATOR_SEAT + MAX_AGGREGATORS


@dataclass(frozen=True)
class OperatorContext:
    """The operator that decides. Prices per slot-round and per aggregation, and `free` collateral, in the smallest unit of the job's token.

    capacity: slots I can train at once, less those that my other jobs use or bid for. busy_elsewhere_s: seconds that their slots
    take on the same workers. capability: what jobs may ask of me. max_job_s: the longest job I bind collateral for. hours: a bitmap of the periods of an epoch
    (`epoch_s`) in which I am available; 0: always. ring_conflicts: by kind, another job whose bid of mine has the ring place that a
    bid in this job would take. allow, deny: submitters whose jobs I serve (empty: anybody's), and whose I do not. unpriced: the kinds whose price price_script did not say (yet), and why; such a price is 0. most_units: of one bid, that my stake covers.
    aggregator_capacity: shares of a model that I combine in a round. promises: the slots of my other jobs, as far as they were measured. token: the token that the job pays in; None if I have no price in it.
    """

    operator: int
    is_provider: bool
    is_aggregator: bool
    price: int
    aggregator_price: int
    capacity: int
    standby: bool
    free: int
    stagger_s: int  # seconds between keepers that could do the same errand
    ready_window_s: int  # of the network's preset
    relative_paces: tuple[float, ...] = (
        1.0,
    )  # of my workers: the time a slot takes each, over what it took the one that timed the job
    busy_elsewhere_s: float = 0.0
    max_job_s: int = 30 * 86_400
    is_drained: bool = False
    no_room: str = ""  # why this machine takes no new work
    hot: str = ""  # the address that demands
    answer_s: int = 0  # of the network's preset
    committer_s: int = 0  # likewise, of its clocks
    demand_after_s: float = 30.0
    capability: Capability = field(default_factory=Capability)
    hours: int = 0
    epoch_s: int = 86_400
    ring_conflicts: Mapping[int, int] = field(default_factory=dict)
    token: Token | None = ZEN
    promises: tuple[Promise, ...] = ()
    most_units: int = MAX_SLOTS
    aggregator_capacity: int = 1
    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()
    unpriced: Mapping[int, str] = field(default_factory=dict)

    @property
    def kinds(self) -> list[int]:
        """The lots that I bid in."""
        return [int(Kind.SLOTS)] * self.is_provider + [int(Kind.AGGREGATOR)] * self.is_aggregator

    def price_for(self, kind: int) -> int:
        """My price in a lot."""
        return self.price if kind == Kind.SLOTS else self.aggregator_price


TensorChunk = tuple[int, int]  # tensor and group, as Availability numbers them


@dataclass(frozen=True)
class MissingData:
    """Data of a claim that my worker could not download. asked_at: the chain's time of the last attempt.

    chunks: by slot (0 for a checkpoint), a chunk that is missing; None if it is not known.
    """

    asked_at: int
    chunks: Mapping[int, TensorChunk | None]


@dataclass(frozen=True)
class Progress:
    """My own work on the job.

    slot_s: timed seconds of one slot-round (None: not timed). load_s: of fetching a checkpoint over a slow link. opening_s: of a step's trace and its dearest opening, which
    `opening` names. aggregation_s: the least that combining a round's updates takes, of one share of the model. cannot_aggregate: why this machine's memory does not
    suffice to be the job's aggregator, empty if it does. can_measure_again: what was measured is old enough for that. trained, failed_slots: slots of the open round. failed: the inputs
    could not be fetched, are not what was committed, or do not fit this machine; why: which of these. over_limit: failed, since the
    program exceeded a limit when it was measured. memory: how the job fits this machine, if values of a step are computed again for
    that. aggregated: my seats of aggregators whose share of the next checkpoint is made. fetched: seats whose claims
    of the open turn are here. missing: by seat, data of its claim; an aggregator's seat means its share of the checkpoint that the
    open turn starts from; numbers from NEWEST_CHECKPOINT on, of the one that a delayed job's aggregation and next turn start from.
    carries_state: a slot's round continues from the state that its last round left. should_precompute: a turn's updates have fewer
    bytes than the next checkpoint. local_seats: seats whose claims of the open turn are in my store. precomputed: the open turn's
    checkpoint is known here. silent: checkpoints, and places of custodians that signed for them and do not serve them.
    """

    slot_s: float | None = None
    trained: frozenset[int] = frozenset()
    failed_slots: frozenset[int] = frozenset()
    aggregated: frozenset[int] = frozenset()
    failed: bool = False
    fetched: frozenset[int] = frozenset()
    missing: Mapping[int, MissingData] = field(default_factory=dict)
    carries_state: bool = False
    should_precompute: bool = False
    local_seats: frozenset[int] = frozenset()
    precomputed: bool = False
    silent: tuple[tuple[Checkpoint, int], ...] = ()
    why: str = ""
    opening_s: float = 0.0
    opening: str = ""
    cannot_aggregate: str = ""
    aggregation_s: float = 0.0
    can_measure_again: bool = False
    over_limit: bool = False
    memory: str = ""
    load_s: float = 0.0


@dataclass(frozen=True)
class Send:
    """A transaction anyone may simulate: `contract.function(*args)`."""

    contract: str
    function: str
    args: tuple[object, ...]


@dataclass(frozen=True)
class SealBid:
    kind: int
    attempt: int
    capacity: int
    price: int


@dataclass(frozen=True)
class OpenBid:
    kind: int
    attempt: int
    capacity: int
    price: int


@dataclass(frozen=True)
class Prepare:
    """Fetch the job's inputs and time a step."""


@dataclass(frozen=True)
class MeasureAgain:
    """Time the job's step again: it was too slow for a bid, as it would be on a machine that was busy with something else."""


@dataclass(frozen=True)
class AskPrice:
    """Ask price_script what so many units of a kind are to cost."""

    kind: int
    units: int


@dataclass(frozen=True)
class Train:
    """ahead: of the next round, from the checkpoint that I made of the open turn; of a delayed job, from the newest."""

    slot: int
    ahead: bool = False


@dataclass(frozen=True)
class CommitTrained:
    """Commit a seat's slots: one transaction for all of them."""

    seat: int


@dataclass(frozen=True)
class Fetch:
    """Fetch what a seat committed in the open turn, before it is combined."""

    seat: int


@dataclass(frozen=True)
class DemandChunk:
    """Demand a chunk of a claim's data on chain: one of the slots', at the place that is missing, or any.

    is_check: of one that signed for it and does not serve it, while I can do without.
    """

    claim: Claim
    lane: int
    chunks: Mapping[int, TensorChunk | None]
    signer: int | None = (
        None  # in a job with custodians: the place, in the committee of the turn's record, of the one that is asked
    )
    is_check: bool = False


@dataclass(frozen=True)
class Aggregate:
    """Combine what is present in the open turn, as the aggregator in a seat."""

    seat: int = AGGREGATOR_SEAT


@dataclass(frozen=True)
class Precompute:
    """Combine what is present in the open turn, to train from it before it is posted."""


@dataclass(frozen=True)
class PostAggregate:
    mask: int  # of the seats that are present
    seat: int = AGGREGATOR_SEAT


Duty = (
    Send
    | SealBid
    | OpenBid
    | Prepare
    | MeasureAgain
    | AskPrice
    | Train
    | CommitTrained
    | Fetch
    | DemandChunk
    | Aggregate
    | Precompute
    | PostAggregate
)
