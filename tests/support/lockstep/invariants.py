"""What must hold after every step, in the words of money (docs/design/invariants.md). Raises AssertionError, names the sum."""

from collections import Counter

from tests.support.lockstep.channel_invariants import check_channels
from tests.support.lockstep.credit_invariants import check_credits
from tests.support.lockstep.solvency import Sums, check_solvency
from zoo_compute.spec import audits, bits, locks, seats
from zoo_compute.spec.availability import SIGNER_DEMANDS
from zoo_compute.spec.custodians import CustodyStatus
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    BPS,
    COIN,
    KIND_AGGREGATOR,
    LANE_DEMANDS,
    MAX_AGGREGATORS,
    MAX_CUSTODY_OFFERS,
    MAX_REPUTATION,
    PERIODS,
    REPUTATION_PARTS,
    RESERVED_FEES,
    REWARD_CAP_BPS,
    RING,
    STAKE_UNIT,
    Flow,
    lock_of,
    round_price,
)
from zoo_compute.spec.state import ClaimStatus, JobState, Phase, Posted, SlashLedger, World
from zoo_compute.spec.watching import Holding


def check_invariants(w: World) -> None:
    """Every invariant of the protocol, on one world."""
    check_solvency(w)
    check_escrow(w)
    check_slashes(w)
    check_locks(w)
    check_seats(w)
    check_claims(w)
    check_bounds(w)
    check_beats(w)
    check_demands(w)
    check_deposits(w)
    check_audits(w)
    check_custody(w)
    check_channels(w)
    check_credits(w)


def check_escrow(w: World) -> None:
    """A job's escrow is what was paid to nodes and treasury, refunded, or remains; it always covers what is to come."""
    for job, ledger in w.job_ledgers.items():
        remaining = w.jobs[job].escrow
        spent = ledger.paid + ledger.fees + ledger.refunded
        assert ledger.escrowed + ledger.restored == spent + remaining, f"job {job}: escrow leaks"
        run, terms = w.run(job), w.terms[job]
        if run.state == JobState.NONE:
            continue
        is_over = run.state == JobState.ENDED
        parked = seats.parked_of(w, job)
        due = sum(claim.price for claim in parked)
        due += sum(
            posted.claim.price for _, posted in pending_claims(w, job) if is_over or posted.claim.turn < run.turn
        )
        due += 0 if is_over else round_price(terms) * (run.rounds - run.round)
        assert remaining >= due, f"job {job}: escrow holds {remaining}, rounds and claims to come need {due}"
        if is_over and not seats.pending_of(w, job):
            assert remaining == due, (
                f"job {job}: it is over, and {remaining} of {due} for its parked claims is in escrow"
            )


def pending_claims(w: World, job: int) -> list[tuple[int, Posted]]:
    """What is neither paid, convicted nor void, by seat."""
    posted = ((seat, each) for (of, seat, _), each in w.claims.items() if of == job)
    return [(seat, each) for seat, each in posted if each.status == ClaimStatus.PENDING]


def check_slashes(w: World) -> None:
    """What was slashed is paid out, burned or in the pot; the pot is the sum of the jobs' pots, of what is set aside and of finders' shares."""
    jobs = Sums()
    needs: Counter[tuple[int, int]] = Counter()
    for (job, seat), aside in w.set_aside.items():
        needs[job, aside.operator] += aside.amount
        left = w.seat(job, seat)
        assert not aside.amount or (left.operator == 0 and left.count == aside.count), (
            f"job {job}: of a seat that is held"
        )
    for (job, operator), kept in w.kept.items():
        jobs[w.run(job).token] += kept
        is_convicted = w.record_of(job, operator).void_before > 0
        is_over = w.run(job).state == JobState.ENDED and not seats.pending_of(w, job)
        assert is_convicted or is_over or kept >= needs[job, operator], f"job {job}: {operator} was paid too early"
    jobs[w.config.zen] += sum(w.trial_shares.values())
    for (job, _), share in w.finder_shares.items():
        jobs[w.run(job).token] += share
    for job, pot in w.job_pots.items():
        jobs[w.run(job).token] += pot
        is_over = w.run(job).state == JobState.ENDED and not seats.pending_of(w, job)
        assert not (is_over and pot), f"job {job}: a settled job keeps a pot"
    for token in {*w.slash_ledgers, *w.pots, *w.burned}:
        ledger, pot = w.slash_ledgers.get(token, SlashLedger()), w.pots.get(token, 0)
        gone = ledger.paid_out + w.burned.get(token, 0)
        assert ledger.slashed == gone + pot, f"{token}: a slash leaks"
        assert pot == jobs[token], f"{token}: the pot is not the jobs' pots, what is set aside and the finders' shares"


def check_locks(w: World) -> None:
    """Locked collateral is bids' plus seats' locks; `locks` counts them."""
    locked: Counter[tuple[int, str]] = Counter()
    count: Counter[int] = Counter()
    for (job, kind, operator), bid in w.bids.items():
        lot = w.lot(job, kind)
        is_cleared = lot.phase >= Phase.CLEARING and bid.attempt == lot.attempt and bid.revealed
        units = 0 if bid.priced else bid.won if is_cleared and bid.cleared_pass else bid.capacity
        # INVARIANT auction: no price exceeds the reserve of a bid's attempt, by which it is locked.
        assert bid.price <= bid.reserve, f"job {job}, operator {operator}: bids above the reserve"
        lock = lock_of(bid.reserve, w.terms[job].audit_bps)
        locked[operator, lot.token] += lock * units + (lot.once if units else 0)
        count[operator] += units > 0
    for (job, operator, role), stake in w.stakes.items():
        locked[operator, w.jobs[job].token] += stake.locked
        count[operator] += stake.has_lock
        assert stake.has_lock or not stake.locked, f"operator {operator}: a lock of no lot"
        restitution = locks.restitution_of(w, job, role) - stake.drawn if stake.has_lock else 0
        assert stake.locked >= restitution >= 0, f"operator {operator}: restitution is not locked"
        assert not (stake.held and stake.drawn), f"operator {operator}: holds a seat, and its restitution is not whole"
        due = rounds_at_risk(w, job, operator, role) * round_price(w.terms[job])
        assert due <= restitution, f"operator {operator}: its lies could cost {due}, and {restitution} is locked"
    for (operator, token), deposit in w.collateral.items():
        assert deposit.locked == locked[operator, token], f"operator {operator}: {deposit.locked} of {token} locked"
        assert 0 <= deposit.locked <= deposit.balance, f"operator {operator}: more locked than held"
    for operator, record in w.operators.items():
        assert record.locks == count[operator], f"operator {operator}: counts {record.locks} locks"


def rounds_at_risk(w: World, job: int, operator: int, is_aggregation: bool) -> int:
    """Rounds that are done again, or paid back, if the oldest claim of an operator in a role is convicted now."""
    if not locks.restitution_of(w, job, is_aggregation):
        return 0
    run = w.run(job)
    mine = [each.claim for _, each in pending_claims(w, job) if each.claim.operator == operator]
    rest_on = [
        claim
        for claim in mine
        if claim.is_aggregation == is_aggregation
        and claim.turn < run.turn
        and claim.round < run.round
        and not w.closed_turn(job, claim.turn).is_rolled_back
    ]
    return max((run.round - claim.round + run.is_open for claim in rest_on), default=0)


def check_seats(w: World) -> None:
    """Once awarded, seats part the slots; what an operator holds is counted; a missing seat is one there is."""
    for job, run in w.runs.items():
        if run.state == JobState.NONE:
            continue
        slot_seats = [(seat, record) for (of, seat), record in w.seats.items() if of == job and seat < AGGREGATOR_SEAT]
        assert sorted(seat for seat, _ in slot_seats) == list(range(run.seats)), (
            f"job {job}: seats are not numbered through"
        )
        next_slot = 0
        for _, seat in sorted(slot_seats, key=lambda item: item[1].first):
            assert seat.first == next_slot, f"job {job}: slot {next_slot} has two holders or none"
            assert seat.count > 0, f"job {job}: a seat without slots"
            next_slot += seat.count
        assert next_slot == run.slots, f"job {job}: {next_slot} slots are seated"
        assert bits.without(run.missing, bits.full(run.seats)) == 0, f"job {job}: a seat is missing that is not there"
        slot_counts: Counter[int] = Counter()
        seat_counts: Counter[tuple[int, bool]] = Counter()
        for _, seat in slot_seats:
            slot_counts[seat.operator] += seat.count
            seat_counts[seat.operator, False] += 1
        numbers = [seat for of, seat in w.seats if of == job and seat >= AGGREGATOR_SEAT]
        assert sorted(numbers) == [AGGREGATOR_SEAT + share for share in range(run.aggregators)], f"job {job}: {numbers}"
        for seat in numbers:
            seat_counts[w.seat(job, seat).operator, True] += 1
        for (of, operator, role), stake in w.stakes.items():
            if of == job and stake.has_lock:
                assert stake.held == seat_counts[operator, role], f"job {job}: operator {operator} miscounts seats"
                assert role or stake.slots == slot_counts[operator], f"job {job}: operator {operator} miscounts slots"


def check_claims(w: World) -> None:
    """Pending counts equal the pending claims; at most `depth` turns have any; a lock outlives the claims that it secures."""
    for job, run in w.runs.items():
        pending = Counter(posted.claim.turn for _, posted in pending_claims(w, job))
        opened = pending.pop(run.turn, 0)
        counts = Counter(
            {turn: count.pending for (of, turn), count in w.closed_turns.items() if of == job and count.pending}
        )
        assert pending == counts, f"job {job}: pending counts are {counts}, claims {pending}"
        assert all(run.turn - run.depth <= turn < run.turn for turn in pending), f"job {job}: more than depth turns"
        if run.is_open:
            claimed = bits.popcount(seats.present(run)) + bits.popcount(run.posted)
            assert opened == claimed, f"job {job}: a present seat has no claim"
            slots = sum(posted.claim.count for _, posted in pending_claims(w, job) if posted.claim.turn == run.turn)
            assert run.committed == slots, f"job {job}: {run.committed} slots are committed, claims are for {slots}"
            assert w.closed_turn(job, run.turn - run.depth).pending == 0, (
                f"job {job}: a turn is open while an earlier one is pending"
            )
        for _, posted in pending_claims(w, job):
            stake = w.stake_of(job, posted.claim.operator, posted.claim.is_aggregation)
            assert stake.has_lock, f"job {job}: a claim with nothing behind it"
            is_explored = claim_key(job, posted.claim) in w.disputes.claims
            assert posted.is_disputed or not is_explored, f"job {job}: a claim that is explored could be paid"
        parked = Counter(claim.operator for claim in seats.parked_of(w, job))
        for (of, operator), record in w.records.items():
            assert of != job or record.parked == parked[operator], (
                f"job {job}: operator {operator} miscounts parked claims"
            )
            has_lock = w.stake_of(job, operator, False).has_lock
            assert of != job or has_lock or not record.parked, f"job {job}: a parked claim with nothing behind it"


def check_bounds(w: World) -> None:
    """Prices between bid and reserve, reputation within its cap, rewards within budgets."""
    for (job, kind, operator), bid in w.bids.items():
        if bid.priced:
            for (of, number), seat in w.seats.items():
                is_won = of == job and seat.operator == operator and seat.since == 0
                if is_won and (number >= AGGREGATOR_SEAT) == (kind == KIND_AGGREGATOR):
                    assert bid.price <= seat.price <= w.lot(job, kind).reserve, f"operator {operator}: {seat.price}"
    for operator, record in w.operators.items():
        assert 0 <= record.reputation <= MAX_REPUTATION * REPUTATION_PARTS, (
            f"operator {operator}: reputation {record.reputation}"
        )
    for epoch, record in w.epochs.items():
        assert record.paid <= record.budget <= w.config.preset.emission_per_epoch, f"epoch {epoch}: overpaid"
    paid, fees = sum(e.paid for e in w.epochs.values()), sum(f.fees for f in w.job_fees.values())
    assert paid <= fees, "more rewards than fees"
    for job, called in w.job_fees.items():
        most = [called.fees * REWARD_CAP_BPS[flow] // BPS for flow in (Flow.VERIFICATION, Flow.DATA)]
        assert [called.verification, called.data] <= most, f"job {job}: more called than its fees allow"
    for epoch, total in w.total_bytes.items():
        counted = sum(served.counted for (_, of), served in w.served.items() if of == epoch)
        assert counted == total, f"epoch {epoch}: {total} bytes count, servers have {counted}"


def check_beats(w: World) -> None:
    """An epoch's heartbeats are its operators'; stake is in whole units; no two bids stand in one ring place."""
    beats: Counter[int] = Counter()
    for (_, epoch), bitmap in w.beats.items():
        assert 0 < bitmap < 1 << PERIODS, f"epoch {epoch}: a heartbeat outside its periods"
        beats[epoch] += bitmap.bit_count()
    assert beats == {epoch: total for epoch, total in w.total_beats.items() if total}
    for operator, record in w.operators.items():
        assert record.stake % STAKE_UNIT == 0, f"operator {operator}: stake has dust"
    places = Counter((kind, operator, job % RING) for job, kind, operator in w.bids)
    assert all(count == 1 for count in places.values()), "two bids stand in one place"


def check_demands(w: World) -> None:
    """Availability holds the coin of open demands and what it owes; a job's clocks are held by its open demands."""
    deposits = sum(asked.deposit for asked in w.demands.values())
    owed = sum(w.coin_owed.values())
    assert w.coin == deposits + owed, f"availability holds {w.coin} of coin: deposits {deposits}, owed {owed}"
    holding: Counter[int] = Counter()
    of_signers: Counter[tuple[int, int, int]] = Counter()
    for (job, claim, lane), asked in w.demands.items():
        assert asked.asked <= LANE_DEMANDS, f"lane {lane} of job {job} asked {asked.asked} times of one claim"
        is_prepaid = asked.is_open and not asked.is_helped
        assert is_prepaid == (asked.deposit > 0), f"job {job}, turn {claim.turn}: a deposit of no demand"
        is_of_signer = asked.signer > 0 and not asked.holds
        assert is_of_signer or not asked.is_helped, f"job {job}, turn {claim.turn}: help for an author, or with clocks"
        holding[job] += asked.is_open and asked.holds
        of_signers[job, lane, asked.signer] += asked.is_open and asked.signer > 0
    assert +of_signers == +Counter(w.signer_demands), "the open demands of signers are not those that are counted"
    assert all(count <= SIGNER_DEMANDS for count in of_signers.values()), "a signer is asked for too much at once"
    for job, run in w.runs.items():
        assert w.holdings.get(job, Holding()).open == holding[job], f"job {job}: {holding[job]} demands hold its clocks"
        assert run.holds == (holding[job] > 0), f"job {job}: its clocks are held {run.holds} times"


def check_deposits(w: World) -> None:
    """TaskRegistry holds the coin of posting deposits, what bids of cancelled jobs are still paid of them, and what it owes."""
    due = sum(amount for (token, _), amount in w.owed.items() if token == COIN)
    for job, deposit in w.deposits.items():
        is_cancelled = w.jobs[job].state == JobState.CANCELLED
        unpaid = [
            bid
            for (of, kind, _), bid in w.bids.items()
            if of == job and bid.revealed and bid.attempt == w.lot(job, kind).attempt
        ]
        due += deposit * len(unpaid) if is_cancelled else deposit
    assert w.posted_coin == due, f"tasks holds {w.posted_coin} of coin, and owes {due}"


def check_audits(w: World) -> None:
    """What bonds and verdicts reserve is what deposits and budgets have reserved; places are counted, and none is nobody's."""
    reserved: Counter[tuple[int, str]] = Counter()
    budgets: Counter[int] = Counter()
    for operator, held in w.place_counts.items():
        reserved[operator, w.config.zen] += held * w.config.preset.audit_bond
    for (job, _, operator, _), given in w.statements.items():
        cost = audits.cost_of(w, job, given.left)
        reserved[operator, w.jobs[job].token] += cost.fees * RESERVED_FEES
        budgets[job] += cost.budget
    for key, funds in w.audit_funds.items():
        assert funds.reserved == reserved[key], f"auditor {key}: {funds.reserved} reserved for {reserved[key]}"
        assert funds.reserved <= funds.balance, f"auditor {key}: more reserved than there is"
    for job, budget in w.audit_budgets.items():
        assert budget.reserved == budgets[job], f"job {job}: {budget.reserved} reserved for {budgets[job]}"
    holders = Counter(history[-1][0] for history in w.places.values())
    assert +Counter({of: held for of, held in holders.items() if of}) == +Counter(w.place_counts), (
        "places are miscounted"
    )
    assert holders.total() - holders[0] == w.place_count, "a place is nobody's"
    assert all(w.places[place][-1][0] for place in range(w.place_count)), "a gap among the places"


def check_custody(w: World) -> None:
    """A committee's places are its custodians'; what is vacant, offered or recorded is counted; no seat joins a mask alone."""
    for job, progress in w.custody.items():
        offers = w.custody_offers.get(job, ())
        committee = w.committees.get((job, progress.version), ())
        roles = {of: each for (which, of), each in w.custody_roles.items() if which == job}
        assert progress.offers == len(offers) <= MAX_CUSTODY_OFFERS, f"job {job}: {len(offers)} offers"
        offered = {of for of, each in roles.items() if each.status == CustodyStatus.OFFERED}
        assert {each.operator for each in offers} == offered, f"job {job}: an offer that is none"
        seated = {place: member.operator for place, member in enumerate(committee) if member.operator}
        custodians = {each.index: of for of, each in roles.items() if each.status == CustodyStatus.CUSTODIAN}
        assert seated == custodians, f"job {job}: the committee is {seated}, custodians are {custodians}"
        empty = bits.without(bits.full(progress.custodians), sum(bits.bit(place) for place in seated))
        assert bits.without(empty, progress.vacant) == 0, f"job {job}: an empty place that nobody may fill"
        assert progress.counted <= w.run(job).turn, f"job {job}: an open turn was counted"
        most = w.custody_requests[job].reserve
        assert all(each.reserve <= most for each in roles.values()), f"job {job}: a reserve that grew"
    for (job, _), record in w.custody_records.items():
        least, place = w.custody[job].least, record.turn % (w.run(job).depth + 1)
        for share in range(w.run(job).aggregators):
            signers, seat = (*record.shares, *[0] * MAX_AGGREGATORS)[share], AGGREGATOR_SEAT + share
            assert signers == 0 or bits.popcount(signers) >= least, f"job {job}: {signers:b} is no majority"
            posted = w.claims.get((job, seat, place))
            if posted and posted.claim.turn == record.turn:
                assert bits.without(posted.claim.scope, record.mask) == 0, f"job {job}: a seat that no majority holds"
                assert signers, f"job {job}: a checkpoint that no majority holds"
                signed = w.custody_checkpoints[job, place, seat]
                assert signed[:3] == (record.turn, seat, posted.claim.root), f"job {job}: another one than was signed"
