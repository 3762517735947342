"""Whether custodians serve what they signed for: every signer of a checkpoint is asked over HTTP for a block of it, chosen by chance.

Nobody misses a custodian that signs and keeps nothing, while others serve what it signed for. So every keeper with a seat looks after
them, also after those that served once: of these at one now and then, by chance, so that nobody knows when it may delete. Asking waits
for others' machines, so it has a thread of its own.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from keepers.decisions.demands import signers_to_check
from keepers.decisions.orders import OperatorContext
from zoo_compute.chain.views import Checkpoint, JobView
from zoo_compute.errors import ZooError
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, BadRecord, Pointer
from zoo_compute.store import Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.cid import raw_cid
from zoo_compute.store.errors import BadCid
from zoo_compute.store.peers import is_gateway
from zoo_compute.store.pin_confirmations import serving

log = logging.getLogger("zoo.custody")

FETCH_TIMEOUT_S = 5.0  # of the checkpoint's pointer
LOOKS = 2  # in vain: a store that is started again is back at the next one
AGAIN = (
    4  # looks at one that served, on average in a challenge window: each costs a block, from each keeper with a seat
)


@dataclass
class Check:
    """Of what an aggregator posted. signers: by place; since: by operator, when it served last, or I saw the checkpoint first, by the protocol's
    time; window_s: in which it can be challenged; looks: in vain one after the other, by operator; serving: when I looked last; places: by operator, of the block that it is asked
    for, until it serves that one: whoever lacks a part is not saved by the next throw.
    """

    made: Checkpoint
    signers: Mapping[int, int]
    window_s: int
    since: dict[int, int] = field(default_factory=dict)
    looks: Counter[int] = field(default_factory=Counter)
    serving: set[int] = field(default_factory=set)
    places: dict[int, int] = field(default_factory=dict)


class SignerChecks:
    """endpoints: by operator, where its gateway answers. scope: where these may be."""

    def __init__(self, store: Store, poll_s: float) -> None:
        self._store = store
        self._poll_s = poll_s
        self._checks: dict[tuple[int, int, int], Check] = {}  # by job, turn and seat
        self.endpoints: Mapping[int, str] = {}
        self.scope = Scope.ANY  # where these may be

    def silent(self, view: JobView, me: OperatorContext) -> tuple[tuple[Checkpoint, int], ...]:
        """Checkpoints, and the places of signers that have not served them for long enough."""
        silent = []
        pending = {(view.job, made.turn, made.seat): made for made in view.checkpoints if not made.final}
        for key in [key for key in self._checks if key[0] == view.job and key not in pending]:
            del self._checks[key]
        for key, made in pending.items():
            assert view.run is not None, "it has made a checkpoint"
            signers = signers_to_check(view, me, made)
            check = self._checks.setdefault(key, Check(made, signers, view.run.window_s))
            check.signers = signers
            check.since = dict.fromkeys(signers.values(), view.now) | check.since
            check.since |= dict.fromkeys(check.serving, view.now)
            silent += [
                (made, place)
                for place, operator in signers.items()
                if check.looks[operator] >= LOOKS and view.now >= check.since[operator] + me.demand_after_s
            ]
        return tuple(silent)

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        while True:
            progressed()
            time.sleep(self._poll_s)
            try:
                self.poll_once(progressed)
            except Exception:
                log.exception("unexpected")

    def poll_once(self, progressed: Callable[[], None] = lambda: None) -> None:
        """Look at every signer that did not serve what it signed for when I looked last, and now and then again at one that did."""
        checks = list(self._checks.values())
        served = [(check, operator) for check in checks for operator in check.serving & set(check.signers.values())]
        looks = sum(AGAIN * self._poll_s / check.window_s for check, _ in served)
        if secrets.randbelow(10**9) < looks * 10**9:
            check, operator = secrets.choice(served)
            check.serving.discard(operator)
        for check in checks:
            progressed()
            left = set(check.signers.values()) - check.serving
            try:
                answering = self._serving(check, left) if left else set()
            except (
                ZooError,
                BadRecord,
                BadCid,
            ) as error:  # the pointer cannot be read here: that says nothing of the signers
                log.debug("turn %d: %s", check.made.turn, error)
                continue
            check.serving |= answering
            check.looks.update(left - answering)
            for operator in answering:
                del check.looks[operator]
                del check.places[operator]

    def _serving(self, check: Check, operators: set[int]) -> set[int]:
        """Of these operators. One that announced nothing that is asked over HTTP serves nothing."""
        pointer = raw_cid(check.made.cid)
        data = self._store.read(pointer, max_bytes=MAX_POINTER_BYTES, timeout_s=FETCH_TIMEOUT_S)
        files = [pointer, Pointer.from_bytes(data).state]
        check.places = {operator: secrets.randbits(64) for operator in operators} | check.places
        urls = {operator: self.endpoints.get(operator, "") for operator in operators}
        places = {url: check.places[operator] for operator, url in urls.items() if is_gateway(url)}
        answering = serving(files, places, scope=self.scope)
        return {operator for operator, url in urls.items() if url in answering}
