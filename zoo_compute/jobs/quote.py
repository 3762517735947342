"""Cost and duration of a job before posting: exact arithmetic on its terms, no I/O, no account."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from repops.profile import Profile
from zoo_compute import drawing
from zoo_compute.amounts import ZEN, Token, format_count, format_seconds
from zoo_compute.errors import UserError
from zoo_compute.formats.manifest import Manifest
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.custody import CustodyTerms
from zoo_compute.jobs.prices import Prices
from zoo_compute.requirement_words import described
from zoo_compute.spec import params
from zoo_compute.spec.durations import longest_rounds_s
from zoo_compute.spec.params import Preset, Terms
from zoo_compute.training.held_bytes import update_bytes
from zoo_compute.training.rounds import tokens_of

AMOUNTS = {
    "escrow", "posting_deposit", "at_reserve", "expected", "per_gpu_hour", "per_million_tokens", "per_pflop", "per_pflop_day", "fee", "lock_slot",
    "lock_once", "lock_aggregator",
}  # fmt: skip
PFLOP = 10**15
DAY_S = 86_400
PUBLIC = "the data, the program, every checkpoint and the result: anyone can download them, also later"
DEAR = 10  # multiple of the reference price from which on a quote warns
SMALL_WORK = (
    "by the reference price this work is worth less than a tenth of what it costs: operators charge per slot-round, however small; fewer "
    "rounds with more inner_steps cost less"
)


class BudgetTooSmall(UserError):
    """The budget does not cover the worst case. Nothing was sent."""


@dataclass(frozen=True)
class Quote:
    """All amounts in the smallest unit of `token`, all durations in seconds.

    expected: paid if every seat clears at the first reserve. The auction can pay less (the price of the first losing bid) or,
    after re-openings, more, up to `escrow`. The prices per unit of work follow from `expected`.
    """

    rounds: int
    slots: int
    quorum: int
    inner_steps: int
    parameters: int
    steps: int
    tokens: int
    flops: int
    update_bytes: int  # sent per slot-round, about
    checkpoint_bytes: int  # parameters that a node fetches if it did not compute the checkpoint itself
    checkpoint_every_steps: int  # a slot's steps between checkpoints that are kept after the job; the last is kept too
    escrow: int  # taken at posting: the worst case
    posting_deposit: (
        int  # wei of the chain's coin, at least; comes back when the job ends, or is cancelled before bids are revealed
    )
    at_reserve: int  # paid when every seat clears at the first reserve
    expected: int  # equal to at_reserve; the prices per unit of work follow from it
    gpu_hours: float  # of the reference GPU (spec/params.py, REFERENCE_GPU)
    per_gpu_hour: int
    per_million_tokens: int
    per_pflop: int
    per_pflop_day: int
    fee: int  # the treasury's share of the worst case
    lock_slot: int  # of a bid, for each slot, in the first auction
    lock_once: int  # of a bid for slots besides
    lock_aggregator: int
    attempts: int  # auctions until the reserve has grown to the maximum
    auction_s: int
    auction_longest_s: int
    ready_s: int
    round_longest_s: int
    window_s: int  # of a payment in ZEN
    depth: int  # rounds that may be open to challenge: no more than so many begin within a window
    longest_s: int  # without disputes
    custody: CustodyTerms | None  # beside the escrow
    requirements: list[str]  # what every operator that bids needs
    warnings: list[str]
    token: Token

    @property
    def most(self) -> int:
        """What posting takes: the escrow, and what custodians cost."""
        return self.escrow + (self.custody.cost if self.custody else 0)

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings of the smallest unit, the rest as numbers."""
        plain = {key: str(value) if key in AMOUNTS else value for key, value in asdict(self).items()}
        return plain | {"custody": self.custody and self.custody.to_dict(), "token": self.token.to_dict()}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        money = self.token
        rows = [
            ("model", f"{self.parameters:,} parameters"),
            ("work", f"{self.rounds:,} rounds of {self.slots:,} slots, {self.inner_steps:,} steps each"),
            ("expected", f"{money.format(self.expected)}, if the auction clears at the first reserve"),
            ("at most", f"{money.format(self.most)}; unspent escrow comes back"),
            ("sent", f"about {format_count(self.update_bytes, 'B')} a slot and round"),
            ("round", f"{format_seconds(self.round_longest_s)} at most"),
            ("total", f"{format_seconds(self.longest_s)} at most, without disputes"),
            ("public", PUBLIC),
            *(("needs", each) for each in self.requirements),
            *(("warning", each) for each in self.warnings),
        ]
        return drawing.page("Quote", drawing.table(rows))


def terms_of(manifest: Manifest, work_root: bytes, prices: Prices, token: str, requirements: int) -> Terms:
    """The argument of `TaskRegistry.post`. work_root: of `work_of`. requirements: what operators need, as one word."""
    return Terms(
        token=token,
        work_root=work_root,
        state_root=manifest.state_root,
        data_root=manifest.data_root,
        manifest=manifest.digest,
        rounds=manifest.rounds,
        slots=manifest.slots,
        quorum=manifest.quorum,
        reserve=prices.reserve,
        max_price=prices.max_price,
        aggregator_reserve=prices.aggregator_reserve,
        aggregator_max_price=prices.aggregator_max_price,
        slot_s=manifest.slot_s,
        aggregate_s=manifest.aggregate_s,
        reexecute_s=manifest.reexecute_s,
        flops=manifest.flops,
        depth=manifest.depth,
        policy=manifest.policy_bits,
        audit_bps=manifest.audit_bps,
        requirements=requirements,
        aggregators=manifest.aggregators,
    )


def outline_terms(job: ComputeJob, step: Profile | None = None) -> Terms:
    """The terms before the job's files exist: as in `ComputeJob.outline`, real numbers and placeholder roots."""
    return terms_of(job.outline(step), bytes(32), job.prices, token="", requirements=job.requirements.word)


def attempts_to_maximum(reserve: int, max_reserve: int) -> int:
    """Auctions until the reserve, growing by a quarter each time, has reached its maximum."""
    attempts = 1
    while reserve < max_reserve:
        grown = params.grown_reserve(reserve, max_reserve)
        if grown == reserve:  # a reserve of a few wei cannot grow
            break
        reserve, attempts = grown, attempts + 1
    return attempts


def quote(job: ComputeJob, preset: Preset) -> Quote:
    """The quote of a job on a network with this preset."""
    manifest, prices, terms = job.outline(job.profile), job.prices, outline_terms(job, job.profile)
    attempts = max(
        attempts_to_maximum(prices.reserve, prices.max_price),
        attempts_to_maximum(prices.aggregator_reserve, prices.aggregator_max_price),
    )
    steps = terms.rounds * terms.slots * manifest.inner_steps
    auction_s = preset.bid_window_s + preset.reveal_window_s
    round_longest_s = 2 * terms.slot_s + terms.aggregate_s
    graph = job.traced.graph
    exchanged = [graph.nodes[e.before].elements for e in graph.state if e.name in graph.exchanged]
    expected, flops, tokens = (
        at_reserve(terms),
        job.flops * terms.rounds * terms.slots,
        steps * tokens_of(graph, manifest.batch_size),
    )
    window_s = params.window_s(preset, terms.reexecute_s, params.windows(terms, preset.window_value))
    return Quote(
        rounds=terms.rounds,
        slots=terms.slots,
        quorum=terms.quorum,
        inner_steps=manifest.inner_steps,
        parameters=job.profile.parameters,
        steps=steps,
        tokens=tokens,
        flops=flops,
        update_bytes=update_bytes(graph, manifest),
        checkpoint_bytes=0 if manifest.is_map else 4 * sum(exchanged),
        checkpoint_every_steps=manifest.keep_every * manifest.inner_steps,
        escrow=params.escrow(terms),
        posting_deposit=params.least_posting_deposit(0),
        at_reserve=expected,
        expected=expected,
        gpu_hours=params.gpu_seconds(flops) / 3_600,
        per_gpu_hour=expected * 3_600 * params.REFERENCE_FLOPS // flops,
        per_million_tokens=expected * 10**6 // tokens,
        per_pflop=expected * PFLOP // flops,
        per_pflop_day=expected * PFLOP * DAY_S // flops,
        fee=params.fee_of(params.escrow(terms)),
        lock_slot=params.lock_of(terms.reserve, terms.audit_bps),
        lock_once=params.lock_once(terms),
        lock_aggregator=params.lock_of(terms.aggregator_reserve, terms.audit_bps) + params.restitution(terms),
        attempts=attempts,
        auction_s=auction_s,
        auction_longest_s=auction_s * attempts,
        ready_s=preset.ready_window_s,
        round_longest_s=round_longest_s,
        window_s=window_s,
        depth=terms.depth,
        longest_s=auction_s * attempts
        + preset.ready_window_s
        + longest_rounds_s(terms.rounds, terms.depth, round_longest_s, window_s)
        + window_s,
        custody=job.custody,
        requirements=list(described(terms.requirements)),
        warnings=[*_price_warnings(prices, job.token), *([SMALL_WORK] if is_dear(expected, flops, job.token) else [])],
        token=job.token,
    )


def work_unit(job: ComputeJob) -> str:
    """What `Quote.tokens` counts: tokens for a job with integer inputs, else examples, or a map's items."""
    if tokens_of(job.traced.graph, batch_size=0):
        return "tokens"
    return "examples" if job.map is None else "items"


def price_lines(job: ComputeJob) -> list[str]:
    """What a job pays at most, and what is unwise about its prices."""
    prices, token = job.prices, job.token
    most = (
        f"{token.format(prices.max_price)} a slot-round and {token.format(prices.aggregator_max_price)} an aggregation"
    )
    return [f"pays at most {most}", *(f"warning: {text}" for text in _price_warnings(prices, token))]


def _price_warnings(prices: Prices, token: Token) -> list[str]:
    """Warn of maximum prices below what operators usually ask (known in ZEN only), and of reserves equal to the maximum."""
    usual = params.LEAST_PRICE
    table = (
        ("a slot-round", "", prices.reserve, prices.max_price),
        ("an aggregation", "aggregator_", prices.aggregator_reserve, prices.aggregator_max_price),
    )
    low = [
        f"operators usually ask {token.format(usual)}, and this job pays at most {token.format(most)} for {work}: "
        "perhaps nobody bids; raise the budget (prices that the file does not set follow from it), or lower rounds or slots"
        for work, _, _, most in table
        if token.is_worth_zen and most < usual
    ]
    narrow = [
        f"the reserve of {work} equals its maximum, {token.format(most)}: a node without competitors is paid all of it, and "
        f"a re-opened auction cannot offer more; set market.{key}reserve lower, or raise the maximum"
        for work, key, reserve, most in table
        if reserve == most
    ]
    return low + narrow


def is_dear(expected: int, flops: int, token: Token) -> bool:
    """Whether the price is far above the reference price of the work, which only ZEN has."""
    return token.is_worth_zen and expected >= DEAR * params.reference_price(flops)


def at_reserve(terms: Terms) -> int:
    """Paid if every seat clears at the first auction's reserve."""
    return (terms.reserve * terms.slots + terms.aggregator_reserve * terms.aggregators) * terms.rounds


def check_budget(budget: int, terms: Terms, token: Token = ZEN, custody: int = 0) -> None:
    """Refuse a budget below the worst case, before anything is sent. custody: what custodians cost. Raises BudgetTooSmall with both
    numbers.
    """
    most, least = params.escrow(terms) + custody, at_reserve(terms) + custody
    if budget >= most:
        return
    if budget < least:
        raise BudgetTooSmall(
            f"the budget of {token.format(budget)} is below the reserve: {terms.rounds} rounds of {terms.slots} slots cost "
            f"{token.format(least)} at the first reserve, and {token.format(most)} at most",
            hint=f"give --max-budget {token.exact(most)}, or lower rounds, slots or the market's prices",
        )
    raise BudgetTooSmall(
        f"the budget of {token.format(budget)} is below the worst case of {token.format(most)}, which goes into escrow",
        hint=f"give --max-budget {token.exact(most)} (unspent escrow comes back), or lower the market's maximum prices",
    )
