"""Directed sequences about Custody: who holds what was committed, and who pays for that. See `opening`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.stage import AUDITORS, Stage
from tests.support.scenarios.auctions import scenario
from zoo_compute.spec.custodians import (
    CheckpointSignature,
    Committee,
    CustodyStatus,
    InputsSignature,
    Member,
    StartSignature,
)
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    CUSTODIANS_AT,
    MAX_CUSTODY_OFFERS,
    POLICY_CARRIES,
    POLICY_ROLL_BACK,
    SIGNED_BYTES,
    STAKE_UNIT,
    custodians_of,
)
from zoo_compute.spec.seats import present
from zoo_compute.spec.state import ZERO_ADDRESS, Claim, ClaimStatus

FUNDS = 100_000
HOLDERS = {"alice": Offer(40, 1), "bob": Offer(40, 1), "carol": Offer(40, 1)}
AGGREGATORS = {"dave": Offer(40), "erin": Offer(50)}
LARGE = ("erin", "frank", "grace")  # operators without a seat
FEE = 7


def custodians_policy(custodians: int, policy: int = 0) -> int:
    return custodians << CUSTODIANS_AT | policy


class CustodyScenario:
    """A job whose three seats alice, bob and carol win, and dave aggregates; its custodians are asked for before."""

    def __init__(self, s: Stage, token: str = "zen", **changes: Any) -> None:
        s.register_all()
        for name in AUDITORS:
            s.register(name)
        self.s, self.token = s, s.tokens[token]
        for name, operator in s.ids.items():
            self.ok("note_stake", f"{name} hot", operator)
            self.ok("deposit", "stranger", operator, self.token, FUNDS)
        s.wait(s.preset.exit_delay_s)
        self.terms = {
            "slots": 3,
            "quorum": 1,
            "rounds": 3,
            "depth": 2,
            "reexecute_s": 1,
            "policy": custodians_policy(3),
        }
        self.job = s.post(token=token, **{**self.terms, **changes})

    def ok(self, function: str, sender: str, *args: Any) -> None:
        self.s.ok("custody", function, sender, *args)

    def no(self, reason: str, function: str, sender: str, *args: Any) -> None:
        self.s.no(f"custody: {reason}", "custody", function, sender, *args)

    # --- before the job runs

    def asked(self, more: int = 0) -> None:
        """For a fee of 7 a signature, and no more escrow than that takes."""
        self.ok("request", "submitter", self.job, FEE, SIGNED_BYTES)
        terms = self.s.world.terms[self.job]
        self.ok("fund", "stranger", self.job, 2 * FEE * custodians_of(terms.policy) * terms.rounds + more)

    def offered(self, *names: str) -> None:
        for name in names:
            self.ok("offer", f"{name} hot", self.job, self.s.ids[name])

    def awarded(self, aggregators: dict[str, Offer] = AGGREGATORS) -> None:
        s = self.s
        lots = (HOLDERS, aggregators)
        s.bid_all(self.job, *lots)
        s.reveal_all(self.job, *lots)
        s.award_all(self.job)

    def running(self) -> None:
        """The first turn is open: all are ready, and a majority holds what the job starts from."""
        for name in HOLDERS:
            self.s.ready(self.job, name)
        self.ok("hold_start", "stranger", self.job, self.committee, self.start(0, 1))

    def drawn(self) -> None:
        """Once offers had their time."""
        if self.version:
            self.s.to(max(self.s.now, self.offers_close))
        self.ok("schedule", "stranger", self.job)
        self.s.mine(self.s.preset.draw_blocks + 2)
        self.ok("draw", "stranger", self.job, self.committee)

    def ready(self, *names: str, aggregators: dict[str, Offer] = AGGREGATORS) -> CustodyScenario:
        """Running, with the committee of these."""
        self.asked()
        self.offered(*(names or LARGE))
        self.awarded(aggregators)
        self.drawn()
        self.running()
        return self

    # --- signatures

    @property
    def version(self) -> int:
        return self.s.world.custody[self.job].version

    @property
    def offers_close(self) -> int:
        """Of a replacement's draw."""
        return self.s.world.custody[self.job].vacated_at + self.s.preset.answer_s

    @property
    def committee(self) -> Committee:
        return self.s.world.committees.get((self.job, self.version), ())

    @property
    def turn(self) -> int:
        return self.s.world.run(self.job).turn

    def name(self, place: int) -> str:
        return str(self.s.party(self.committee[place].operator))

    def place(self, name: str) -> int:
        return next(place for place, each in enumerate(self.committee) if each.operator == self.s.ids[name])

    def start(self, *places: int, **changes: Any) -> tuple[StartSignature, ...]:
        signed = (StartSignature(place, self.committee[place].key, self.job) for place in places)
        return tuple(replace(each, **changes) for each in signed)

    def inputs(self, seats: int, *places: int, **changes: Any) -> tuple[InputsSignature, ...]:
        signed = (InputsSignature(place, self.committee[place].key, self.job, self.turn, seats) for place in places)
        return tuple(replace(each, **changes) for each in signed)

    def checkpoint(self, claim: Any, *places: int, **changes: Any) -> tuple[CheckpointSignature, ...]:
        signed = (
            CheckpointSignature(
                place,
                self.committee[place].key,
                self.job,
                claim.turn,
                claim.seat,
                claim.root,
                self.s.checkpoint(self.job, claim.turn)[1],
            )
            for place in places
        )
        return tuple(replace(each, **changes) for each in signed)

    def hold(self, seats: int, *places: int) -> None:
        self.ok("hold_inputs", "stranger", self.job, self.turn, self.committee, self.inputs(seats, *places))

    def commit_all(self) -> None:
        for name in HOLDERS:
            self.s.commit(self.job, name)

    def checkpoint_of(
        self, *places: int, turn: int, seat: int, root: bytes, cid: bytes
    ) -> tuple[CheckpointSignature, ...]:
        return tuple(
            CheckpointSignature(place, self.committee[place].key, self.job, turn, seat, root, cid) for place in places
        )

    def post_args(
        self,
        *places: int,
        inputs: tuple[InputsSignature, ...] = (),
        mask: int | None = None,
        seat: int = AGGREGATOR_SEAT,
        **changes: Any,
    ) -> tuple[Any, ...]:
        """Of `post_checkpoint`, with what these places sign for the checkpoint."""
        run = self.s.world.run(self.job)
        root, cid = self.s.checkpoint(self.job, run.turn)
        mask = present(run) if mask is None else mask
        signed = tuple(
            replace(each, **changes)
            for each in self.checkpoint_of(*places, turn=run.turn, seat=seat, root=root, cid=cid)
        )
        return self.job, seat, run.turn, mask, root, cid, self.committee, inputs, signed

    def posted(self, *places: int, inputs: tuple[InputsSignature, ...] = (), seat: int = AGGREGATOR_SEAT) -> Claim:
        """What an aggregator posts in the open turn, by what these places sign."""
        run, held = self.s.world.run(self.job), self.s.world.seat(self.job, seat)
        args = self.post_args(*(places or (0, 1)), inputs=inputs, seat=seat)
        self.ok("post_checkpoint", f"{self.s.party(held.operator)} hot", *args)
        fixed = (run.turn, run.round, seat, held.operator, args[3], held.price, run.start_root, args[4])
        return self.s.record(self.job, Claim(*fixed))

    def closed(self) -> Claim:
        """A turn in one transaction: places 0 and 1 sign for all."""
        self.commit_all()
        return self.posted(inputs=self.inputs(7, 0, 1))

    def held_turn(self, claim: Any, *places: int) -> None:
        self.ok(
            "hold_turn",
            "stranger",
            self.job,
            claim.seat,
            claim.turn,
            self.committee,
            (),
            self.checkpoint(claim, *places),
        )

    def expelled(self, place: int) -> None:
        """Its reserve is forfeit, and then its place."""
        operator = self.committee[place].operator
        self.ok("forfeit", self.s.world.config.availability, self.job, operator, 0)
        self.ok("expel", "stranger", self.job, self.committee, place)

    def count(self) -> None:
        self.ok("count", "stranger", self.job, self.version, self.committee)


@scenario
def custodians_are_asked_for_once_and_their_escrow_comes_back(s: Stage) -> None:
    t = CustodyScenario(s, token="usd", policy=custodians_policy(9, POLICY_ROLL_BACK | POLICY_CARRIES))
    job, size = t.job, SIGNED_BYTES
    t.no("nothing requested", "fund", "submitter", job, 9)
    t.no("nothing requested", "offer", "alice hot", job, s.ids["alice"])
    t.no("nothing requested", "schedule", "stranger", job)
    t.no("not the submitter", "request", "stranger", job, 7, size)
    for policy in (8, *(custodians_policy(custodians) for custodians in (1, 2, 4, 8, 10, 11, 16, 2**200))):
        s.no("tasks: unknown policy", "tasks", "post", "submitter", s.terms(policy=policy), value=POSTING_DEPOSIT)
    t.no("no custodians", "request", "submitter", s.post(token="usd"), 7, size)
    for price, bytes_held in ((2**80, size), (1, size - 1), (0, size), (2**80 - 1, 2**50 + 1)):
        t.no("price out of range", "request", "submitter", job, price, bytes_held)
    t.ok("request", "submitter", job, 1, size)
    t.no("already requested", "request", "submitter", job, 1, size)
    t.no("zero amount", "fund", "submitter", job, 0)
    t.ok("fund", "stranger", job, 30)
    t.no("job not over", "refund", "stranger", job)
    t.offered("alice")
    t.no("job not over", "release", "stranger", job, s.ids["alice"])
    t.no("nothing reserved", "release", "stranger", job, s.ids["bob"])
    s.ok("tasks", "cancel", "submitter", job)
    t.no("job not open", "request", "submitter", job, 1, size)
    t.no("job is over", "offer", "bob hot", job, s.ids["bob"])
    t.no("job not awarded", "schedule", "stranger", job)
    t.ok("refund", "stranger", job)
    t.no("nothing left", "refund", "stranger", job)
    t.ok("release", "stranger", job, s.ids["alice"])
    t.no("nothing reserved", "release", "stranger", job, s.ids["alice"])
    t.ok("retire", "alice hot", job, 0)
    assert s.world.custody_funds[t.token, s.ids["alice"]] == FUNDS
    large = s.post(token="usd", policy=custodians_policy(9))
    t.ok("request", "submitter", large, 2**80 - 1, 2**50)


@scenario
def an_operators_funds_are_its_owners(s: Stage) -> None:
    t = CustodyScenario(s)
    alice = s.ids["alice"]
    t.no("unknown operator", "deposit", "stranger", 99, t.token, 1)
    t.no("zero amount", "deposit", "stranger", alice, t.token, 0)
    t.no("not the owner", "withdraw", "alice hot", alice, t.token, 1)
    t.no("zero amount", "withdraw", "alice owner", alice, t.token, 0)
    t.no("amount exceeds funds", "withdraw", "alice owner", alice, t.token, FUNDS + 1)
    t.ok("withdraw", "alice owner", alice, t.token, FUNDS)
    t.ok("request", "submitter", t.job, 7, SIGNED_BYTES)
    t.no("amount exceeds funds", "offer", "alice hot", t.job, alice)
    reserve = s.world.custody_requests[t.job].reserve
    t.ok("deposit", "stranger", alice, t.token, reserve - 1)
    t.no("amount exceeds funds", "offer", "alice hot", t.job, alice)
    t.ok("deposit", "stranger", alice, t.token, 1)
    t.offered("alice")
    t.no("amount exceeds funds", "withdraw", "alice owner", alice, t.token, 1)


@scenario
def stake_counts_once_it_is_old_and_while_it_is_there(s: Stage) -> None:
    t = CustodyScenario(s)
    alice, delay = s.ids["alice"], s.preset.exit_delay_s
    t.no("nothing changed", "note_stake", "alice hot", alice)
    s.ok("registry", "add_stake", "stranger", alice, 5 * STAKE_UNIT)
    t.no("not the hot key", "note_stake", "stranger", alice)
    t.ok("request", "submitter", t.job, 7, SIGNED_BYTES)
    t.no("not eligible", "offer", "alice owner", t.job, alice)
    t.ok("note_stake", "alice hot", alice)
    s.wait(delay - 1)
    t.no("stake too young", "offer", "alice hot", t.job, alice)
    s.wait(1)
    t.offered("alice")
    t.no("already offered", "offer", "alice hot", t.job, alice)
    assert s.world.custody_offers[t.job][0].weight == s.operator("alice").stake // STAKE_UNIT
    t.no("no offer", "retire", "alice hot", t.job, 1)
    t.no("not the hot key", "retire", "alice owner", t.job, 0)
    t.offered("bob", "carol")
    t.ok("retire", "alice hot", t.job, 0)
    assert [each.operator for each in s.world.custody_offers[t.job]] == [s.ids["carol"], s.ids["bob"]]
    s.ok("registry", "request_exit", "alice owner", alice)
    t.no("not eligible", "offer", "alice hot", t.job, alice)
    s.wait(delay)
    s.ok("registry", "withdraw_stake", "alice owner", alice)
    t.ok("note_stake", "stranger", alice)
    assert s.world.stake_notes[alice].stake == 0


@scenario
def of_many_offers_the_one_with_the_least_stake_makes_room(s: Stage) -> None:
    t = CustodyScenario(s)
    hot, least = s.accounts["alice hot"], s.preset.min_stake
    many = []
    for index in range(MAX_CUSTODY_OFFERS + 2):
        stake = least + index % (MAX_CUSTODY_OFFERS + 1) * STAKE_UNIT
        many.append(s.ok("registry", "register", "alice owner", hot, 1, 8, stake, ""))
        t.ok("note_stake", "alice hot", many[-1])
        t.ok("deposit", "stranger", many[-1], t.token, FUNDS)
    s.wait(s.preset.exit_delay_s)
    t.job = s.post(**t.terms)
    t.ok("request", "submitter", t.job, 7, SIGNED_BYTES)
    for operator in many[:MAX_CUSTODY_OFFERS]:
        t.ok("offer", "alice hot", t.job, operator)
    t.no("offers full", "offer", "alice hot", t.job, many[-1])
    t.ok("offer", "alice hot", t.job, many[MAX_CUSTODY_OFFERS])
    assert s.world.custody_roles[t.job, many[0]].status == CustodyStatus.NONE
    t.no("offers full", "offer", "alice hot", t.job, many[0])
    t.ok("fund", "stranger", t.job, 10**6)
    t.awarded()
    t.drawn()
    assert len(s.world.custody_offers[t.job]) == MAX_CUSTODY_OFFERS - 3


@scenario
def a_committee_is_drawn_by_a_block_that_nobody_knew(s: Stage) -> None:
    t = CustodyScenario(s)
    t.asked(more=-1)
    t.offered("alice", "bob", "frank", "grace")
    t.no("job not awarded", "schedule", "stranger", t.job)
    t.no("nothing scheduled", "draw", "stranger", t.job, ())
    t.no("no committee", "hold_start", "stranger", t.job, (), ())
    t.no("no committee", "hold_inputs", "stranger", t.job, 0, (), ())
    t.no("committee differs", "resign", "alice hot", t.job, (), 0)
    t.awarded()
    t.no("escrow too small", "schedule", "stranger", t.job)
    t.ok("fund", "stranger", t.job, 1)
    t.ok("schedule", "stranger", t.job)
    for function, args in (("schedule", (t.job,)), ("retire", (t.job, 0)), ("offer", (t.job, s.ids["carol"]))):
        sender = "carol hot" if function == "offer" else "alice hot"
        t.no("draw scheduled", function, sender, *args)
    s.mine(s.preset.draw_blocks + 1)
    t.no("draw block not buried", "draw", "stranger", t.job, ())
    s.mine(300)
    t.ok("draw", "stranger", t.job, ())
    assert t.version == 0, "a draw that nobody can know any more is lost"
    t.drawn()
    assert {t.name(place) for place in range(3)} > {"frank", "grace"}, "those without a seat come first"
    t.no("no place vacant", "schedule", "stranger", t.job)
    committee = t.committee
    for wrong in ((), committee[:2], committee[::-1]):
        t.no("committee differs", "note_key", "stranger", t.job, wrong, 0)
    t.no("no custodian", "note_key", "stranger", t.job, committee, 3)
    t.no("nothing changed", "note_key", "stranger", t.job, committee, 0)
    frank = t.place("frank")
    s.ok("registry", "set_hot", "frank owner", s.ids["frank"], s.accounts["dave hot"])
    t.ok("note_key", "stranger", t.job, committee, frank)
    t.no("committee differs", "note_key", "stranger", t.job, committee, frank)


@scenario
def too_few_offers_draw_nobody(s: Stage) -> None:
    t = CustodyScenario(s)
    s.bid_all(t.job, HOLDERS, AGGREGATORS)
    s.wait(s.preset.bid_window_s - 1)
    t.asked()
    t.offered("erin", "frank")
    s.reveal_all(t.job, HOLDERS, AGGREGATORS)
    s.award_all(t.job)
    s.to(s.world.custody_requests[t.job].closes_at - 1)
    t.no("offers open", "schedule", "stranger", t.job)
    s.wait(1)
    t.no("too few offers", "schedule", "stranger", t.job)
    t.offered("grace")
    t.drawn()


@scenario
def a_custodian_that_resigns_stays_until_it_is_replaced(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    first = t.name(0)
    t.no("not the hot key", "resign", "stranger", t.job, t.committee, 0)
    t.ok("resign", f"{first} hot", t.job, t.committee, 0)
    t.no("nothing changed", "resign", f"{first} hot", t.job, t.committee, 0)
    s.wait(s.preset.answer_s - 1)
    t.ok("resign", f"{t.name(2)} hot", t.job, t.committee, 2)  # whoever resigns later lets nobody wait
    t.no("offers open", "schedule", "stranger", t.job)
    s.wait(1)
    t.no("too few offers", "schedule", "stranger", t.job)
    t.offered("alice")
    t.ok("schedule", "stranger", t.job)
    t.no("draw scheduled", "resign", f"{t.name(1)} hot", t.job, t.committee, 1)
    s.mine(s.preset.draw_blocks + 2)
    t.no("committee differs", "draw", "stranger", t.job, ())
    t.ok("draw", "stranger", t.job, t.committee)
    assert t.name(0) == "alice"
    assert t.committee[0].from_turn == 1
    assert s.world.custody_roles[t.job, s.ids[first]].status == CustodyStatus.LEFT
    t.no("already offered", "offer", f"{first} hot", t.job, s.ids[first])


@scenario
def custodians_sign_for_what_they_hold(s: Stage) -> None:
    t = CustodyScenario(s)
    job, forged = t.job, "custody: not the custodian's signature"
    t.asked()
    t.offered(*LARGE)
    t.awarded()
    t.drawn()
    committee = t.committee
    t.no("too few signatures", "hold_start", "stranger", job, committee, t.start(0))
    t.no("committee differs", "hold_start", "stranger", job, (), t.start(0, 1))
    for wrong in ({"job": job + 1}, {"index": 0}, {"index": 3}, {"signer": s.accounts["alice hot"]}):
        s.no(forged, "custody", "hold_start", "stranger", job, committee, t.start(0, 1, **wrong))
    t.no("not the open turn", "hold_inputs", "stranger", job, 0, committee, t.inputs(0, 0))
    t.running()
    t.no("already held", "hold_start", "stranger", job, committee, t.start(0, 1))
    s.commit(job, "alice")
    early = t.inputs(7, 0, 1)
    s.no("settlement: inputs open", "custody", "hold_inputs", "stranger", job, 0, committee, early)
    s.no("settlement: inputs open", "custody", "post_checkpoint", "dave hot", *t.post_args(0, 1, inputs=early))
    for name in ("bob", "carol"):
        s.commit(job, name)
    t.no("not the open turn", "hold_inputs", "stranger", job, 1, committee, t.inputs(0, 0, turn=1))
    later = t.inputs(0, 0, 1, turn=1)
    s.no("settlement: not the current turn", "custody", "hold_inputs", "stranger", job, 1, committee, later)
    for wrong in ({"turn": 1}, {"job": 0}, {"index": 1}, {"signer": s.accounts["alice hot"]}):
        s.no(forged, "custody", "hold_inputs", "stranger", job, 0, committee, t.inputs(7, 0, 1, **wrong))
    t.hold(0b001, 2)  # alone: it answered
    s.wait(1)
    two = (*t.inputs(0b011, 0), *t.inputs(0b110, 1))
    t.ok("hold_inputs", "stranger", job, 0, committee, two)
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs, record.answered, record.signed_at) == (0b010, 0b011, 0b100, s.now)
    t.hold(0b101, 2)
    assert s.world.custody_records[job, 0] == record, "it lacks a seat of the mask: skipped"
    t.no("too few signatures", "hold_inputs", "stranger", job, 0, committee, ())
    t.no("inputs not held", "post_checkpoint", "dave hot", *t.post_args(0, 1))
    s.no("settlement: mask differs", "custody", "post_checkpoint", "dave hot", *t.post_args(0, 1, mask=0b010))
    t.hold(0b010, 2)
    t.hold(0b101, 0, 2)
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs) == (0b111, 0), "nobody signed for all of it"
    s.wait(s.preset.answer_s)
    t.hold(0b111, 1)
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs) == (0b111, 0b010)
    false = b"x" * 32
    wrongs = ({"turn": 1}, {"root": false}, {"cid": false}, {"index": 1}, {"signer": s.accounts["alice hot"]})
    for wrong in wrongs:
        s.no(forged, "custody", "post_checkpoint", "dave hot", *t.post_args(0, 1, **wrong))
    t.no("not the hot key", "post_checkpoint", "stranger", *t.post_args(0, 1))
    s.no("settlement: not a protocol contract", "settlement", "post_checkpoint", "dave hot", *t.post_args()[:6])
    t.no("too few signatures", "post_checkpoint", "dave hot", *t.post_args())
    claim = t.posted(0, 2)
    t.no("turn is closed", "hold_inputs", "stranger", job, 0, committee, t.inputs(7, 0, 1))
    t.no("no checkpoint", "hold_turn", "stranger", job, AGGREGATOR_SEAT, 1, committee, (), ())
    for wrong in wrongs:
        signed = t.checkpoint(claim, 0, 1, **wrong)
        s.no(forged, "custody", "hold_turn", "stranger", job, AGGREGATOR_SEAT, claim.turn, committee, (), signed)
    s.wait(s.preset.answer_s)
    t.held_turn(claim, 1)
    s.wait(1)
    t.no("too late", "hold_turn", "stranger", job, AGGREGATOR_SEAT, claim.turn, committee, (), t.checkpoint(claim, 1))
    # A turn in one transaction; others hold it afterwards.
    other = t.closed()
    both = (*t.inputs(3, 0, turn=other.turn), *t.inputs(7, 2, turn=other.turn))
    t.ok("hold_turn", "stranger", job, AGGREGATOR_SEAT, other.turn, committee, both, t.checkpoint(other, 2))
    record = s.world.custody_records[job, 1]
    assert (record.mask, record.inputs, record.checkpoint) == (0b111, 0b111, 0b111)


@scenario
def late_signatures_for_inputs_do_not_stop_a_checkpoint(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    t.commit_all()
    t.hold(7, 0, 1)
    s.wait(s.preset.answer_s + 1)
    claim = t.posted(0, 1, inputs=t.inputs(7, 0, 1, 2))
    assert s.world.custody_records[t.job, claim.turn].inputs == 0b011, "too late for the third's pay"


@scenario
def a_custodians_own_seat_counts_though_the_others_are_silent(s: Stage) -> None:
    """Grace is hostile: with alice and frank there is a majority of honest ones, for alice's own seat too."""
    t = CustodyScenario(s)
    t.ready("alice", "frank", "grace")
    t.commit_all()
    t.hold(0b111, t.place("alice"), t.place("frank"))
    s.wait(s.preset.answer_s + 1)
    t.ok("leave_out", "grace hot", t.job, 0)
    posted = t.posted(t.place("alice"), t.place("frank"))
    assert posted.scope == 0b111
    s.finalise(t.job)
    assert s.world.claims[t.job, s.seat_of(t.job, "alice"), 0].status == ClaimStatus.PAID


@scenario
def who_holds_less_than_the_mask_is_not_paid(s: Stage) -> None:
    """Places 0 and 1 hold everything; 2 signs for nothing, in the first majority that is handed in."""
    t = CustodyScenario(s).ready()
    job, third = t.job, s.ids[t.name(2)]
    t.commit_all()
    t.ok("hold_inputs", f"{t.name(2)} hot", job, 0, t.committee, (*t.inputs(7, 0), *t.inputs(0, 2)))
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs) == (0, 0b101), "of no seat, all of which they hold"
    s.no("settlement: mask differs", "custody", "post_checkpoint", "dave hot", *t.post_args(0, 1, mask=0))
    t.ok("hold_inputs", "stranger", job, 0, t.committee, (*t.inputs(0b011, 0), *t.inputs(0b111, 1)))
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs) == (0b011, 0b011)
    t.ok("hold_inputs", "stranger", job, 0, t.committee, (*t.inputs(0b110, 2), *t.inputs(0b111, 1)))
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs) == (0b111, 0b010), "the mask grew, and one of these holds all of it"
    t.hold(0b111, 0)
    claim = t.posted(0, 1)
    both = (*t.inputs(2**128 - 1, 0, turn=0), *t.inputs(2**128 - 1, 1, turn=0))
    t.ok("hold_turn", f"{t.name(2)} hot", job, AGGREGATOR_SEAT, claim.turn, t.committee, both, ())
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs) == (0b111, 0b011), "no seat joins after the checkpoint"
    s.finalise(job)
    before = s.world.custody_funds[t.token, third]
    t.count()
    assert s.world.custody_funds[t.token, third] == before


@scenario
def signatures_are_paid_once_their_turn_is_final(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    job, token = t.job, t.token
    paid = {name: s.world.custody_funds[token, s.ids[name]] for name in LARGE}
    t.no("nothing to count", "count", "stranger", job, t.version, t.committee)
    t.no("committee differs", "count", "stranger", job, 0, t.committee)
    claims = []
    for _ in range(2):
        t.commit_all()
        t.hold(7, 0, 1)
        claims.append(t.posted(1, 2))
    t.no("nothing to count", "count", "stranger", job, t.version, t.committee)
    s.finalise(job)
    t.commit_all()
    t.hold(7, 1, 2)
    claims.append(t.posted(1, 2))
    t.no("job not over", "release", "stranger", job, s.ids["erin"])
    t.count()
    assert s.world.custody[job].counted == 2
    got = {place: s.world.custody_funds[token, s.ids[t.name(place)]] - paid[t.name(place)] for place in range(3)}
    assert got == {0: 2 * FEE, 1: 4 * FEE, 2: 2 * FEE}
    late = t.checkpoint(claims[0], 0)
    t.no("turn is counted", "hold_turn", "stranger", job, AGGREGATOR_SEAT, claims[0].turn, t.committee, (), late)
    s.settle(job)
    t.no("job not over", "refund", "stranger", job)
    t.count()
    t.no("nothing to count", "count", "stranger", job, t.version, t.committee)
    t.ok("refund", "stranger", job)
    for name in LARGE:
        t.ok("release", "stranger", job, s.ids[name])
        t.ok("withdraw", f"{name} owner", s.ids[name], token, s.world.custody_funds[token, s.ids[name]])


@scenario
def a_place_of_the_ring_is_counted_before_it_is_used_again(s: Stage) -> None:
    t = CustodyScenario(s, rounds=5, depth=1).ready()
    job, committee = t.job, t.committee
    t.closed()
    s.finalise(job)
    t.closed()
    s.finalise(job)
    t.commit_all()
    t.no("turn not counted", "hold_inputs", "stranger", job, 2, committee, t.inputs(7, 0, 1))
    t.no("turn not counted", "post_checkpoint", "dave hot", *t.post_args(0, 1, inputs=t.inputs(7, 0, 1)))
    t.count()
    t.hold(7, 2)  # alone
    claim = t.posted(inputs=t.inputs(7, 0, 1))
    t.ok("hold_turn", "stranger", job, AGGREGATOR_SEAT, claim.turn, committee, t.inputs(7, 2, turn=claim.turn), ())
    s.finalise(job)
    t.commit_all()
    t.hold(7, 0)
    t.posted(inputs=t.inputs(7, 0, 1))
    s.finalise(job)
    t.count()
    t.commit_all()
    t.hold(7, 0, 1)
    t.posted()
    s.finalise(job)
    t.count()


@scenario
def an_escrow_that_rollbacks_spent_pays_all_alike(s: Stage) -> None:
    t = CustodyScenario(s, rounds=1, depth=1).ready()
    job = t.job
    t.commit_all()
    claim = t.posted(0, 1, 2, inputs=t.inputs(7, 0, 1, 2))
    s.convict(job, claim)  # the round is done again
    s.finalise(job)
    t.count()
    escrow = s.world.custody_escrows[job]
    assert escrow == 0
    t.ok("fund", "stranger", job, 9)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    t.closed()
    s.finalise(job)
    t.count()
    assert s.world.custody_escrows[job] == 1, "four signatures at 2 each"


@scenario
def who_does_not_sign_in_time_is_replaced(s: Stage) -> None:
    t = CustodyScenario(s, max_price=3_300, aggregator_max_price=100)
    job = t.job
    t.asked()
    assert s.world.custody_requests[job].reserve == 10_000, "so that a basis point of it is 1"
    t.offered(*LARGE)
    t.awarded()
    t.drawn()
    t.no("no open turn", "lapse", "stranger", job, t.committee, 0)
    t.running()
    s.commit(job, "alice")
    answer_s = s.preset.answer_s
    s.to(s.world.run(job).inputs_close + answer_s)
    t.no("time left", "lapse", "stranger", job, t.committee, 0)
    s.wait(1)
    t.no("committee differs", "lapse", "stranger", job, (), 0)
    t.no("no custodian", "lapse", "stranger", job, t.committee, 3)
    t.hold(0, 2)  # the excuse
    t.no("it signed", "lapse", "stranger", job, t.committee, 2)
    gone = t.name(0)
    t.ok("lapse", "stranger", job, t.committee, 0)
    assert s.world.custody_roles[job, s.ids[gone]].reserve == 9_900
    assert t.offers_close == s.now + s.preset.answer_s
    t.no("no custodian", "lapse", "stranger", job, t.committee, 0)
    vacant = (InputsSignature(0, ZERO_ADDRESS, job, 0, 7), *t.inputs(7, 1))
    assert t.committee[0] == Member()
    with_key = (replace(vacant[0], signer=s.accounts[f"{gone} hot"]), vacant[1])
    t.no("not the custodian's signature", "hold_inputs", "stranger", job, 0, t.committee, with_key)
    t.offered("bob")
    t.drawn()
    bob = t.place("bob")
    t.no("not on duty", "lapse", "stranger", job, t.committee, bob)
    t.hold(7, bob, 2)  # the replacement signs for the turn that is open
    t.no("inputs are held", "lapse", "stranger", job, t.committee, 1)
    t.posted(bob, 2)


@scenario
def whoever_offers_first_after_an_outage_is_not_alone(s: Stage) -> None:
    """A majority is silent, and nobody waits with an offer: alice and bob, who have both places ended, are not drawn at once."""
    t = CustodyScenario(s, aggregate_s=60, slot_s=60).ready()
    job = t.job
    t.commit_all()
    s.to(s.world.run(job).inputs_close + s.preset.answer_s + 1)
    t.ok("lapse", "alice hot", job, t.committee, 0)
    t.offered("alice")
    s.to(t.offers_close - 1)
    t.no("offers open", "schedule", "alice hot", job)
    t.ok("lapse", "alice hot", job, t.committee, 1)
    s.to(t.offers_close - 1)
    t.no("offers open", "schedule", "alice hot", job)
    t.offered("bob", "carol", "dave")
    s.wait(1)
    t.ok("schedule", "alice hot", job)
    t.no("draw scheduled", "lapse", "stranger", job, t.committee, 2)
    third = t.committee[2].operator
    t.ok("forfeit", s.world.config.availability, job, third, 0)
    t.no("draw scheduled", "expel", "stranger", job, t.committee, 2)
    s.mine(s.preset.draw_blocks + 2)
    t.ok("draw", "stranger", job, t.committee)
    t.ok("expel", "stranger", job, t.committee, 2)


@scenario
def who_lost_its_reserve_loses_its_place(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    job, reserve = t.job, s.world.custody_requests[t.job].reserve
    first, second = (s.ids[t.name(place)] for place in (0, 1))
    here, burned = s.world.config.availability, s.world.custody_burned.get(t.token, 0)
    t.no("not the availability", "forfeit", "stranger", job, first, 0)
    t.no("its reserve is here", "expel", "stranger", job, t.committee, 0)
    assert not s.ok("custody", "forfeit", here, job, first, reserve), "it may keep all"
    t.no("its reserve is here", "expel", "stranger", job, t.committee, 0)
    for kept in (reserve - 1, 0):
        assert not s.ok("custody", "forfeit", here, job, s.ids["alice"], kept), "she put nothing up"
        assert not s.ok("custody", "forfeit", here, job + 1, first, kept), "no such job"
        assert s.ok("custody", "forfeit", here, job, first, kept)
        assert not s.ok("custody", "forfeit", here, job, first, kept), "it is taken once"
    t.no("committee differs", "expel", "stranger", job, (), 0)
    t.no("no custodian", "expel", "stranger", job, t.committee, 3)
    t.ok("expel", "stranger", job, t.committee, 0)
    t.no("no custodian", "expel", "stranger", job, t.committee, 0)
    t.ok("resign", f"{t.name(1)} hot", job, t.committee, 1)
    t.offered("alice", "bob")
    t.drawn()
    assert s.world.custody[job].vacant == 0
    assert s.ok("custody", "forfeit", here, job, second, 0), "it left its place, not what it signed for"
    assert s.world.custody_burned[t.token] == burned + 2 * reserve
    for _ in range(s.world.run(job).rounds):
        t.closed()
        s.finalise(job)
        t.count()
    t.no("nothing reserved", "release", "stranger", job, first)
    third = t.place("alice")
    t.ok("release", "stranger", job, s.ids["alice"])
    t.no("job is over", "expel", "stranger", job, t.committee, third)


@scenario
def a_hostile_token_stops_only_the_custody_that_is_paid_in_it(s: Stage) -> None:
    t = CustodyScenario(s)
    bad = s.tokens["bad"]
    s.ok("tasks", "allow", "deployer", bad, True, 0)
    job = s.post(token="bad", policy=custodians_policy(3))
    t.ok("request", "submitter", job, 7, SIGNED_BYTES)
    t.ok("fund", "stranger", job, 70)
    t.ok("deposit", "stranger", s.ids["alice"], bad, 7)
    s.ok("token", "refuse", "stranger", bad, True)
    t.no("transfer failed", "fund", "stranger", job, 1)
    t.no("transfer failed", "deposit", "stranger", s.ids["alice"], bad, 7)
    t.no("transfer failed", "withdraw", "alice owner", s.ids["alice"], bad, 7)
    t.ok("withdraw", "alice owner", s.ids["alice"], t.token, 7)
    s.ok("tasks", "cancel", "submitter", job)
    t.no("transfer failed", "refund", "stranger", job)
    s.ok("token", "refuse", "stranger", bad, False)
    t.ok("refund", "stranger", job)
