"""Takes part in disputes (docs/protocol/referee.md): answers for an operator's claims, asks about claims that were seen to be false,
and in the end closes, settles and withdraws.

It runs beside the keeper's ticks, which wait for transactions and stores. At every look it reads the explorations from the chain, and
asks the operator's workers for answers and asks, so a keeper that was killed goes on where the chain is.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepers.decisions.dispute_ends import closable_after, close_delay_s, ending, patience_s
from keepers.decisions.requests import dispute_name, dispute_request
from keepers.services.challenging import Asking, MismatchReports, Place
from keepers.services.claims_of_no_job import ClaimsOfNoJob, Questions, no_questions
from keepers.services.dispute_work import Ask, DisputeWork, failing
from keepers.services.false_claims import FalseClaims
from keepers.services.resolved import Resolved
from keepers.services.retries import Backoff, Troubles
from zoo_compute.chain.explorations import DisputeView, Explorations, explorations_of
from zoo_compute.chain.snapshot import read_job
from zoo_compute.disputes.exploration import Call
from zoo_compute.disputes.roles import ASKER, AUTHOR, DEFENDER
from zoo_compute.errors import NeedsOperator, ZooError
from zoo_compute.json_codec import decode
from zoo_compute.spec import clocks, state
from zoo_compute.spec.receipts import is_of_job
from zoo_compute.spec.watching import NOBODY

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.views import Claim, JobView

log = logging.getLogger("zoo.disputes")

Sent = tuple[bytes, str, bytes]  # a call: the claim's key, the function, the id of the node
About = tuple[bytes, str]  # a claim's key, and what went wrong
REFUSED_S = 5.0  # after which a call is sent again that was refused, or that the account could not pay
FINISH_S, LONGEST_S = 5.0, 3_600.0  # pauses before what a resolved dispute leaves to do is tried again
LEFT = "what it leaves"
SENDERS = 8  # calls that are sent side by side: answers do not wait for each other
FOLDER = "disputes"  # in the operator's folder: what its computations keep


@dataclass(frozen=True)
class Work:
    """One thing that this account has to do in a dispute. due: before which second, for the order."""

    role: str
    dispute: DisputeView
    due: int


class Disputing:
    """Every dispute that concerns one account: as the author of `operator`'s claims (0: of none), as an asker, as a defender of the
    claims of the job `defends`; and the end of others' disputes, where nobody else sees to it.

    reports: the verifier's, whose mismatches are asked about. secret: of the seals; without one none is placed.
    questions: of receipts that this account signed or has.
    explorations: of its own, which forgets what is over; without one the connection's, which does not.
    unanswered: by a claim's key, why there is no answer to an ask, by its id in hex. unpaid: by a claim's key, what this account lacks.
    """

    def __init__(
        self,
        chain: Chain,
        sender: Sender,
        ask: Ask,
        *,
        operator: int,
        folder: Path,
        reports: Path | None = None,
        defends: int | None = None,
        secret: bytes = b"",
        explorations: Explorations | None = None,
        questions: Questions = no_questions,
    ) -> None:
        self._chain = chain
        self._alone = ClaimsOfNoJob(chain, questions)
        self._sender = sender
        self._operator = operator
        self._defends = defends
        self._folder = folder / FOLDER
        self._troubles = Troubles[About]()
        self._reports = MismatchReports(chain, reports, self.challenge) if reports else None
        self._asking = Asking(chain, sender, secret)
        self._resolved = Resolved(chain, sender, operator, secret)
        self._explorations, self._forgets = explorations or explorations_of(chain), explorations is not None
        self._me = sender.address.lower()
        self._clocks = chain.params.clocks
        self._false = FalseClaims(chain, sender.address, operator, self._troubles)
        # Of resolved ones: the second after which there is more to do; None: nothing.
        self._over: dict[bytes, int | None] = {}
        self._work = DisputeWork(ask)
        self._refused = Backoff[Sent](REFUSED_S, REFUSED_S)
        self._unfinished = Backoff[bytes](FINISH_S, LONGEST_S)
        self._seen = 0  # the number of the block of the last look
        self.asks_due: list[int] = []  # the second before which each open ask about a claim of mine is to be answered
        self.unanswered: dict[bytes, dict[str, str]] = {}
        self.unpaid: dict[bytes, NeedsOperator] = {}

    def run(self, pause_s: float, progressed: Callable[[], None] = lambda: None) -> None:
        """Look again and again; a look that fails is followed by the next one.

        While a dispute of mine is open, it looks at every block, and as soon as a computation has ended.
        """
        while True:
            mine: list[DisputeView] = []
            try:
                mine = self.poll_once()
            except ZooError as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
            progressed()
            self._pause(pause_s, bool(mine))

    def _pause(self, pause_s: float, has_open: bool) -> None:
        if not has_open:
            time.sleep(pause_s)
        elif not self._work.is_waiting:  # else the look waited for it already
            try:
                self._chain.wait_for_block(self._seen, pause_s)
            except ZooError as error:
                log.warning("%s; will try again", error)
                time.sleep(pause_s)

    def challenge(self, job: int, claim: Claim, places: Sequence[Place]) -> bytes:
        """Ask about a claim from the next look on, until it is resolved. Returns its key. Raises UserError where it is too late.

        places: where the claim is false, as a worker's verification answers them (`dispute`).
        """
        return self._false.add(job, claim, places)

    def poll_once(self) -> list[DisputeView]:
        """Do everything that is due, the earliest deadline first. Returns my disputes that are open."""
        if self._reports is not None:
            self._reports.read()
        head = self._chain.head()
        self._seen = head.number
        every = self._explorations.at(head)
        mine = [dispute for dispute in every if self._concerns(dispute)]
        open_ = [dispute for dispute in mine if dispute.is_open]
        about_mine = [dispute for dispute in open_ if self._operator and dispute.operator == self._operator]
        self.asks_due = [ask.due for dispute in about_mine for ask in dispute.picture.open_asks]
        open_ += self._false.undisputed(head, {dispute.key for dispute in mine})
        self._begin_look(every, open_)
        calls: list[tuple[DisputeView, Call]] = []
        for work in sorted(self._due(open_), key=lambda each: each.due):
            with self._contained(work.dispute):
                calls += [(work.dispute, call) for call in self._calls(head, work)]
        calls += self._endings(head, every, {dispute.key for dispute, _ in calls})
        with ThreadPoolExecutor(SENDERS) as pool:
            sent = any(list(pool.map(lambda each: self._send(head, *each), calls)))
        for dispute in mine:
            if not dispute.is_open and self._has_more(head, dispute):
                self._finish(head, dispute)
        self._resolved.withdraw()
        if not sent:
            self._work.wait()
        return open_

    @property
    def rewards_due(self) -> dict[bytes, int]:
        """Of resolved disputes by the claim's key: the second after which a reward can be collected."""
        return {key: after for key, after in self._over.items() if after is not None}

    @property
    def trouble(self) -> list[str]:
        """What is wrong now, for the operator's status."""
        reports = self._reports.trouble if self._reports else []
        return [*self._troubles.texts, *reports, *self._resolved.trouble]

    def _begin_look(self, every: Sequence[DisputeView], open_: Sequence[DisputeView]) -> None:
        """Forget what belongs to no dispute that is open, or not done with."""
        if self._forgets:
            self._explorations.forget({each.key for each in every if not each.is_open and not self._concerns(each)})
        keys, known = {each.key for each in open_}, {each.key for each in every}
        open_keys = keys | {each.key for each in every if each.is_open}
        self._work.begin_look(keys)
        self._refused.keep(lambda sent: sent[0] in open_keys)
        self._unfinished.keep(lambda key: key in known)
        self._troubles.keep(
            lambda about: about[0] in open_keys or about[0] in self._false or (about[1] == LEFT and about[0] in known)
        )
        self._false.keep_asked(open_keys)
        self._over = {key: after for key, after in self._over.items() if key in known}
        self.unanswered = {key: why for key, why in self.unanswered.items() if key in keys}
        self.unpaid = {key: error for key, error in self.unpaid.items() if key in keys}

    # --- which disputes are mine

    def _concerns(self, dispute: DisputeView) -> bool:
        if not dispute.is_open and self._over.get(dispute.key, 0) is None:
            return False
        is_mine = bool(self._operator) and dispute.operator == self._operator
        return (
            is_mine or dispute.job == self._defends or dispute.key in self._false or bool(self._false.places(dispute))
        )

    def _due(self, disputes: Iterable[DisputeView]) -> Iterator[Work]:
        for dispute in disputes:
            first = next(iter(dispute.picture.open_asks), None)
            if self._operator and dispute.operator == self._operator:
                yield Work(AUTHOR, dispute, first.due if first else dispute.deadline)
            else:
                if self._false.places(dispute):
                    yield Work(ASKER, dispute, dispute.deadline)
                if dispute.job == self._defends:
                    role = AUTHOR if self._is_answer_key(dispute.operator) else DEFENDER
                    yield Work(role, dispute, first.due if first else dispute.deadline)

    def _is_answer_key(self, operator: int) -> bool:
        """Whether the operator's owner allowed this account to answer what strangers may not."""
        return self._chain.registry.may_answer(operator, self._sender.address)

    # --- what is due in one

    def _calls(self, head: Head, work: Work) -> list[Call]:
        dispute, picture = work.dispute, work.dispute.picture
        open_asks = [(each.id, each.record.clocks) for each in picture.open_asks]
        expired = [id for id, clock in open_asks if clocks.is_expired(clock, self._chain.time(head))]
        closable = closable_after(dispute, self._chain.time(head), self._clocks)
        if closable is not None and (work.role != ASKER or not expired):
            accounts = {self._me, NOBODY} if work.role == AUTHOR else {self._me}
            is_due = self._chain.time(head) > closable + close_delay_s(dispute, accounts, self._clocks)
            return [picture.close(dispute.job, self._claim_of(head, dispute)[1])] if is_due else []
        acted_on = expired
        if work.role != ASKER:
            is_author = work.role == AUTHOR
            acted_on = [
                id
                for id, clock in open_asks
                if clocks.may_answer(clock, self._chain.time(head), is_author, self._clocks)
            ]
            if not acted_on:
                return []
        result = self._computed(head, work, self._claim_of(head, dispute)[0], acted_on)
        if result is None:
            return []
        calls = [Call(*decode(each)) for each in result["calls"]]
        return [call for call in calls if self._refused.is_due((dispute.key, call.name, call.id))]

    def _endings(self, head: Head, every: Sequence[DisputeView], busy: set[bytes]) -> list[tuple[DisputeView, Call]]:
        """Of others' disputes whose participants do nothing: one a look, when it is my turn. busy: where I do something anyway."""
        for dispute in every if self._operator else ():
            if dispute.is_open and dispute.operator != self._operator and dispute.key not in busy:
                with self._contained(dispute):
                    for call in self._endings_of(head, dispute):
                        if self._refused.is_due((dispute.key, call.name, call.id)):
                            return [(dispute, call)]
        return []

    def _endings_of(self, head: Head, dispute: DisputeView) -> list[Call]:
        """The calls that may end it, the first one that is not refused; none before my turn."""
        due, picture = ending(dispute, self._chain.time(head), self._clocks), dispute.picture
        if due is None or self._chain.time(head) <= due.since + 2 * self._clocks.exclusive_s:
            return []
        view, claim = self._claim_of(head, dispute)
        seated = {seat.operator for seat in view.seats.values()} - {0, dispute.operator} if view else set()
        if self._chain.time(head) <= due.since + patience_s(self._operator, seated, dispute.key, self._clocks):
            return []
        # A claim that lost its data is closed at once, and its asks do not expire.
        expire = [picture.expire(dispute.job, claim, due.ask)] if due.ask else []
        return [*expire, picture.close(dispute.job, claim)]

    def _claim_of(self, head: Head, dispute: DisputeView) -> tuple[JobView | None, Any]:
        """The disputed claim as the specification's record, and its job's view; None where it is of no job."""
        if not is_of_job(dispute.job):
            return None, state.Claim(*self._alone.view(dispute).fields)  # type: ignore[arg-type]
        view = read_job(self._chain, dispute.job, head)
        return view, state.Claim(*dispute.claim_in(view).fields)  # type: ignore[arg-type]

    def _computed(
        self, head: Head, work: Work, view: JobView | None, acted_on: Sequence[bytes]
    ) -> dict[str, Any] | None:
        """What my worker answers; None while it is being computed. acted_on: asks to be answered, or past their clocks."""
        dispute, role = work.dispute, work.role
        places = self._false.places(dispute) if role == ASKER else []
        refused = [id for key, _, id in self._refused.paused if key == dispute.key and id in acted_on]
        name = dispute_name(dispute, role, acted_on, places, refused)
        options: dict[str, Any] = {
            "role": role,
            "picture": dispute.picture,
            "now": self._chain.time(head),
            "clocks": self._clocks,
            "folder": self._kept(dispute),
            "places": places,
            "skipped": refused,
            "failing": [bytes.fromhex(id) for id in failing({"unanswered": self.unanswered.get(dispute.key, {})})],
        }
        if view is None:
            request = self._alone.request(dispute, **options)
        else:
            request = dispute_request(view, dispute.claim_in(view), **options)
        status, about = self._work.submitted(dispute.key, name, request), (dispute.key, role)
        if status.state == "failed":
            self._troubles.note(about, f"{_name(dispute)}: nothing to send: {status.error}")
        if status.state != "done" or status.result is None:
            return None
        self.unanswered[dispute.key] = unanswered = status.result["unanswered"]
        if role == ASKER and not status.result["calls"] and status.result["until"] is None:
            self._troubles.note(about, f"{_name(dispute)}: nothing is false in it by this machine's own computation")
        elif unanswered:
            self._troubles.note(about, f"{_name(dispute)}: no answer: {unanswered}")
        else:
            self._troubles.clear(about)
        return status.result

    def _kept(self, dispute: DisputeView) -> Path:
        """What is computed for it."""
        return self._folder / dispute.key.hex()[:16]

    # --- calls

    def _send(self, head: Head, dispute: DisputeView, call: Call) -> bool:
        """Whether it is mined. What was refused is left alone for a while."""
        sent = (dispute.key, call.name, call.id)
        with self._contained(dispute, call.name, failed=partial(self._refused.failed, sent)):
            try:
                if call.name.startswith("ask") and not self._is_prepared(head, dispute, call):
                    return False
                function = getattr(self._chain.referee, call.name)
                receipt = self._sender.send(function(*call.args), value=self._asking.value(call))
            except NeedsOperator as error:
                self.unpaid[dispute.key] = error
                raise
            log.info("%s: %s in %s", _name(dispute), call.name, receipt.transaction_hash)
            self._refused.succeeded(sent)
            self.unpaid.pop(dispute.key, None)
            return True
        return False

    def _is_prepared(self, head: Head, dispute: DisputeView, call: Call) -> bool:
        """Whether an ask can be sent now: its step is sealed, and the Referee may take what it prepays."""
        if not self._asking.is_ready(head, dispute, call):
            return False
        if call.is_heavy and is_of_job(dispute.job):
            self._asking.provide(dispute.job, self._claim_of(head, dispute)[1])
        return True

    # --- the end

    def _has_more(self, head: Head, dispute: DisputeView) -> bool:
        after = self._over.get(dispute.key, 0)
        return after is not None and self._chain.time(head) > after and self._unfinished.is_due(dispute.key)

    def _finish(self, head: Head, dispute: DisputeView) -> None:
        """Delete the files of a dispute that is over, and take what is mine."""
        with self._contained(dispute, LEFT, failed=partial(self._unfinished.failed, dispute.key)):
            shutil.rmtree(self._kept(dispute), ignore_errors=True)
            if not is_of_job(dispute.job):
                claim, token = self._alone.view(dispute), ""  # a finder's part is sent to it
            else:
                view = read_job(self._chain, dispute.job, head)
                claim, token = dispute.claim_in(view), view.token
            self._over[dispute.key] = self._resolved.finish(head, dispute, claim, token)
            self._false.forget(dispute.key)
            self._unfinished.succeeded(dispute.key)
            assert dispute.end is not None
            log.info("%s: %s", _name(dispute), dispute.end.name.lower())

    def _contained(
        self, dispute: DisputeView, what: str = "", *, failed: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[None]:
        """One dispute must not keep the others waiting."""
        where = f"{_name(dispute)}: {what}" if what else _name(dispute)
        return self._troubles.contained((dispute.key, what), where, failed=failed)


def _name(dispute: DisputeView) -> str:
    return f"dispute {dispute.key.hex()[:8]} of job {dispute.job}"
