"""What each page shows and each answer of the API is: plain records, from which the API's schema is generated.

Amounts are texts of whole numbers in the token's smallest unit. Times are seconds since 1970. A token is named by its address,
and `tokens` of the network has symbol and decimals.
"""

from __future__ import annotations

from dataclasses import dataclass

from zoo_compute.client.dispute_transcript import TranscriptEntry


@dataclass(frozen=True)
class TokenView:
    address: str
    symbol: str
    decimals: int


@dataclass(frozen=True)
class JobRow:
    """A job in a list. completed: rounds with a checkpoint, final or not; disputes: open ones."""

    job: int
    state: str
    submitter: str
    token: str
    round: int
    rounds: int
    completed: int
    slots: int
    posted_at: int
    escrowed: str
    paid: str
    disputes: int
    convictions: int


@dataclass(frozen=True)
class JobList:
    """before: give it as `before` to get the next page; None on the last one."""

    jobs: list[JobRow]
    total: int
    before: int | None


@dataclass(frozen=True)
class OperatorRow:
    """gpu_class, tier, region: as people write them. exit_at: 0 where it does not leave."""

    operator: int
    owner: str
    gpu_class: str
    vram_gb: int
    stake: str
    admitted: bool
    tier: str
    hours: int
    region: str
    exit_at: int
    convictions: int
    endpoint: str
    registered_at: int


@dataclass(frozen=True)
class OperatorList:
    operators: list[OperatorRow]
    total: int
    after: int | None


@dataclass(frozen=True)
class AuctionRow:
    """One lot of a job's auction. state: bidding, revealing, clearing, sold, void (a later attempt replaced it, or the job was cancelled).

    price: the highest that a winner is paid, a slot-round or an aggregation; None until it is awarded.
    """

    job: int
    kind: str
    attempt: int
    token: str
    reserve: str
    bid_end: int
    reveal_end: int
    sealed: int
    revealed: int
    sold: int | None
    price: str | None
    priced_at: int | None
    state: str


@dataclass(frozen=True)
class PricePoint:
    """What an auction sold at. kind: slots or aggregator."""

    at: int
    job: int
    kind: str
    token: str
    price: str


@dataclass(frozen=True)
class ClassView:
    """A class of machines, and how many of its operators there are."""

    name: str
    operators: int
    admitted: int
    multiplier_percent: int


@dataclass(frozen=True)
class ServingSeat:
    """Of live inference. service: a CID; price: for 1,000 tokens; locked: ZEN; both in smallest units, as text."""

    seat: int
    operator: int
    service: str
    price: str
    token: str
    url: str
    locked: str
    convictions: int


@dataclass(frozen=True)
class ChainView:
    """Up to which block the page has read. trouble: why it does not go on; empty otherwise."""

    name: str
    chain_id: int
    preset: str
    block: int
    block_at: int
    trouble: str


@dataclass(frozen=True)
class NetworkView:
    chain: ChainView
    jobs_by_state: dict[str, int]
    open_disputes: int
    operators: int
    classes: list[ClassView]
    auctions: list[AuctionRow]
    prices: list[PricePoint]
    tokens: list[TokenView]
    serving: list[ServingSeat]


@dataclass(frozen=True)
class Money:
    """Of a job: escrowed + restored = paid + fee + refunded + due + left.

    restored: out of slashed locks. due: of pending claims. left: in escrow, for rounds to come or to be refunded.
    """

    escrowed: str
    restored: str
    paid: str
    fee: str
    refunded: str
    due: str
    left: str


@dataclass(frozen=True)
class GridRound:
    """slots: what became of each, by number: training, vacant, committed, final, disputed, convicted, void, absent, none."""

    round: int
    turn: int
    slots: list[str]
    operators: list[int]
    aggregation: str
    aggregator: int


@dataclass(frozen=True)
class Deadline:
    what: str
    at: int


@dataclass(frozen=True)
class SeatView:
    """count 0: the aggregator's."""

    seat: int
    operator: int
    first: int
    count: int
    price: str


@dataclass(frozen=True)
class PenaltyView:
    operator: int
    at: int
    amount: str


@dataclass(frozen=True)
class DisputeRow:
    """name: as `zoo dispute` takes it. status: open, or how it ended."""

    name: str
    job: int
    operator: int
    work: str
    asks: int
    first_at: int
    ended_at: int | None
    status: str


@dataclass(frozen=True)
class DisputeList:
    disputes: list[DisputeRow]
    total: int


@dataclass(frozen=True)
class PictureLook:
    """The newest frame of a rendering, at `/jobs/JOB/picture.png`. first, last: frames; passes: of so many that all its pixels have.

    rounds: of the job that are in it, and so what it changes with.
    """

    width: int
    height: int
    frame: int
    first: int
    last: int
    passes: int
    of_passes: int
    rounds: int


@dataclass(frozen=True)
class MapLook:
    """Of a map job: its items, how many of them are final, and of a rendering the picture."""

    items: int
    final: int
    picture: PictureLook | None


@dataclass(frozen=True)
class JobLook:
    """What no event contains, as of a block: losses by round, reported by nodes, unverified; what the job waits for; advice; of a map its items."""

    block: int
    state: str
    loss: float | None
    losses: list[float | None]
    waiting_for: str
    advice: list[str]
    map: MapLook | None = None


@dataclass(frozen=True)
class JobDetail:
    """rounds: the newest ones, at most 40. final_rounds: later ones can still be challenged. root: of the newest checkpoint.

    look: None until the page has read it from the chain and the store, a moment after somebody opened the job.
    """

    row: JobRow
    requirements: list[str]
    quorum: int
    final_rounds: int
    rollbacks: int
    closed: bool
    root: str
    money: Money
    rounds: list[GridRound]
    deadlines: list[Deadline]
    seats: list[SeatView]
    penalties: list[PenaltyView]
    disputes: list[DisputeRow]
    auctions: list[AuctionRow]
    look: JobLook | None


@dataclass(frozen=True)
class DayEarned:
    """day: as 2026-11-27, in UTC. work: paid for claims, less the network's fee."""

    day: str
    token: str
    work: str
    rewards: str
    slashed: str


@dataclass(frozen=True)
class OperatorClaim:
    """deadline: the last second in which it can be challenged; None while its turn is open, and once it is over."""

    job: int
    round: int
    turn: int
    work: str
    state: str
    token: str
    price: str
    deadline: int | None


@dataclass(frozen=True)
class OperatorLook:
    """Its money in ZEN, as of a block, and whether it can bid."""

    block: int
    balance: str
    locked: str
    owed: str
    locks: int
    reputation: int
    multiplier_percent: int
    eligible: bool


@dataclass(frozen=True)
class NodeLook:
    """Of the operator whose folder is on this machine: its keeper's last reading of the chain, and what needs a person."""

    operator: int
    folder: str
    read_at: int
    block: int | None
    workers: list[str]
    jobs: dict[str, str]
    trouble: list[str]
    needs: list[str]


@dataclass(frozen=True)
class OperatorDetail:
    row: OperatorRow
    next_deadline: Deadline | None
    earnings: list[DayEarned]
    claims: list[OperatorClaim]
    seats: int
    look: OperatorLook | None
    node: NodeLook | None


@dataclass(frozen=True)
class TreeRow:
    """One ask. depth: how many asks led to it. due: the last second to answer; None once it is answered."""

    id: str
    depth: int
    path: str
    place: str
    is_heavy: bool
    asked_by: str
    answered_by: str
    due: int | None
    is_convicted: bool


@dataclass(frozen=True)
class StepView:
    """One of the dispute's events."""

    number: int
    at: int
    tx: str
    what: str
    ask: str


@dataclass(frozen=True)
class Numbers:
    """The proven error: the committed word and the right one, with their bits, where the judgement was about words."""

    text: str
    step: int
    node: int
    operator: str | None
    element: int | None
    inputs: list[str]
    committed: str | None
    right: str | None


@dataclass(frozen=True)
class DisputeLook:
    """Its transactions and, if an error was proven, the numbers. A judgement is checked again with the specification, on this machine."""

    steps: list[TranscriptEntry]
    conclusion: str
    numbers: Numbers | None
    gas: dict[str, int]


@dataclass(frozen=True)
class DisputeDetail:
    """look: None until the page has read the transactions, a moment after somebody opened the dispute. trouble: why it cannot be drawn."""

    row: DisputeRow
    tree: list[TreeRow]
    steps: list[StepView]
    look: DisputeLook | None
    trouble: str = ""
