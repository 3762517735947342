"""A custodian's lane: it offers, holds what a job commits, signs for it, hands signatures in, and is paid.

Everything is decided from the chain, from what the work queue holds and from what custodians published, so a keeper that is started
again goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keepers.decisions import custody as decisions
from keepers.decisions import custody_signatures as signatures
from keepers.decisions.custody import Custodian
from keepers.decisions.custody_signatures import Heard
from keepers.decisions.custody_statements import CHECKPOINT, INPUTS, START, Proposal, Signed, is_signed_by, sign
from keepers.decisions.orders import Send
from keepers.decisions.requests import fetch_name, fetch_request, hold_name, hold_request, proposal_work
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.custody import CustodyView, read_custody, words_of
from zoo_compute.chain.views import JobState
from zoo_compute.spec.custodians import CustodyStatus, Member, Role
from zoo_compute.spec.params import STAKE_UNIT
from zoo_compute.store.cid import digest_of, raw_cid

if TYPE_CHECKING:
    from keepers.services.parent_checks import ParentChecks
    from keepers.services.sends import Sends
    from keepers.services.statements import Statements
    from keepers.services.verification import RequestWork
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.signer import HotKey
    from zoo_compute.chain.views import Checkpoint, JobView, OperatorView

log = logging.getLogger("zoo.custody")
PROPOSALS = 4  # checkpoints of one turn that I download for its aggregator: it may find another mask, or be replaced


class Custody:
    """Of one operator: a custodian's, or an aggregator's, who hands custodians' signatures in.

    turn_s: seconds that each keeper leaves to the one before it. keeps_offers: whether an offer that was not drawn waits for a vacant
    place.
    """

    def __init__(
        self,
        chain: Chain,
        sender: Sender,
        account: HotKey,
        ask: RequestWork,
        statements: Statements,
        sends: Sends,
        parent_checks: ParentChecks,
        *,
        operator: int,
        turn_s: int,
        keeps_offers: bool = True,
    ) -> None:
        self._chain, self._sender, self._account, self._ask = chain, sender, account, ask
        self._statements, self._operator, self._sends = statements, operator, sends
        self._parent_checks = parent_checks
        self._turn_s, self._keeps_offers = turn_s, keeps_offers
        self._answer_s = chain.params.answer_s
        self._open: set[int] = set()  # jobs in which there is more to do
        self._since: dict[tuple[object, ...], int] = {}  # what is due -> when I saw that first
        self._noted = -1  # the stake that was compared last
        # By job, turn and seat: what an aggregator proposed.
        self._proposals: dict[tuple[int, int, int], set[bytes]] = {}
        self._valid: dict[tuple[str, int, Signed], bool] = {}

    def pending(self, job: int) -> bool:
        return job in self._open

    def act(self, view: JobView, operator: OperatorView, asked: int | None) -> JobView:
        """Do what is due in one job; return its view with what custodians hold of the open turn.

        asked: my price per GiB and round in the job's token; None: I offer nothing.
        """
        custody = read_custody(self._chain, view) if view.custodians else None
        if custody is None:
            return view
        role = custody.roles.get(self._operator, Role())
        is_involved = role != Role() or view.aggregates(self._operator)
        if decisions.is_over(view, custody) and role.reserve == 0:
            self._open.discard(view.job)
            self._statements.forget(view.job)
            self._parent_checks.forget(view.job)
            return view
        if is_involved:
            self._open.add(view.job)
        me = self._me(view, custody, operator, asked)
        if decisions.may_offer(view, custody, me):
            self._offer(view, custody, me)
        place = custody.place_of(self._operator)
        if place is not None:
            self._sign(view, custody, place)
        if is_involved:
            self._tend(view, custody, me)
            self._hand_in(view, custody, place)
        return self._with_inputs(replace(view, custody=custody), custody)

    def _with_inputs(self, view: JobView, custody: CustodyView) -> JobView:
        """Whether the open turn waits for custodians."""
        run = view.run
        if run is None or run.is_waiting or view.state != JobState.RUNNING:
            return view
        if not custody.committees:
            return replace(view, awaits_custodians=True)
        record, heard = custody.record_of(run.turn), Heard({}, {})
        if view.aggregates(self._operator):
            heard = self._heard(view, run.turn, custody.committees[record.version])
        awaits = signatures.awaits_custodians(view, custody, heard)
        return replace(view, inputs_signed=record.signed_at != 0, awaits_custodians=awaits)

    # -- offers

    def note_stake(self, operator: OperatorView) -> None:
        """Have my stake count, as far as it changed."""
        if operator.stake == self._noted or not operator.eligible:
            return
        noted = self._chain.custody.notes(self._operator, block=operator.block).stake
        if decisions.notes_stake(operator.stake // STAKE_UNIT, noted):
            self._sender.send(self._chain.custody.note_stake(self._operator))
        self._noted = operator.stake

    def _me(self, view: JobView, custody: CustodyView, operator: OperatorView, asked: int | None) -> Custodian:
        me = Custodian(self._operator, asked, operator.eligible, self._keeps_offers)
        if asked is None or not custody.progress.vacant or self._operator in custody.roles:
            return me
        reads = [
            Read("custody", "aged_stake", (me.operator,)),
            Read("custody", "funds", (view.token, me.operator)),
        ]
        aged, funds = read_all(self._chain, view.block, reads)
        return replace(me, aged=aged, funds=funds)

    def _offer(self, view: JobView, custody: CustodyView, me: Custodian) -> None:
        """Once what the job starts from is here: whoever cannot hold that holds nothing."""
        held = self._start(view)
        if held is None:
            return
        if not decisions.pays(custody, me, int(held["round_bytes"])):
            log.info("job %d: a signature is paid less than custody_price", view.job)
            return
        self._send(view, Send("custody", "offer", (view.job, self._operator)))

    # -- holding and signing

    def _sign(self, view: JobView, custody: CustodyView, place: int) -> None:
        """Sign for what is here, and publish it."""
        said, job, account = self._statements.mine(view.job), view.job, self._account
        if not custody.progress.started and said.of(START) is None and self._start(view):
            said = said.adding(sign(self._chain, account, job, START))
        for turn in signatures.turns_to_sign(view, custody, self._operator):
            held, before = self._fetched(view, turn), said.of(INPUTS, turn)
            is_more = before is None or held & ~before.seats
            if is_more and signatures.is_time_for_inputs(view, turn, held, self._answer_s):
                said = said.adding(sign(self._chain, account, job, INPUTS, turn, held.to_bytes(32, "big")))
            for seat in view.aggregator_seats:
                value, last = self._signable_checkpoint(view, turn, seat), said.of(CHECKPOINT, turn, seat)
                if value is not None and (last is None or last.value != value.hex()):
                    said = said.adding(sign(self._chain, account, job, CHECKPOINT, turn, value, seat))
        self._statements.publish(said)

    def _signable_checkpoint(self, view: JobView, turn: int, seat: int) -> bytes | None:
        """Root and pointer of what an aggregator posted in a turn, or proposes, if what this pointer leads to is here, checked against
        the root.
        """
        made = next((each for each in signatures.checkpoints_of(view, turn) if each.seat == seat), None)
        if made is not None:
            return made.root + made.cid if self._holds(view, made) else None
        proposed = self._proposed(view, turn, seat)
        return proposed.value if proposed is not None and self._holds_proposed(view, proposed) else None

    def _start(self, view: JobView) -> dict[str, Any] | None:
        """What a worker said once all that the job starts from is here and checked; None: not yet, or it is not what its parents merge to."""
        held = self._ask("work.hold", hold_name(view, None), hold_request(view, None)).result
        if held is None or (held["is_merged"] and not self._parent_checks.agrees(view.job)):
            return None
        return held

    def _holds(self, view: JobView, made: Checkpoint) -> bool:
        """Whether a checkpoint is here, checked; if not, it is asked for."""
        return self._ask("work.hold", hold_name(view, made), hold_request(view, made)).state == "done"

    def _fetched(self, view: JobView, turn: int) -> int:
        """The seats of a turn whose bundles and updates are here, checked; what is not is asked for."""
        held = 0
        for commit in signatures.claims_of(view, turn):
            request = fetch_request(view, commit, raw_cid(commit.bundle), self._answer_s)
            if self._ask("work.fetch", fetch_name(commit, view.job), request).state == "done":
                held |= 1 << commit.seat
        return held

    # -- the aggregator's checkpoint, before it is posted

    def _proposed(self, view: JobView, turn: int, seat: int) -> Proposal | None:
        """What one of the open turn's aggregators would post. It may change its mind a few times, not fill my disk."""
        run, operator = view.run, view.seats[seat].operator
        if run is None or turn != run.turn or not operator:
            return None
        said = (
            self._statements.mine(view.job) if operator == self._operator else self._statements.of(view.job, operator)
        )
        proposed = said.proposal(turn, seat) if said is not None else None
        if proposed is None:
            return None
        seen = self._proposals.setdefault((view.job, turn, seat), set())
        if len(seen) < PROPOSALS:
            seen.add(proposed.value)
        return proposed if proposed.value in seen else None

    def _holds_proposed(self, view: JobView, proposed: Proposal) -> bool:
        root, cid = proposed.value[:32], proposed.value[32:]
        return self._ask("work.hold", *proposal_work(view, root, cid, proposed.seat)).state == "done"

    def propose(self, view: JobView, seat: int, mask: int, root: bytes, pointer: str) -> None:
        """Show custodians what I computed as the aggregator in a seat, and post it once a majority holds it. Raises RpcsDisagree."""
        run, custody = view.run, read_custody(self._chain, view)
        assert run is not None, "a checkpoint is posted while the job runs"
        said = self._statements.mine(view.job)
        proposed = Proposal(run.turn, root.hex(), pointer, seat)
        self._statements.publish(said.proposing(proposed))
        if custody is None or not custody.committees:
            return
        record, job = custody.record_of(run.turn), view.job
        committee = custody.committees[record.version]
        heard = self._heard(view, run.turn, committee)
        heard_of = heard.checkpoint(seat)
        signed = {place: each for place, each in heard_of.items() if each.value == proposed.value.hex()}
        is_pressed = view.now > run.aggregator_due - self._answer_s  # then it is recorded that they did not sign
        if len(signed) < (1 if is_pressed else custody.progress.least):
            return
        is_whole = len(signed) == sum(1 for member in committee if member.operator)
        if not is_pressed and not self._is_my_turn(view, (job, run.turn, root), None, is_whole=is_whole):
            return
        groups = signatures.groups_of(custody, record, heard)
        is_short = len(signed) < custody.progress.least
        if len(groups) > 1 or is_short:  # one call joins one group's seats; whoever is short has them on record before
            for group in groups:
                self._send(view, Send("custody", "hold_inputs", (job, run.turn, words_of(committee), group)))
            groups = []
        own = custody.place_of(self._operator)
        order = sorted(signed, key=lambda place: (place == own, place))  # that I am short, another must say
        words = [(place, *signed[place].words) for place in order]
        at = (job, seat, run.turn)
        args = (*at, mask, root, digest_of(pointer), words_of(committee), groups[0] if groups else [], words)
        self._send(view, Send("custody", "post_checkpoint", args))

    # -- handing in

    def _hand_in(self, view: JobView, custody: CustodyView, place: int | None) -> None:
        """Send signatures once there are enough, when it is my turn to."""
        if not custody.holders:
            return
        if not custody.progress.started and view.state == JobState.RUNNING:
            self._hand_in_start(view, custody, place)
        newest = view.run.turn if view.run is not None else -1
        first = max(custody.progress.counted, newest - view.terms.depth)
        for turn in range(first, newest + 1):
            record = custody.record_of(turn)
            members = custody.committees[record.version]
            heard = self._heard(view, turn, members)
            is_late = view.now >= record.signed_at + self._answer_s // 2
            calls = list(signatures.hand_in(view, custody, turn, heard, self._answer_s, late=is_late))
            everyone = sum(1 for member in members if member.operator)
            checkpoints = [heard.checkpoint(seat) for seat in view.aggregator_seats]
            lacking = min(checkpoints, key=len, default={}) if record.signed_at else heard.inputs
            what = (view.job, turn, bool(record.signed_at), bool(record.checkpoint))
            if calls and self._is_my_turn(view, what, place, is_whole=len(lacking) == everyone):
                for call in calls:
                    self._send(view, call)

    def _hand_in_start(self, view: JobView, custody: CustodyView, place: int | None) -> None:
        signed = self._valid_of(view, START, 0, custody.committee)
        is_whole = len(signed) == len(custody.holders)
        if len(signed) >= custody.progress.least and self._is_my_turn(
            view, (view.job, START), place, is_whole=is_whole
        ):
            words = [(index, *each.words) for index, each in signed.items()]
            self._send(view, Send("custody", "hold_start", (view.job, words_of(custody.committee), words)))

    def _heard(self, view: JobView, turn: int, members: Iterable[Member]) -> Heard:
        checkpoints = {seat: self._valid_of(view, CHECKPOINT, turn, members, seat) for seat in view.aggregator_seats}
        return Heard(self._valid_of(view, INPUTS, turn, members), checkpoints)

    def _valid_of(
        self, view: JobView, kind: str, turn: int, members: Iterable[Member], seat: int = 0
    ) -> dict[int, Signed]:
        """The newest signatures of this kind by place; what is not the custodian's is dropped."""
        valid = {}
        for index, member in enumerate(members):
            if not member.operator:
                continue
            is_mine = member.operator == self._operator
            said = self._statements.mine(view.job) if is_mine else self._statements.of(view.job, member.operator)
            signed = said.of(kind, turn, seat) if said is not None else None
            if signed is not None and self._is_valid(member.key, view.job, signed):
                valid[index] = signed
        return valid

    def _is_valid(self, key: str, job: int, signed: Signed) -> bool:
        what = (key, job, signed)
        if what not in self._valid:
            self._valid[what] = is_signed_by(self._chain, key, job, signed)
            while len(self._valid) > 4_096:
                del self._valid[next(iter(self._valid))]
        return self._valid[what]

    def _is_my_turn(self, view: JobView, what: tuple[object, ...], place: int | None, *, is_whole: bool) -> bool:
        """The aggregator first, then the custodians by place; all wait a little for those who have not signed yet."""
        is_first = view.run is not None and view.aggregates(self._operator)
        rank = 0 if is_first else 1 + (place or 0)
        return view.now >= self._since.setdefault(what, view.now) + (rank + (not is_whole)) * self._turn_s

    # -- the committee, pay, the end

    def _tend(self, view: JobView, custody: CustodyView, me: Custodian) -> None:
        duties = [
            *decisions.draw_duties(view, custody, self._answer_s),
            *decisions.lapse_duties(view, custody, self._answer_s),
            *decisions.expel_duty(view, custody),
            *signatures.leave_out_duty(view, custody, self._answer_s),
        ]
        order = [*sorted(custody.roles), 0]
        rank = order.index(self._operator if self._operator in custody.roles else 0)
        for duty in duties:
            if duty.function == "draw" and view.block <= custody.progress.draw_block + self._chain.params.draw_blocks:
                continue
            what = (view.job, duty.function, custody.progress.version, custody.progress.draw_block)
            if view.now >= self._since.setdefault(what, view.now) + rank * self._turn_s:
                self._send(view, duty)
        role, place = custody.roles.get(self._operator, Role()), custody.place_of(self._operator)
        if place is not None and custody.committee[place].key != self._account.address:
            self._send(view, Send("custody", "note_key", (view.job, words_of(custody.committee), place)))
        mine = self._statements.mine(view.job).of(INPUTS, view.run.turn) if view.run is not None else None
        closing = list(decisions.closing_duties(view, custody, me))
        if place is not None and mine is not None:
            closing += decisions.excuse_duty(view, custody, place, mine, self._answer_s)
        if role.status == CustodyStatus.OFFERED and decisions.offer_to_end(custody, me):
            closing += self._retire(view, custody)
        for duty in closing:
            when = (view.job, duty.function, custody.progress.counted)
            if duty.function != "count" or view.now >= self._since.setdefault(when, view.now) + rank * self._turn_s:
                self._send(view, duty)

    def _retire(self, view: JobView, custody: CustodyView) -> list[Send]:
        reads = [Read("custody", "offers", (view.job, place)) for place in range(custody.progress.offers)]
        offers = [operator for operator, _ in read_all(self._chain, view.block, reads)]
        return [Send("custody", "retire", (view.job, offers.index(self._operator)))] if self._operator in offers else []

    def _send(self, view: JobView, duty: Send) -> None:
        self._sends.add(view, getattr(getattr(self._chain, duty.contract), duty.function)(*duty.args))
