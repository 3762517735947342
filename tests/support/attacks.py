"""Attacks, each played on the executable specification: what it earns the attacker over all its accounts.

A scenario drives a `Stage` as anybody could, and compares what the attacker owns at the end with what it owned before, or
with the honest course of the same story. Work costs nothing here and gas is left out: both flatter the attacker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tests.support.job_driver import Offer
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage, block_hash
from tests.support.scenarios.admissions import admit, drawn_epoch
from tests.support.scenarios.custody import FUNDS
from tests.support.scenarios.signers import SignersScenario
from zoo_compute.spec import admissions, auditing, audits, pricing, promises, rewards, seats
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import DisputedClaim, claim_key
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    BPS,
    DEFAULT_AUDIT_BPS,
    FALSE_TRIAL_BPS,
    FINDER_BPS,
    MAX_REPUTATION,
    REPUTATION_PARTS,
    ZEN,
    lock_of,
    slash_of,
)
from zoo_compute.spec.settlement import is_parked
from zoo_compute.spec.state import Claim, Message
from zoo_compute.spec.trials import TRIALS, Workload

# Alice and bob win two slots each at 80, carol's price; dave aggregates at 40, erin's. Three rounds, depth 4: n = 3.
SLOTS = {"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(80, 2)}
AGGREGATORS = {"dave": Offer(30), "erin": Offer(40)}
LONG = 40  # rounds: far above the depth
COST = 60  # of a slot-round, to whoever bids it truthfully


@dataclass(frozen=True)
class Outcome:
    """`profit` must not exceed `limit`, which `bound` says in words."""

    how: str
    profit: int
    bound: str = "<= 0"
    limit: int = 0


@dataclass(frozen=True)
class Attack:
    title: str
    why: str
    scenario: Callable[[], Outcome]


ATTACKS: list[Attack] = []


def attack(title: str, why: str) -> Callable[[Callable[[], Outcome]], Callable[[], Outcome]]:
    def kept(scenario: Callable[[], Outcome]) -> Callable[[], Outcome]:
        ATTACKS.append(Attack(title, why, scenario))
        return scenario

    return kept


def play(attack: Attack) -> Outcome:
    return attack.scenario()


# What is owned -------------------------------------------------------------------------------------------------------


def new_stage() -> Stage:
    s = Stage(Coverage())
    s.register_all()
    return s


def wealth(s: Stage, names: Sequence[str]) -> int:
    """ZEN of accounts, by name; an operator's name stands for both its keys, its collateral and its stake."""
    total, zen = 0, s.world.config.zen
    for name in names:
        keys = [f"{name} owner", f"{name} hot"] if name in s.ids else [name]
        for account in (s.accounts[key] for key in keys):
            total += s.world.balances.get((zen, account), 0) + s.world.owed.get((zen, account), 0)
        if name in s.ids:
            total += s.operator(name).stake + s.world.deposit_of(s.ids[name], zen).balance
    return total


class ProfitMeter:
    """The profit of some accounts since now."""

    def __init__(self, s: Stage, *names: str) -> None:
        self.s, self.names = s, names
        self.before = wealth(s, names)

    @property
    def profit(self) -> int:
        return wealth(self.s, self.names) - self.before


def lie(s: Stage, job: int, name: str) -> Claim:
    """A seat's claim that is false; the specification does not know, the referee will."""
    return s.commit(job, name)


def finish(s: Stage, job: int) -> None:
    """The job to its end, with standbys where seats are vacant, and everything paid."""
    for seat, standby in ((seat, "erin" if seat == AGGREGATOR_SEAT else "carol") for seat in vacant_seats(s, job)):
        s.take_over(job, seat, standby)
    while s.world.run(job).round < s.world.run(job).rounds:
        s.play_round(job)
    s.settle(job)


def vacant_seats(s: Stage, job: int) -> Iterator[int]:
    for (of, seat), record in list(s.world.seats.items()):
        if of == job and record.operator == 0 and record.count:
            yield seat


def honest_course(*names: str, **changes: int) -> int:
    """What the accounts gain when the usual job goes as it should."""
    s = new_stage()
    watched = ProfitMeter(s, *names)
    finish(s, s.running(SLOTS, AGGREGATORS, **changes))
    return watched.profit


# Lies ---------------------------------------------------------------------------------------------------------------


@attack(
    "self-challenge",
    "the finder gets 40 % of the slash, so 60 % of the lock is gone; the claim is never paid",
)
def self_challenge() -> Outcome:
    s = new_stage()
    job = s.running(SLOTS, AGGREGATORS)
    watched = ProfitMeter(s, "alice", "sink")
    s.convict(job, lie(s, job, "alice"), "sink")
    finish(s, job)
    return Outcome(
        "skips all work of two slots, seals that it is false, convicts itself before anybody else can", watched.profit
    )


@attack(
    "silence instead of a judgement",
    "nobody earns by silence, whoever asked: what a finder would have is burned with the rest",
)
def silence_on_own_ask() -> Outcome:
    s = new_stage()
    job = s.running(SLOTS, AGGREGATORS)
    watched = ProfitMeter(s, "alice", "sink")
    claim = lie(s, job, "alice")
    s.ok("settlement", "open_dispute", "referee", job, claim)
    s.close_dispute(job, claim, End.SILENT)
    finish(s, job)
    return Outcome("as above, but asks itself and does not answer", watched.profit)


@attack(
    "copying results", "a result binds its slot: another slot's root is false in one's own, and is judged like any lie"
)
def copied_results() -> Outcome:
    s = new_stage()
    job = s.running(SLOTS, AGGREGATORS)
    watched = ProfitMeter(s, "bob")
    root = s.commit(job, "alice").root
    seat = s.seat_of(job, "bob")
    s.ok("settlement", "commit", "bob hot", job, seat, 0, root, b"b" * 32)
    s.convict(job, s.world.claims[job, seat, 0].claim, "stranger")
    finish(s, job)
    return Outcome("commits the root that another seat committed first", watched.profit)


@attack(
    "last-second moves",
    "a window counts from the turn's close, and a dispute of its last second keeps it open until the verdict",
)
def last_second() -> Outcome:
    s = new_stage()
    job = s.running(SLOTS, AGGREGATORS, rounds=1)
    watched = ProfitMeter(s, "alice")
    s.commit(job, "bob")
    s.to(seats.deadline_of(s.world.run(job), s.world.seat(job, s.seat_of(job, "alice"))))
    claim = lie(s, job, "alice")
    s.post_checkpoint(job)
    s.to(s.deadline(job, claim))
    referee = s.world.config.referee
    s.ok("settlement", "open_dispute", referee, job, claim)
    s.wait(1)
    s.ok("settlement", "finalise", "stranger", job, (claim,))
    assert is_parked(s.world, job, claim), "in dispute it is not paid"
    s.close_dispute(job, claim, End.JUDGED)
    s.settle(job)
    return Outcome("commits a lie in the last second; is asked about in the last second of its window", watched.profit)


@attack(
    "free training by a submitter who aggregates and convicts itself",
    "workers are paid by their own start root; what returns to escrow comes from its own lock, and what it takes from there is burned in part",
)
def free_training() -> Outcome:
    honest = honest_course("submitter", "dave", "sink")
    s = new_stage()
    watched = ProfitMeter(s, "submitter", "dave", "sink")
    job = s.running(SLOTS, AGGREGATORS)
    s.commit_all(job)
    false = s.post_checkpoint(job)
    s.commit_all(job)
    s.convict(job, false, "sink")
    finish(s, job)
    return Outcome(
        "lets two rounds be trained on its false checkpoint, then has it rolled back", watched.profit - honest
    )


@attack(
    "reorg of the draw block",
    "the claim was fixed before, and anybody can challenge it for all of its window whatever was drawn; a draw made to wait until its block is forgotten is drawn again",
)
def reorged_draw() -> Outcome:
    s = new_stage()
    job = s.running(SLOTS, AGGREGATORS, audit_bps=5_000)
    s.ok("audits", "fund", "submitter", job, 10_000)
    s.ok("audits", "deposit", "stranger", s.ids["erin"], s.tokens["zen"], s.preset.audit_bond)
    s.ok("audits", "offer", "erin owner", s.ids["erin"], 1)
    watched = ProfitMeter(s, "alice")
    claim = lie(s, job, "alice")
    s.commit(job, "bob")
    s.post_checkpoint(job)
    s.wait(1)
    s.ok("audits", "draw_units", "stranger", job, 0)
    block = s.world.draws[job, 0].block
    s.world.block_hashes[block] = b"the honest chain"
    s.no("audits: draw block not buried", "audits", "draw_units", "alice hot", job, 0)
    outcomes = []
    for fork in (*(number.to_bytes(32, "big") for number in range(64)), None):
        w = s.world.fork()
        w.block_hashes = {block: fork} if fork else {}
        buried = Message("alice hot", s.now, block=block + s.preset.draw_blocks + 1)
        audits.draw_units(w, buried, job, 0)
        draw = w.draws[job, 0]
        drawn = [
            draw.is_drawn and auditing.is_drawn(draw.seed, slot + auditing.FIRST_SLOT_UNIT, 5_000)
            for slot in slots_of(claim)
        ]
        outcomes.append((any(drawn), fork is None, w))
    escaped = [w for is_caught, is_stale, w in outcomes if not is_caught and not is_stale]
    assert escaped, "no fork of 64 spares its two units"
    assert all(w.draws[job, 0].block > block for _, is_stale, w in outcomes if is_stale), "a stale draw is drawn again"
    s.world = escaped[0]
    s.convict(job, claim, "stranger")
    finish(s, job)
    return Outcome(
        "picks of 64 forks, for nothing, one that draws none of its units; one honest party looks all the same",
        watched.profit,
    )


@attack(
    "a lie for the bounty of an own auditor",
    "the bounty is at most half of what the conviction took of the lock, and half of the rest of that burns",
)
def own_bounty() -> Outcome:
    """Every unit is drawn, and its own auditor is the only one: it says "false" first, and the liar falls silent."""
    return bounties(1, "all is drawn; its own auditor calls its lie false before anybody asks")


@attack(
    "lies in every pending turn for bounties of one lock",
    "a bounty is at most half of what the lie's conviction took, and the first one takes the whole lock",
)
def many_bounties() -> Outcome:
    """As above, in each of eight turns; all of them fall silent before any is final."""
    return bounties(8, "the same in each of eight pending turns")


def bounties(turns: int, how: str) -> Outcome:
    """What lies in so many turns earn over true work, whose own auditor says that it is clean."""
    profits = []
    for is_attack in (False, True):
        s = new_stage()
        job = s.running(SLOTS, AGGREGATORS, rounds=turns, depth=turns, audit_bps=BPS)
        s.ok("audits", "fund", "submitter", job, 100_000)
        s.ok("audits", "deposit", "stranger", s.ids["erin"], s.tokens["zen"], s.preset.audit_bond + 1_000_000)
        s.ok("audits", "offer", "erin owner", s.ids["erin"], 1)
        watched, lies, said = ProfitMeter(s, "alice"), [], auditing.Verdicts()
        for turn in range(turns):
            lies.append(claim := lie(s, job, "alice"))
            s.commit(job, "bob")
            s.post_checkpoint(job)
            for _ in range(2):
                s.wait(s.preset.draw_blocks + 2)
                s.ok("audits", "draw_units", "stranger", job, turn)
            own = [slot + auditing.FIRST_SLOT_UNIT for slot in slots_of(claim)]
            said = auditing.verdicts_of([], own) if is_attack else auditing.verdicts_of(own, [])
            s.ok("audits", "give_verdicts", "erin hot", job, turn, s.ids["erin"], said)
        s.wait(1)
        if is_attack:
            for claim in lies:
                s.ok("settlement", "open_dispute", "referee", job, claim)
            for claim in lies:
                s.close_dispute(job, claim, End.SILENT)
                tell_audits(s, job, claim)
        s.settle(job)
        for turn, claim in enumerate(lies):
            args = (job, turn, s.ids["erin"], 0, said, (claim,), auditing.Verdicts())
            s.ok("audits", "settle_verdicts", "stranger", *args)
        profits.append(watched.profit + s.world.audit_owed["zen", "erin owner"])
    return Outcome(how, profits[1] - profits[0])


def tell_audits(s: Stage, job: int, claim: Claim) -> None:
    """That a claim was explored, and its author fell silent: what Audits reads in the referee."""
    s.world.disputes.claims[claim_key(job, claim)] = DisputedClaim(
        job, claim.operator, claim.turn, 5, claim.count, s.deadline(job, claim), end=End.SILENT, left_s=0
    )


def slots_of(claim: Claim) -> range:
    return range(claim.scope >> 16, (claim.scope >> 16) + claim.count)


# Auctions -----------------------------------------------------------------------------------------------------------


UNITS, RESERVE = 4, 100


def utility(bids: Sequence[pricing.RevealedBid], mine: Sequence[int]) -> int:
    """What operators gain a round over their cost, at the prices of an auction."""
    won = {win.operator: win.units for win in pricing.allocate(pricing.order_bids(bids), UNITS).wins}
    prices = pricing.critical_prices(bids, UNITS, RESERVE)
    return sum(won[operator] * (prices[operator] - COST) for operator in mine if operator in won)


def markets() -> Iterator[tuple[list[pricing.RevealedBid], int]]:
    """Small markets with an attacker, operator 1, that bids its cost for two units, and what it gains in each."""
    for first, second, many, few in product((70, 80, 90), (80, 95), (1, 2), (1, 2)):
        rivals = [pricing.RevealedBid(2, first, 0, many), pricing.RevealedBid(3, second, 0, few)]
        bids = [pricing.RevealedBid(1, COST, 0, 2), *rivals]
        if pricing.is_enough(bids, UNITS):
            yield bids, utility(bids, [1])


def seconds(bids: Sequence[pricing.RevealedBid]) -> Iterator[tuple[bool, int]]:
    """For each second bid of the attacker, as operator 9: whether it wins, and what both identities gain then."""
    for price, capacity in product(range(1, RESERVE + 1), (1, 2)):
        more = [*bids, pricing.RevealedBid(9, price, 0, capacity)]
        winners = {win.operator for win in pricing.allocate(pricing.order_bids(more), UNITS).wins}
        yield 9 in winners, utility(more, [1, 9])


@attack(
    "self-bid shill",
    "a losing bid only adds competition: it lowers what others displace, and never raises one's own price",
)
def shill() -> Outcome:
    gains = [more - base for bids, base in markets() for wins, more in seconds(bids) if not wins]
    return Outcome(f"best of {len(gains):,} second bids under another name that win nothing, a round", max(gains))


@attack(
    "evading the cap of a third",
    "two names may win two thirds, and leave fewer losers to price by: at most the reserve, which the submitter set; the work must be done",
)
def split_identity() -> Outcome:
    gains = [more - base for bids, base in markets() for wins, more in seconds(bids) if wins]
    limit = max(UNITS * (RESERVE - COST) - base for _, base in markets())
    bound = f"<= {limit}: every unit at the reserve"
    return Outcome(f"best of {len(gains):,} second bids under another name that win, a round", max(gains), bound, limit)


@attack(
    "bid-bond griefing",
    "an unrevealed bid is no bid: the lot clears without it, and it forfeits the reserve for its capacity",
)
def unrevealed_bond() -> Outcome:
    s = new_stage()
    job = s.post()
    watched = ProfitMeter(s, "erin")
    s.bid(job, 0, "erin", Offer(1, 4))
    s.bid_all(job, SLOTS, {"dave": Offer(30)})
    open_bids(s, job, silent=("erin",))
    s.award_all(job)
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["erin"])
    return Outcome("bids for the whole lot at 1 and never opens it", watched.profit)


@attack(
    "refusing to reveal",
    "what one is paid does not depend on one's own bid, so there is nothing to choose between, and the choice costs the forfeit",
)
def chosen_reveal() -> Outcome:
    honest, chosen = 0, 0
    for silent in ((), ("erin",)):
        s = new_stage()
        job = s.post()
        watched = ProfitMeter(s, "alice", "erin")
        slots = dict(SLOTS) | ({"erin": Offer(20, 2)} if silent else {})
        s.bid_all(job, slots, {"dave": Offer(30)})
        open_bids(s, job, silent=silent)
        s.award_all(job)
        if silent:
            s.ok("auction", "reclaim", "stranger", job, 0, s.ids["erin"])
        seat = s.world.seat(job, s.seat_of(job, "alice"))
        earned = watched.profit + seat.count * (seat.price - COST) * 3
        honest, chosen = (honest, earned) if silent else (earned, 0)
    return Outcome("seals a low and a high bid, and opens only the one it likes better", chosen - honest)


@attack("front-running a reveal", "a seal names its operator: a copied one cannot be opened, and forfeits")
def copied_seal() -> Outcome:
    s = new_stage()
    job = s.post()
    watched = ProfitMeter(s, "bob")
    seal = s.seal(job, 0, "alice", Offer(60, 2))
    s.ok("auction", "bid", "alice hot", job, 0, s.ids["alice"], seal, 2)
    s.ok("auction", "bid", "bob hot", job, 0, s.ids["bob"], seal, 2)
    s.to(s.world.lot(job, 0).bid_end)
    args = ("auction", "reveal", "bob hot", job, 0, s.ids["bob"], 60, s.salt("alice"))
    s.no("auction: seal does not match", *args)
    s.to(s.world.lot(job, 0).reveal_end)
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["bob"])
    return Outcome("sends another's seal as its own, and the other's opening before it", watched.profit)


def open_bids(s: Stage, job: int, *, silent: Sequence[str]) -> None:
    """All bids are opened but those of the silent; the reveal phase is over."""
    s.to(s.world.lot(job, 0).bid_end)
    for (of, kind, operator), bid in list(s.world.bids.items()):
        name = s.party(operator)
        if of == job and name not in silent and bid.seal is not None:
            s.reveal(job, kind, name, Offer(bid.seal.price))
    s.to(s.world.lot(job, 0).reveal_end)


# Timeouts -----------------------------------------------------------------------------------------------------------


@attack(
    "timeouts farmed by a colluding standby",
    "in the turn of the timeout the seat costs what it did before, and a tenth of the lock is gone",
)
def farmed_timeout() -> Outcome:
    slots = {"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(80, 2), "erin": Offer(100, 2)}
    profits = []
    for is_attack in (False, True):
        s = new_stage()
        watched = ProfitMeter(s, "alice", "erin")
        job = s.running(slots, {"dave": Offer(30)})
        if is_attack:
            seat = s.seat_of(job, "alice")
            s.to(seats.deadline_of(s.world.run(job), s.world.seat(job, seat)) + 1)
            s.commit(job, "bob")
            s.ok("settlement", "time_out", "stranger", job, seat)
            s.take_over(job, seat, "erin")
        finish(s, job)
        profits.append(watched.profit)
    return Outcome("lets its seat time out; its own standby takes it in the same turn", profits[1] - profits[0])


def give_record(s: Stage, *names: str) -> None:
    """The best reputation there is: of a thousand ZEN of fees."""
    for name in names:
        record = replace(s.operator(name), reputation=MAX_REPUTATION * REPUTATION_PARTS, rated_at=s.now)
        s.world.operators[s.ids[name]] = record


def return_set_aside(s: Stage, job: int) -> None:
    """What is set aside of slashes: the job is over."""
    for of, operator in [key for key, kept in s.world.kept.items() if kept]:
        assert of == job
        s.ok("locks", "return_set_aside", "stranger", job, operator)
    s.withdraw_all()


def retaken(
    slots: dict[str, Offer], vacant_turns: int, *, taken_by_others: bool = False, has_record: bool = False
) -> int:
    """Alice gives her seat up in the first of many rounds; erin, who is hers, takes it when it is dearer, unless carol does first."""
    profits = []
    for is_attack in (False, True):
        s = new_stage()
        watched = ProfitMeter(s, "alice", "erin")
        job = s.running(slots, {"dave": Offer(30)}, rounds=LONG, depth=2, quorum=2)
        if has_record:
            give_record(s, "alice", "erin")
        if is_attack:
            seat = s.seat_of(job, "alice")
            s.ok("settlement", "decline", "alice hot", job, seat, 2)
            if taken_by_others:
                s.take_over(job, seat, "carol")
            else:
                for _ in range(vacant_turns):
                    s.play_round(job)
                s.until_open(job)
                s.take_over(job, seat, "erin")
        finish(s, job)
        return_set_aside(s, job)
        profits.append(watched.profit)
    return profits[1] - profits[0]


@attack(
    "own seat in a long job, taken back dearer",
    "whoever lost the auction at the old price takes the seat at once: the attacker has lost its seat and a tenth of its lock",
)
def own_seat_taken_back() -> Outcome:
    how = f"gives its seat up in the first of {LONG} rounds, to take it under another name when it is dearer; a loser is there"
    return Outcome(how, retaken(SLOTS, 0, taken_by_others=True))


@attack(
    "own seat taken back by a lone bidder",
    "a vacant seat costs its auction's reserve at most, and that is what a lone bidder was paid already",
)
def lone_seat_taken_back() -> Outcome:
    how = f"the same, and nobody else ever bid: best of 0 to 8 turns of {LONG}"
    lone = {name: offer for name, offer in SLOTS.items() if name != "carol"}
    return Outcome(how, max(retaken(lone, turns) for turns in range(9)))


@attack(
    "own seat that everybody else has left to",
    "it is paid what a lone bidder would have been, for a tenth of its lock and the turns in between",
)
def left_seat_taken_back() -> Outcome:
    how = f"the same; a loser set the price of 80 below the reserve of 100 and is gone: best of 0 to 8 turns of {LONG}"
    limit = 2 * 20 * LONG
    bound = f"<= {limit:,}: the reserve for every round left"
    return Outcome(how, max(retaken(SLOTS, turns) for turns in range(9)), bound, limit)


@attack(
    "own seat that everybody else has left to, after a good record",
    "a good record's part of the tenth is set aside until the job is over, and pays what the seat costs more first",
)
def left_seat_taken_back_by_a_good_record() -> Outcome:
    """At any turn it earns no more than without a record, or loses what a miss costs at least."""
    limit = -slash_of(lock_of(2 * 80, DEFAULT_AUDIT_BPS)) // 10
    how = f"the same, and both names have the best reputation: best of 0 to 8 turns of {LONG}"
    best = max(retaken(SLOTS, turns, has_record=True) for turns in range(9))
    return Outcome(how, best, "<= - a hundredth of the lock", limit)


def taken_by_submitter(vacant_turns: int) -> int:
    """Alice misses a deadline; erin, who is the submitter's, takes her seat when it is dearer, and works."""
    s = new_stage()
    job = s.running(SLOTS, {"dave": Offer(30)}, rounds=LONG, depth=2, quorum=2)
    give_record(s, "alice", "erin")
    watched, seat = ProfitMeter(s, "submitter", "erin"), s.seat_of(job, "alice")
    s.ok("settlement", "decline", "alice hot", job, seat, 2)
    for _ in range(vacant_turns):
        s.play_round(job)
    s.until_open(job)
    s.take_over(job, seat, "erin")
    while s.world.run(job).round < LONG:
        s.play_round(job)
    s.settle(job)
    return_set_aside(s, job)
    return watched.profit


@attack(
    "a miss of somebody else, farmed by its submitter",
    "escrow is paid for a dearer seat by whoever left it, and nobody can see that its taker is the submitter's: it has at most what that miss costs without a record, and any other taker in the meantime ends it",
)
def farmed_miss() -> Outcome:
    """Against the submitter's other name taking the seat at once, at its old price."""
    limit = slash_of(lock_of(2 * 80, DEFAULT_AUDIT_BPS))
    at_once = taken_by_submitter(0)
    how = f"a holder with a good record misses a deadline; the submitter's other name takes the seat dearer, and keeps it: best of 1 to 8 turns of {LONG}"
    best = max(taken_by_submitter(turns) for turns in range(1, 9)) - at_once
    return Outcome(how, best, f"<= {limit:,}: a tenth of the lock of whoever missed", limit)


@attack(
    "a miss of somebody else, farmed by a submitter that leaves the seat",
    "whoever takes a seat at a higher price and leaves it loses a whole tenth, whatever its record",
)
def farmed_and_left() -> Outcome:
    """Alice misses a deadline; erin, who is the submitter's, takes the seat when it is dearer, and leaves it at once."""
    profits = []
    for is_attack in (False, True):
        s = new_stage()
        job = s.running(SLOTS, {"dave": Offer(30)}, rounds=LONG, depth=2, quorum=2)
        give_record(s, "alice", "erin")
        watched, seat = ProfitMeter(s, "submitter", "erin"), s.seat_of(job, "alice")
        s.ok("settlement", "decline", "alice hot", job, seat, 2)
        for _ in range(3):
            s.play_round(job)
        s.until_open(job)
        if is_attack:
            s.take_over(job, seat, "erin")
            assert s.world.job_ledgers[job].restored > 0
            s.ok("settlement", "decline", "erin hot", job, seat, 2)
        while s.world.run(job).round < LONG:
            s.play_round(job)
        s.settle(job)
        return_set_aside(s, job)
        profits.append(watched.profit)
    return Outcome("the same, but the other name leaves the seat at once", profits[1] - profits[0])


@attack(
    "ending somebody's job after a good record",
    "what is set aside is kept until the job is over, and burns where it was abandoned, whether somebody took the seat or not",
)
def ended_job() -> Outcome:
    profits = []
    for taker in (None, "alice", "erin"):
        s = new_stage()
        job = s.running(SLOTS, AGGREGATORS, quorum=3)
        give_record(s, "alice")
        watched, seat = ProfitMeter(s, "alice", "erin"), s.seat_of(job, "alice")
        s.commit(job, "bob")
        s.to(seats.deadline_of(s.world.run(job), s.world.seat(job, seat)) + 1)
        s.ok("settlement", "time_out", "stranger", job, seat)
        s.to(s.world.run(job).inputs_close)
        if taker:
            s.take_over(job, seat, taker)
        s.ok("settlement", "abandon", "stranger", job)
        s.settle(job)
        return_set_aside(s, job)
        profits.append(watched.profit)
    limit = -slash_of(lock_of(2 * 80, DEFAULT_AUDIT_BPS))
    how = "misses a deadline in a seat that the quorum needs; or takes it back too late to work, as itself or under another name: the best"
    return Outcome(how, max(profits), "<= - a tenth of the lock", limit)


@attack(
    "a liar that leaves before its verdict, after a good record",
    "its conviction takes what is set aside, too: the seat's tenth is lost whole, and of the rest 60 %",
)
def liar_that_left() -> Outcome:
    s = new_stage()
    job = s.running(SLOTS, AGGREGATORS, quorum=2, depth=4, rounds=6)
    give_record(s, "alice")
    watched, seat = ProfitMeter(s, "alice", "sink"), s.seat_of(job, "alice")
    claim = lie(s, job, "alice")
    s.commit(job, "bob")
    s.post_checkpoint(job)
    s.until_open(job)
    s.ok("settlement", "decline", "alice hot", job, seat, 2)
    s.convict(job, claim, "sink")
    finish(s, job)
    return_set_aside(s, job)
    lock = lock_of(2 * 80, DEFAULT_AUDIT_BPS)
    how = "skips all work of two slots, gives the seat up in the next turn, and convicts itself"
    return Outcome(how, watched.profit, "<= - 60 % of the lock", -lock + lock * FINDER_BPS // BPS)


@attack(
    "a recall of an operator that leaves",
    "a recall ends with the admission: nobody is slashed for one from before it withdrew its stake",
)
def recalled_and_left() -> Outcome:
    s = new_stage()
    admit(s, "alice")
    drawn_epoch(s, "alice")
    alice, watched = s.ids["alice"], ProfitMeter(s, "stranger")
    s.ok("registry", "request_exit", "alice owner", alice)
    s.ok("admissions", "recall", "stranger", alice)
    s.to(max(s.operator("alice").exit_at, s.world.recalls[alice].due + 1))
    stake = s.operator("alice").stake
    s.ok("registry", "withdraw_stake", "alice owner", alice)
    s.ok("registry", "add_stake", "alice owner", alice, stake)
    s.attempt("admissions", "lapse", "stranger", alice)
    return Outcome("recalls who is leaving and cannot answer; lets that lapse once it stakes again", watched.profit)


@attack(
    "timeouts farmed by a submitter who withholds data",
    "nothing of a timeout's slash goes to the submitter: it gets back its escrow, and no model; holders check the data before they bid",
)
def withheld_data() -> Outcome:
    s = new_stage()
    watched = ProfitMeter(s, "submitter")
    job = s.awarded(SLOTS, AGGREGATORS)
    s.to(s.world.run(job).opened_at + s.preset.ready_window_s + 1)
    for name in ("alice", "bob"):
        s.ok("settlement", "expire", "stranger", job, s.seat_of(job, name))
    s.to(s.world.run(job).inputs_close)
    s.ok("settlement", "abandon", "stranger", job)
    s.settle(job)
    return Outcome("serves nobody its data: all holders time out", watched.profit)


# Custody -------------------------------------------------------------------------------------------------------------


@attack(
    "custody without storage",
    "a custodian answers for each claim that it signed for with its whole reserve; the claim stays, and nobody earns by its end",
)
def custody_without_storage() -> Outcome:
    s = Stage(Coverage())
    t = SignersScenario(s)
    operator = t.signed[0].operator
    t.closed()
    s.finalise(t.job)
    t.count()
    t.claims[AGGREGATOR_SEAT] = t.closed()
    t.demand(AGGREGATOR_SEAT, 0, lane=1)
    s.wait(s.preset.answer_s + 1)
    t.close(AGGREGATOR_SEAT, 1)
    s.finalise(t.job)
    t.count()
    left = s.world.custody_roles[t.job, operator].reserve + s.world.custody_funds[t.token, operator]
    return Outcome("signs in every round and keeps nothing; is demanded of once, in the last one", left - FUNDS)


# Emission -----------------------------------------------------------------------------------------------------------

EVERYBODY = ("submitter", "alice", "bob", "carol", "dave", "erin")
LARGE = dict.fromkeys(("reserve", "max_price", "aggregator_reserve", "aggregator_max_price"), 10_000)


def farm(price: int, *, helped: bool = True, **changes: int) -> tuple[int, int]:
    """All roles in one hand, an own job, a full pool: (profit, fees), after every reward there is was claimed."""
    s = new_stage()
    s.ok("rewards", "fund", "stranger", 10_000 * ZEN)
    for name in s.ids:
        s.ok("registry", "deposit", f"{name} owner", s.ids[name], s.world.config.zen, 10**7)
    watched = ProfitMeter(s, *EVERYBODY)
    offers = (
        {name: Offer(price, 2) for name in ("alice", "bob", "carol")},
        {"dave": Offer(price), "erin": Offer(price)},
    )
    dataset = s.ok("datasets", "contribute", "submitter", b"d" * 32, b"c" * 32, 10**6, bytes(32))
    job = s.awarded(*offers, **changes)
    s.ok("datasets", "cite", "submitter", job, (dataset,))
    for name in offers[0]:
        s.ready(job, name)
    while s.world.run(job).round < s.world.run(job).rounds:
        s.play_round(job)
    s.settle(job)
    epoch = rewards.epoch_of(s.world, s.now)
    workers = {operator for operator, of, _ in s.world.shares if of == epoch}
    if helped:
        for operator in workers:
            promises.heartbeat(s.world, Message(s.world.operator(operator).hot, s.now), operator)
        rewards.record_verification(s.world, s.ids["erin"], job, 1, now=s.now)  # as Audits does
        s.ok("datasets", "score", "submitter", job, (100,))
    assert rewards.epoch_of(s.world, s.now) == epoch, "the story must fit one epoch"
    s.to((epoch + 1) * s.preset.epoch_s)
    for operator in workers:
        s.attempt("rewards", "claim", "stranger", operator, epoch, (job,))
    s.attempt("rewards", "claim_verification", "stranger", s.ids["erin"], job, epoch)
    s.attempt("rewards", "claim_data", "stranger", s.accounts["submitter"], job, epoch)
    return watched.profit, s.world.job_fees[job].fees


@attack(
    "emission farmed through own jobs",
    "rewards on a job are cut into 70, 20 and 10 % of the fee it paid; each part is a bound of its own",
)
def farmed_emission() -> Outcome:
    profit, fees = farm(10_000, **LARGE)
    return Outcome(f"holds every role of its own job, alone in the epoch; {fees:,} of fees paid for slots", profit)


@attack("dust spam", "a fee is rounded up and a reward down: the smallest payments cost most")
def dust() -> Outcome:
    profit, _ = farm(1, **dict.fromkeys(LARGE, 1))
    return Outcome("the same with prices of one smallest unit", profit)


@attack("an idle node", "uptime is paid within the room of verified compute: without any there is none")
def idle_node() -> Outcome:
    s = new_stage()
    s.ok("rewards", "fund", "stranger", 10_000 * ZEN)
    epoch_s = s.preset.epoch_s
    s.to((s.now // epoch_s + 1) * epoch_s)
    epoch, watched = rewards.epoch_of(s.world, s.now), ProfitMeter(s, "erin")
    for period in range(24):
        s.to(epoch * epoch_s - (-period * epoch_s // 24))
        s.ok("registry", "heartbeat", "erin hot", s.ids["erin"])
    s.to((epoch + 1) * epoch_s)
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", s.ids["erin"], epoch, (1,))
    return Outcome("gives every sign of life of an epoch, and works for nobody", watched.profit)


# Classes ------------------------------------------------------------------------------------------------------------


def reward_of(gpu_class: int) -> int:
    """What network rewards alice claims for one round in an epoch she shares with a consumer, never having shown a machine."""
    s = Stage(Coverage())
    for name, class_ in (("alice", gpu_class), ("bob", 1), ("carol", 1), ("dave", 1)):
        s.register(name, gpu_class=class_)
    s.ok("rewards", "fund", "stranger", 10)  # so few that weights, not caps, divide them
    job = s.running({"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(80, 2)}, {"dave": Offer(30)}, rounds=1)
    s.play_round(job)
    s.settle(job)
    epoch = rewards.epoch_of(s.world, s.now)
    watched = ProfitMeter(s, "alice")
    s.to((epoch + 1) * s.preset.epoch_s)
    s.ok("rewards", "claim", "stranger", s.ids["alice"], epoch, (job,))
    return watched.profit


@attack(
    "a class without the machine",
    "the multiplier is the class's only after a trial stood; until then compute weighs as a consumer's",
)
def claimed_class() -> Outcome:
    """Against the honest course of a consumer, who earns something: else the comparison would say nothing."""
    honest = reward_of(gpu_class=1)
    assert honest > 0
    return Outcome("registers a consumer's card as a datacenter's", reward_of(gpu_class=3) - honest)


@attack(
    "a benchmark made up",
    "a trial is a claim: one honest party that re-executes it convicts, and a fifth of the stake is gone",
)
def made_up_trial() -> Outcome:
    s = new_stage()
    watched = ProfitMeter(s, "alice")
    judge(s, made_up(s), "stranger")
    limit = -s.preset.min_stake * FALSE_TRIAL_BPS // BPS
    assert not s.operator("alice").is_admitted
    return Outcome("answers its trial with any root", watched.profit, "<= - a fifth of the stake", limit)


@attack(
    "a benchmark made up and found by oneself",
    "the finder has two fifths of what a false trial costs, the rest burns",
)
def own_false_trial() -> Outcome:
    s = new_stage()
    watched = ProfitMeter(s, "alice", "sink")
    judge(s, made_up(s), "sink")
    return Outcome("the same; its own account seals the lie first, and has the finder's part", watched.profit)


@attack(
    "a promise broken for its fee",
    "whoever shows a broken promise has a tenth of what it costs, and who recalled half of what a lapse costs",
)
def own_breach() -> Outcome:
    s = new_stage()
    alice, epoch_s = s.ids["alice"], s.preset.epoch_s
    watched = ProfitMeter(s, "alice", "sink")
    s.ok("registry", "declare", "alice owner", alice, 0, 1)
    s.to((s.now // epoch_s + 2) * epoch_s)
    s.ok("registry", "breach", "sink", alice, s.now // epoch_s - 1)
    return Outcome("promises hours, is away, and shows it itself", watched.profit)


def made_up(s: Stage) -> Claim:
    alice = s.ids["alice"]
    s.ok("admissions", "set_workload", "deployer", 8, Workload(b"p" * 32, b"s" * 32, 1, 1))
    s.ok("admissions", "enter", "alice hot", alice)
    s.mine(2)
    work = admissions.workload_of(s.world, alice)
    seed = admissions.seed(block_hash(s.world.entries[alice].block), alice, work)
    s.ok("admissions", "answer", "alice hot", alice, seed, b"x" * 32)
    return s.world.trials[alice].claim


def judge(s: Stage, claim: Claim, finder: str) -> None:
    referee = s.world.config.referee
    s.ok("admissions", "open_dispute", referee, TRIALS, claim)
    s.ok("admissions", "close_dispute", referee, TRIALS, claim, int(End.JUDGED), 0, 0)
    s.ok("admissions", "reward_finder", referee, TRIALS, claim, s.accounts[finder])


__all__ = ["ATTACKS", "Attack", "Outcome", "play"]
