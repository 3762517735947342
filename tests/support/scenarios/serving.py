"""Directed sequences about serving seats, and the receipts of answers."""

from __future__ import annotations

from dataclasses import replace

from tests.support.explorations.explored_job import ExploredJob
from tests.support.explorations.hashed_computation import WORK, HashedComputation
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import scenario
from zoo_compute.spec import clocks, serving
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import claim_key, unit_of
from zoo_compute.spec.exploration import path_id, segment_id
from zoo_compute.spec.frames import EMPTY, Kind, Result
from zoo_compute.spec.params import BPS, FINDER_BPS, MAX_STEPS, ZEN
from zoo_compute.spec.receipts import RECEIPTS, AnswerReceipt, Offer, ReceiptSignature
from zoo_compute.spec.state import ZERO_ADDRESS, Claim, ClaimStatus
from zoo_compute.spec.verdicts import sealed

LOCK = 10 * ZEN
OFFER = Offer(b"f" * 32, 10**15, "zen", "https://alice.example/v1")
START, SALT = b"s" * 32, b"s" * 32


class ServedComputation(HashedComputation):
    """An answer: nobody asks for its update."""

    @property
    def result(self) -> Result:
        return Result(self.segments.root, self.state(self.work.inner_steps).root)


def no(s: Stage, reason: str, function: str, sender: str, *args: object) -> None:
    s.no(f"serving: {reason}", "serving", function, sender, *args)


def offer(s: Stage, **changes: object) -> Offer:
    return replace(OFFER, token=s.tokens["zen"], **changes)  # type: ignore[arg-type]


def take(s: Stage, name: str, lock: int = LOCK) -> int:
    """A seat whose receipts the operator's hot key signs."""
    if name not in s.ids:
        s.register(name)
    hot = s.accounts[f"{name} hot"]
    return int(s.ok("serving", "take", f"{name} owner", s.ids[name], hot, lock, offer(s)))


def receipt(s: Stage, seat: int, steps: int = 5, **changes: object) -> AnswerReceipt:
    """Of what somebody computed that is named by the nonce."""
    signed = AnswerReceipt(seat, WORK.programs[0], steps, START, b"n" * 32, EMPTY, EMPTY, s.time)
    signed = replace(signed, **changes)  # type: ignore[arg-type]
    side = ServedComputation("alice", 0, START, serving.work_of(signed)).result
    return replace(signed, segments=side.segment_root, end=side.end_root)


def signed(s: Stage, name: str, about: AnswerReceipt) -> tuple[AnswerReceipt, ReceiptSignature]:
    return about, ReceiptSignature(s.accounts[f"{name} hot"], about)


def admitted(s: Stage, name: str, about: AnswerReceipt) -> Claim:
    s.ok("serving", "admit", "stranger", *signed(s, name, about))
    return serving.claim_of(s.world.serving_seats[about.seat].operator, about)


def explored(s: Stage, name: str, claim: Claim, about: AnswerReceipt) -> ExploredJob:
    t = ExploredJob(s, serving.work_of(about), job=RECEIPTS)
    t.sides[name, 0] = ServedComputation(name, 0, START, t.work)
    t.claims[name] = claim
    return t


@scenario
def a_seat_is_taken_by_an_owner_with_a_lock_and_left_with_notice(s: Stage) -> None:
    alice, bob = s.register("alice"), s.register("bob")
    hot = s.accounts["alice hot"]
    for sender, operator in (("alice hot", alice), ("alice owner", bob), ("alice owner", 99), ("stranger", alice)):
        no(s, "not the owner", "take", sender, operator, hot, LOCK, offer(s))
    no(s, "zero signer", "take", "alice owner", alice, ZERO_ADDRESS, LOCK, offer(s))
    no(s, "zero lock", "take", "alice owner", alice, hot, 0, offer(s))
    seat = take(s, "alice")
    for sender in ("bob owner", "bob hot", "stranger"):
        no(s, "not the operator", "offer", sender, seat, offer(s))
        no(s, "not the operator", "leave", sender, seat)
    no(s, "not the operator", "leave", "alice owner", seat + 1)
    no(s, "seat not left", "release", "stranger", seat)
    no(s, "seat not left", "release", "stranger", seat + 1)
    s.ok("serving", "offer", "alice hot", seat, offer(s, price=1))
    s.ok("serving", "leave", "alice hot", seat)
    for function, args in (("offer", (seat, offer(s))), ("leave", (seat,))):
        no(s, "seat left", function, "alice owner", *args)
    before = s.world.balances[s.tokens["zen"], s.accounts["alice owner"]]
    s.wait(2 * serving.window_s(s.world))
    no(s, "receipts open", "release", "stranger", seat)
    s.wait(1)
    s.ok("serving", "release", "stranger", seat)
    no(s, "nothing locked", "release", "stranger", seat)
    assert s.world.balances[s.tokens["zen"], s.accounts["alice owner"]] == before + LOCK


@scenario
def a_receipt_is_admitted_once_as_its_seats_signer_signed_it_and_in_its_window(s: Stage) -> None:
    seat, window = take(s, "alice"), serving.window_s(s.world)
    take(s, "bob")
    about = receipt(s, seat)
    no(s, "no such seat", "admit", "stranger", *signed(s, "alice", replace(about, seat=3)))
    for steps in (0, MAX_STEPS + 1):
        no(s, "steps out of range", "admit", "stranger", *signed(s, "alice", replace(about, steps=steps)))
    no(s, "not issued yet", "admit", "stranger", *signed(s, "alice", replace(about, issued=s.time + 1)))
    no(s, "receipt not signed", "admit", "stranger", *signed(s, "bob", about))
    no(s, "receipt not signed", "admit", "stranger", *signed(s, "alice", replace(about, seat=2)))
    for change in ({"steps": 6}, {"nonce": START}, {"end": START}, {"issued": about.issued - 1}):
        no(s, "receipt not signed", "admit", "stranger", replace(about, **change), signed(s, "alice", about)[1])  # type: ignore[arg-type]
    claim = admitted(s, "alice", about)
    # Its signer may sign it again, at another time: it is the same claim.
    for again in (about, replace(about, issued=about.issued - 1)):
        no(s, "already admitted", "admit", "alice hot", *signed(s, "alice", again))
    # The same ends of another question are another claim.
    other = admitted(s, "alice", replace(about, program=START))
    no(s, "unknown receipt", "drop", "stranger", replace(claim, root=START))
    no(s, "window open", "drop", "stranger", claim)
    s.wait(window)
    no(s, "window open", "drop", "stranger", claim)
    late = replace(about, nonce=b"l" * 32)
    admitted(s, "alice", late)
    s.wait(1)
    no(s, "window closed", "admit", "stranger", *signed(s, "alice", replace(about, nonce=b"m" * 32)))
    s.ok("serving", "drop", "stranger", claim)
    s.ok("serving", "drop", "stranger", other)
    no(s, "unknown receipt", "drop", "stranger", claim)
    no(s, "already admitted", "admit", "stranger", *signed(s, "alice", replace(about, issued=s.time)))
    assert s.world.serving_seats[seat].pending == 1


@scenario
def a_seat_that_was_left_answers_for_its_receipts_until_clients_saw_it(s: Stage) -> None:
    seat, window = take(s, "alice"), serving.window_s(s.world)
    s.ok("serving", "leave", "alice owner", seat)
    s.wait(window)
    claim = admitted(s, "alice", receipt(s, seat))
    last = receipt(s, seat, nonce=b"l" * 32)
    s.wait(1)
    no(s, "seat left", "admit", "stranger", *signed(s, "alice", receipt(s, seat, nonce=b"m" * 32)))
    s.wait(window - 1)
    kept = admitted(s, "alice", last)
    s.wait(1)
    no(s, "receipts open", "release", "stranger", seat)
    s.ok("serving", "drop", "stranger", claim)
    no(s, "receipts open", "release", "stranger", seat)
    s.wait(window)
    s.ok("serving", "drop", "stranger", kept)
    s.ok("serving", "release", "stranger", seat)


@scenario
def a_receipt_is_explored_like_a_claim_and_a_conviction_takes_the_lock(s: Stage) -> None:
    for number, end in enumerate(End):
        seat = take(s, "alice")
        about = receipt(s, seat, steps=1, nonce=bytes([number]) * 32)
        claim = admitted(s, "alice", about)
        t = explored(s, "alice", claim, about)
        for kind in (1, 2):
            args = t.explorer.first_args("alice", kind, 0)
            s.no("referee: not of this kind", "referee", "ask_claim", "stranger", *args)
        leaf = t.explorer.first("alice", slot=0, leaf=1, by="stranger")
        assert t.explorer.known[leaf][1].payment.is_heavy
        no(s, "in dispute", "drop", "stranger", claim)
        no(s, "not the referee", "close_dispute", "stranger", RECEIPTS, claim, 2, 0, 0)
        no(s, "not the referee", "open_dispute", "stranger", RECEIPTS, claim)
        no(s, "not the referee", "reward_finder", "stranger", RECEIPTS, claim, s.accounts["stranger"])
        deadline, burned = s.world.receipts[claim].deadline, s.world.serving_burned
        if end == End.FINAL:
            t.explorer.answer(leaf)
            s.to(deadline + s.preset.clocks.asker_s + 1)
            s.ok("referee", "close", "stranger", RECEIPTS, claim)
        elif end == End.AGED:
            s.to(clocks.aged_at(deadline, s.preset.receipt_s, s.preset.clocks) + 1)
            s.ok("referee", "close", "stranger", RECEIPTS, claim)
        elif end == End.JUDGED:
            node = t.explorer.answer(t.explorer.down(t.explorer.answer(leaf), 2, "stranger"))
            t.explorer.convict(node, 0, "stranger")
            s.wait(s.preset.clocks.opening_s + 1)
            s.ok("referee", "reward", "stranger", RECEIPTS, claim)
            s.no("referee: nothing to reward", "referee", "reward", "stranger", RECEIPTS, claim)
        else:
            t.expire(leaf)
        is_convicted = end in (End.JUDGED, End.SILENT, End.EXHAUSTED)
        status = ClaimStatus.CONVICTED if is_convicted else ClaimStatus.VOID
        assert (t.word("alice").end == end) or end == End.EXHAUSTED
        assert s.world.receipts[claim].status == status
        place = s.world.serving_seats[seat]
        assert (place.lock, place.pending) == (0 if is_convicted else LOCK, 0)
        assert s.world.serving_burned - burned == (LOCK if is_convicted else 0)
        t.settle_fees()


@scenario
def who_sealed_the_false_step_of_a_receipt_has_a_part_of_the_lock(s: Stage) -> None:
    seat, finder = take(s, "alice"), s.accounts["guardian"]
    about = receipt(s, seat, steps=1)
    t = explored(s, "alice", serving.claim_of(s.ids["alice"], about), about)
    claim = admitted(s, "alice", about)
    second = receipt(s, seat, steps=1, nonce=b"2" * 32)
    other = admitted(s, "alice", second)
    path = unit_of(path_id(claim_key(RECEIPTS, claim), 0, Kind.TRAINING))
    unit = unit_of(segment_id(path, 1))
    s.ok("referee", "seal", "guardian", sealed(finder, unit, SALT))
    s.wait(s.preset.clocks.seal_lead_s + 1)
    leaf = t.explorer.first("alice", slot=0, leaf=1, by="stranger")
    t.explorer.convict(t.explorer.answer(t.explorer.down(t.explorer.answer(leaf), 2, "stranger")), 0, "stranger")
    s.ok("referee", "open_seal", "stranger", RECEIPTS, claim, finder, SALT)
    s.wait(s.preset.clocks.opening_s + 1)
    before = s.world.balances[s.tokens["zen"], finder]
    s.ok("referee", "reward", "stranger", RECEIPTS, claim)
    share = LOCK * FINDER_BPS // BPS
    assert s.world.balances[s.tokens["zen"], finder] == before + share
    assert s.world.serving_burned == LOCK - share
    t.settle_fees()
    # Of what is convicted after that there is no lock left.
    u = explored(s, "alice", other, second)
    leaf = u.explorer.first("alice", slot=0, leaf=1, by="stranger")
    u.expire(leaf)
    assert s.world.receipts[other].status == ClaimStatus.CONVICTED
    assert s.world.serving_burned == LOCK - share
    u.settle_fees()
    s.ok("serving", "leave", "alice owner", seat)
    s.wait(2 * serving.window_s(s.world) + 1)
    no(s, "nothing locked", "release", "stranger", seat)


@scenario
def what_the_referee_says_of_a_receipt_is_done_once(s: Stage) -> None:
    seat = take(s, "alice")
    for number, outcome in enumerate(End):
        claim = admitted(s, "alice", receipt(s, seat, nonce=bytes([number]) * 32))
        s.ok("serving", "open_dispute", "referee", RECEIPTS, claim)
        lock, burned = s.world.serving_seats[seat].lock, s.world.serving_burned
        s.ok("serving", "close_dispute", "referee", RECEIPTS, claim, outcome, 0, 0)
        for again in End:
            s.ok("serving", "close_dispute", "referee", RECEIPTS, claim, again, 0, 0)
        no(s, "unknown receipt", "open_dispute", "referee", RECEIPTS, claim)
        share = lock * FINDER_BPS // BPS if outcome == End.JUDGED else 0
        is_convicted = outcome in (End.JUDGED, End.SILENT, End.EXHAUSTED)
        assert s.world.serving_burned == burned + (lock - share if is_convicted else 0)
        for finder in (s.accounts["stranger"], ZERO_ADDRESS):
            s.ok("serving", "reward_finder", "referee", RECEIPTS, claim, finder)
        assert s.world.serving_seats[seat].pending == 0
        if is_convicted:
            seat = take(s, "alice")
