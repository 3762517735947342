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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepers.decisions.requests import dispute_name, dispute_request, trial_dispute_request
from keepers.queue.work_queue import DISPUTE_TASK, WorkStatus
from keepers.services.challenging import Asking, MismatchReports, Place
from keepers.services.resolved import Resolved
from zoo_compute.chain.demands import claim_hash
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import NO_DEADLINE
from zoo_compute.disputes.exploration import Call, Exploration
from zoo_compute.disputes.roles import ASKER, AUTHOR, DEFENDER
from zoo_compute.errors import Refusal, Retryable, UserError, ZooError
from zoo_compute.json_codec import decode
from zoo_compute.operators.admission import trial_answers
from zoo_compute.spec import clocks, state
from zoo_compute.spec.disputed_claims import RESULT, claim_key
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.trials import TRIALS

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.views import Claim, JobView
    from zoo_compute.operators.admission import TrialAnswer

log = logging.getLogger("zoo.disputes")

Ask = Callable[[str, str, dict[str, Any]], WorkStatus]  # task, name of the work, request
Sent = tuple[bytes, str, bytes]  # a call: the claim's key, the function, the id of the node
PATIENCE_S = 1.0  # in which what is being computed is waited for, before the chain is looked at again
PAUSE_S = 0.05
DISPUTE_POLL_S = (
    0.2  # between looks while a dispute is open: it has some ten asks, each a reply to the other side's answer
)
RETRY_S = 30.0  # after which work that failed is asked for again: silence would lose the claim
REFUSED_S = 5.0  # after which a call is sent again that was refused, or that the account could not pay
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
    claims of the job `defends`.

    reports: the verifier's, whose mismatches are asked about. secret: of the seals; without one none is placed.
    unanswered: by a claim's key, why there is no answer to an ask, by its id in hex.
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
    ) -> None:
        self._chain = chain
        self._sender = sender
        self._ask = ask
        self._operator = operator
        self._defends = defends
        self._folder = folder / FOLDER
        self._reports = MismatchReports(chain, reports, self.challenge) if reports else None
        self._asking = Asking(chain, sender, secret)
        self._resolved = Resolved(chain, sender, operator, secret)
        self._me = sender.address.lower()
        self._clocks = chain.params.clocks
        self._false: dict[
            bytes, tuple[int, Claim, list[Place]]
        ] = {}  # by a claim's key: its job, and where it is false
        self._asked: dict[bytes, tuple[int, list[Place]]] = {}  # by a claim's key: events read, and where I asked
        self._over: dict[
            bytes, int | None
        ] = {}  # resolved ones: the second after which there is more to do; None: nothing
        self._waiting: dict[str, dict[str, Any]] = {}  # by the name of work that is being computed: its request
        self._failed: dict[str, list[float]] = {}  # by the name of work: when it failed for good
        self._refused: dict[Sent, float] = {}  # when
        self.unanswered: dict[bytes, dict[str, str]] = {}

    def run(self, pause_s: float) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            mine: list[DisputeView] = []
            try:
                mine = self.poll_once()
            except ZooError as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
            time.sleep(min(pause_s, DISPUTE_POLL_S) if mine else pause_s)

    def challenge(self, job: int, claim: Claim, places: Sequence[Place]) -> bytes:
        """Ask about a claim from the next look on, until it is resolved. Returns its key. Raises UserError where it is too late.

        places: where the claim is false, as a worker's verification answers them (`dispute`).
        """
        if claim.final:
            raise UserError(
                f"the claim of operator {claim.operator} in turn {claim.turn} cannot be disputed any more",
                hint="a claim is disputed while its window is open; `zoo job show` has the deadline",
            )
        key = claim_key(job, state.Claim(*claim.fields))  # type: ignore[arg-type]
        if self._operator == 0 or claim.operator != self._operator:
            _, _, known = self._false.setdefault(key, (job, claim, []))
            known += [place for place in places if place not in known]
        return key

    def poll_once(self) -> list[DisputeView]:
        """Do everything that is due, the earliest deadline first. Returns my disputes that are open."""
        self._waiting.clear()
        if self._reports is not None:
            self._reports.read()
        head = self._chain.head()
        mine = read_disputes(self._chain, head, wanted=self._concerns)
        open_ = [dispute for dispute in mine if dispute.is_open] + self._begun(head, mine)
        calls: list[tuple[DisputeView, Call]] = []
        for work in sorted(self._due(open_), key=lambda each: each.due):
            with _contained(work.dispute):
                calls += [(work.dispute, call) for call in self._calls(head, work)]
        with ThreadPoolExecutor(SENDERS) as pool:
            sent = any(list(pool.map(lambda each: self._send(head, *each), calls)))
        for dispute in mine:
            if not dispute.is_open and self._has_more(head, dispute):
                with _contained(dispute):
                    self._finish(head, dispute)
        if not sent:
            self._wait_for_work()
        return open_

    @property
    def rewards_due(self) -> dict[bytes, int]:
        """Of resolved disputes by the claim's key: the second after which a reward can be collected."""
        return {key: after for key, after in self._over.items() if after is not None}

    # --- which disputes are mine

    def _concerns(self, dispute: DisputeView) -> bool:
        if dispute.end is not None and self._over.get(dispute.key, 0) is None:
            return False
        is_mine = bool(self._operator) and dispute.operator == self._operator
        return is_mine or dispute.job == self._defends or dispute.key in self._false or bool(self._places(dispute))

    def _places(self, dispute: DisputeView) -> list[Place]:
        """Where this account asks: what was reported to it, and after a restart where its asks are."""
        reported = self._false.get(dispute.key, (0, None, []))[2]
        if reported or (self._operator and dispute.operator == self._operator):
            return reported
        known = self._asked.get(dispute.key)
        if known is None or known[0] != len(dispute.events):
            mine = [node for node in dispute.picture.nodes.values() if node.record.payment.asker == self._me]
            begun = {(node.frame.kind, node.frame.slot) for node in mine}
            # An ask for the slot's result says nothing of the program that is false.
            both = {(kind, slot) for of, slot in begun if of == RESULT for kind in (Kind.TRAINING, Kind.UPDATE)}
            asked = sorted(begun if any(of != RESULT for of, _ in begun) else both)
            places: list[Place] = [
                {"kind": int(kind), "slot": slot, "result": None} for kind, slot in asked if kind != RESULT
            ]
            known = self._asked[dispute.key] = len(dispute.events), places
        return known[1]

    def _begun(self, head: Head, known: Sequence[DisputeView]) -> list[DisputeView]:
        """Claims that are false, about which nobody has asked yet. Those that cannot be disputed any more are forgotten."""
        begun, keys = [], {dispute.key for dispute in known}
        for key, (job, old, _) in list(self._false.items()):
            if key in keys:
                continue
            hash = claim_hash(old)
            claim = next((c for c in read_job(self._chain, job, head).claims if claim_hash(c) == hash), None)
            if claim is None or claim.final or head.timestamp > claim.deadline:
                log.warning(
                    "job %d: the claim of turn %d, seat %d cannot be disputed any more", job, old.turn, old.seat
                )
                del self._false[key]
                continue
            deadline = 0 if claim.deadline == NO_DEADLINE else claim.deadline
            begun.append(DisputeView(key, job, hash, claim.operator, deadline, 0, Exploration()))
        return begun

    def _due(self, disputes: Iterable[DisputeView]) -> Iterator[Work]:
        for dispute in disputes:
            first = next(iter(dispute.picture.open_asks), None)
            if self._operator and dispute.operator == self._operator:
                yield Work(AUTHOR, dispute, first.due if first else dispute.deadline)
            else:
                if self._places(dispute):
                    yield Work(ASKER, dispute, dispute.deadline)
                if dispute.job == self._defends:
                    yield Work(DEFENDER, dispute, first.due if first else dispute.deadline)

    # --- what is due in one

    def _calls(self, head: Head, work: Work) -> list[Call]:
        dispute, picture = work.dispute, work.dispute.picture
        view, claim = self._claim_of(head, dispute)
        final_after = dispute.final_after(self._clocks)
        is_final = final_after is not None and head.timestamp > final_after
        is_aged = view is not None and self._is_aged(head, dispute, view)
        if work.role == ASKER:
            acted_on = [each.id for each in picture.open_asks if clocks.is_expired(each.record.clocks, head.timestamp)]
        else:
            acted_on = [
                each.id
                for each in picture.open_asks
                if clocks.may_answer(each.record.clocks, head.timestamp, work.role == AUTHOR, self._clocks)
            ]
        if is_final or is_aged:
            return [picture.close(dispute.job, claim)]
        if work.role != ASKER and not acted_on:
            return []
        result = self._computed(head, work, view, acted_on)
        if result is None:
            return []
        self._note(dispute, result["unanswered"])
        return [call for each in result["calls"] if not self._was_refused(dispute, call := Call(*decode(each)))]

    def _is_aged(self, head: Head, dispute: DisputeView, view: JobView) -> bool:
        deadline, reexecute_s = dispute.deadline, view.terms.reexecute_s
        return bool(deadline) and head.timestamp > clocks.aged_at(deadline, reexecute_s, self._clocks)

    def _claim_of(self, head: Head, dispute: DisputeView) -> tuple[JobView | None, Any]:
        """The disputed claim as the specification's record, and its job's view; None of a trial."""
        if dispute.job == TRIALS:
            return None, state.Claim(*self._trial_of(dispute).claim)
        view = read_job(self._chain, dispute.job, head)
        return view, state.Claim(*dispute.claim_in(view).fields)  # type: ignore[arg-type]

    def _trial_of(self, dispute: DisputeView) -> TrialAnswer:
        every = trial_answers(self._chain, dispute.operator)
        return next(each for each in reversed(every) if each.claim_hash == dispute.claim_hash)

    def _computed(
        self, head: Head, work: Work, view: JobView | None, acted_on: Sequence[bytes]
    ) -> dict[str, Any] | None:
        """What my worker answers; None while it is being computed. acted_on: asks to be answered, or past their clocks."""
        dispute, role = work.dispute, work.role
        places = self._places(dispute) if role == ASKER else []
        refused = [id for key, _, id in self._recently_refused() if key == dispute.key and id in acted_on]
        name = dispute_name(dispute, role, acted_on, places, refused)
        options: dict[str, Any] = {
            "role": role,
            "picture": dispute.picture,
            "now": head.timestamp,
            "clocks": self._clocks,
            "folder": self._kept(dispute),
            "places": places,
            "skipped": refused,
        }
        if view is None:
            request = trial_dispute_request(self._trial_of(dispute), **options)
        else:
            request = dispute_request(view, dispute.claim_in(view), **options)
        status = self._submitted(name, request)
        if status.state == "failed":
            log.error("%s: nothing to send: %s", _name(dispute), status.error)
        if status.state != "done" or status.result is None:
            return None
        if role == ASKER and not status.result["calls"] and status.result["until"] is None:
            log.error("%s: nothing is false in it by this machine's own computation", _name(dispute))
        return status.result

    def _note(self, dispute: DisputeView, unanswered: dict[str, str]) -> None:
        if unanswered and unanswered != self.unanswered.get(dispute.key):
            log.error("%s: no answer: %s", _name(dispute), unanswered)
        self.unanswered[dispute.key] = unanswered

    def _kept(self, dispute: DisputeView) -> Path:
        """What is computed for it."""
        return self._folder / dispute.key.hex()[:16]

    # --- work

    def _submitted(self, name: str, request: dict[str, Any]) -> WorkStatus:
        """How far work is. Failed work stays failed under its name, so after a while it is requested under another."""
        failed = self._failed.get(name, [])
        again = len(failed) - (bool(failed) and time.monotonic() < failed[-1] + RETRY_S)
        attempt = f"{name}-{again}" if again else name
        status = self._ask(DISPUTE_TASK, attempt, request)
        if status.state not in ("done", "failed"):
            self._waiting[attempt] = request
        if status.state == "failed" and again == len(failed):
            self._failed[name] = [*failed, time.monotonic()]
        return status

    def _wait_for_work(self) -> None:
        """Until some of what is being computed is there, or for a while. No dispute waits for another one's."""
        end = time.monotonic() + PATIENCE_S
        while self._waiting and time.monotonic() < end:
            states = {self._ask(DISPUTE_TASK, name, request).state for name, request in self._waiting.items()}
            if states & {"done", "failed"}:
                return
            time.sleep(PAUSE_S)

    # --- calls

    def _send(self, head: Head, dispute: DisputeView, call: Call) -> bool:
        """Whether it is mined. What was refused is left alone for a while."""
        sent = (dispute.key, call.name, call.id)
        self._refused[sent] = time.monotonic()
        with _contained(dispute, call.name):
            if call.name.startswith("ask"):
                if not self._asking.is_ready(head, dispute, call):
                    del self._refused[sent]
                    return False
                if call.is_heavy and dispute.job != TRIALS:
                    is_aggregation = call.name == "ask_claim" and call.args[2] == Kind.AGGREGATION
                    view = read_job(self._chain, dispute.job, head)
                    self._asking.provide(view, call, is_aggregation=is_aggregation)
            function = getattr(self._chain.referee, call.name)
            receipt = self._sender.send(function(*call.args), value=self._asking.value(call))
            log.info("%s: %s in %s", _name(dispute), call.name, receipt.transaction_hash)
            del self._refused[sent]
            return True
        return False

    def _recently_refused(self) -> list[Sent]:
        return [sent for sent, at in list(self._refused.items()) if time.monotonic() < at + REFUSED_S]

    def _was_refused(self, dispute: DisputeView, call: Call) -> bool:
        return (dispute.key, call.name, call.id) in self._recently_refused()

    # --- the end

    def _has_more(self, head: Head, dispute: DisputeView) -> bool:
        after = self._over.get(dispute.key, 0)
        return after is not None and head.timestamp > after

    def _finish(self, head: Head, dispute: DisputeView) -> None:
        """Delete the files of a dispute that is over, and take what is mine."""
        shutil.rmtree(self._kept(dispute), ignore_errors=True)
        claim, token = None, ""
        if dispute.job != TRIALS:
            view = read_job(self._chain, dispute.job, head)
            claim, token = dispute.claim_in(view), view.token
        self._over[dispute.key] = self._resolved.finish(head, dispute, claim, token)
        for known in (self._false, self._asked, self.unanswered):
            known.pop(dispute.key, None)
        assert dispute.end is not None
        log.info("%s: %s", _name(dispute), dispute.end.name.lower())


@contextmanager
def _contained(dispute: DisputeView, what: str = "") -> Iterator[None]:
    """One dispute must not keep the others waiting."""
    where = f"{_name(dispute)}: {what}" if what else _name(dispute)
    try:
        yield
    except Refusal as refusal:  # the chain moved on; the next look sees where
        log.info("%s: refused: %s", where, refusal.reason)
    except Retryable as error:
        log.warning("%s: %s; will try again", where, error)
    except ZooError as error:
        log.error("%s: %s (%s)", where, error, error.hint)
    except Exception:
        log.exception("%s: unexpected", where)


def _name(dispute: DisputeView) -> str:
    return f"dispute {dispute.key.hex()[:8]} of job {dispute.job}"
