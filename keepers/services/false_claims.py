"""Which claims one account asks about, and where they are false."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from keepers.services.challenging import Place
from keepers.services.claims_of_no_job import is_pending
from keepers.services.retries import Troubles
from zoo_compute.chain.demands import claim_hash
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import NO_DEADLINE
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.errors import UserError
from zoo_compute.spec import state
from zoo_compute.spec.disputed_claims import RESULT, claim_key
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.receipts import is_of_job

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.views import Claim

log = logging.getLogger("zoo.disputes")


class FalseClaims:
    """Of the account `me`, which is not asked about its own operator's claims: reported ones, and after a restart what it asked about."""

    def __init__(self, chain: Chain, me: str, operator: int, troubles: Troubles[tuple[bytes, str]]) -> None:
        self._chain, self._me, self._operator, self._troubles = chain, me.lower(), operator, troubles
        self._reported: dict[bytes, tuple[int, Claim, list[Place]]] = {}  # by a claim's key: its job, and the places
        self._asked: dict[bytes, tuple[int, list[Place]]] = {}  # by a claim's key: events read, and the places

    def __contains__(self, key: bytes) -> bool:
        """Whether it was reported and is not resolved."""
        return key in self._reported

    def add(self, job: int, claim: Claim, places: Sequence[Place]) -> bytes:
        """Returns the claim's key. Raises UserError where it is too late."""
        if claim.final:
            raise UserError(
                f"the claim of operator {claim.operator} in turn {claim.turn} cannot be disputed any more",
                hint="a claim is disputed while its window is open; `zoo job show` has the deadline",
            )
        key = claim_key(job, state.Claim(*claim.fields))  # type: ignore[arg-type]
        if self._operator == 0 or claim.operator != self._operator:
            _, _, known = self._reported.setdefault(key, (job, claim, []))
            known += [place for place in places if place not in known]
        return key

    def forget(self, key: bytes) -> None:
        self._reported.pop(key, None)

    def keep_asked(self, open_: Collection[bytes]) -> None:
        """open_: keys of the claims that are in dispute."""
        self._asked = {key: asked for key, asked in self._asked.items() if key in open_}

    def places(self, dispute: DisputeView) -> list[Place]:
        """Where this account asks: what was reported to it, and after a restart where its asks are."""
        reported = self._reported.get(dispute.key, (0, None, []))[2]
        if reported or (self._operator and dispute.operator == self._operator):
            return reported
        known = self._asked.get(dispute.key)
        if known is None or known[0] != len(dispute.events):
            known = self._asked[dispute.key] = len(dispute.events), self._places_asked(dispute)
        return known[1]

    def _places_asked(self, dispute: DisputeView) -> list[Place]:
        mine = [node for node in dispute.picture.nodes.values() if node.record.payment.asker == self._me]
        begun = {(node.frame.kind, node.frame.slot) for node in mine}
        # An ask for the slot's result says nothing of the program that is false.
        both = {(kind, slot) for of, slot in begun if of == RESULT for kind in (Kind.TRAINING, Kind.UPDATE)}
        asked = sorted(begun if any(of != RESULT for of, _ in begun) else both)
        return [{"kind": int(kind), "slot": slot, "result": None} for kind, slot in asked if kind != RESULT]

    def undisputed(self, head: Head, disputed: Collection[bytes]) -> Iterator[DisputeView]:
        """Reported claims about which nobody has asked yet. Those that cannot be disputed any more are forgotten."""
        for key, (job, claim, _) in list(self._reported.items()):
            if key not in disputed:
                with self._troubles.contained(
                    (key, ""), f"job {job}: the claim of turn {claim.turn}, seat {claim.seat}"
                ):
                    yield from self._without_asks(head, key, job, claim)

    def _without_asks(self, head: Head, key: bytes, job: int, old: Claim) -> Iterator[DisputeView]:
        hash = claim_hash(old)
        if not is_of_job(job):
            yield from self._alone_without_asks(head, key, job, old)
            return
        claim = next((c for c in read_job(self._chain, job, head).claims if claim_hash(c) == hash), None)
        if claim is None or claim.final or self._chain.time(head) > claim.deadline:
            log.warning("job %d: the claim of turn %d, seat %d cannot be disputed any more", job, old.turn, old.seat)
            self.forget(key)
            return
        deadline = 0 if claim.deadline == NO_DEADLINE else claim.deadline
        yield DisputeView(key, job, hash, claim.operator, deadline, 0, Exploration())

    def _alone_without_asks(self, head: Head, key: bytes, job: int, claim: Claim) -> Iterator[DisputeView]:
        if self._chain.time(head) > claim.deadline or not is_pending(self._chain, job, claim):
            log.warning("the claim of operator %d cannot be disputed any more", claim.operator)
            self.forget(key)
            return
        yield DisputeView(key, job, claim_hash(claim), claim.operator, claim.deadline, 0, Exploration())
