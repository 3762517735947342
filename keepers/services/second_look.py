"""Before what a false view of the chain would make costly, the network's RPCs are asked whether they show that view.

An RPC that lies about time makes a keeper decline its slots, which costs a tenth of a lock; one that lies about a checkpoint's root has
it train from there and commit what everybody else finds false, which costs the whole lock.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, cast

from zoo_compute.chain.connection import over_each_rpc
from zoo_compute.chain.provider import UNTRUSTED_S, FailoverProvider, redacted
from zoo_compute.chain.snapshot import job_events, newest_turn, shows_job
from zoo_compute.errors import FalseLook, RpcsDisagree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zoo_compute.chain.call import Call
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.events import Event
    from zoo_compute.chain.views import JobView

log = logging.getLogger("zoo.keeper")

COSTLY = frozenset(
    {
        ("Settlement", "decline"),
        ("Settlement", "commit"),
        ("Settlement", "post_checkpoint"),
        ("Custody", "post_checkpoint"),
    }
)
ANSWER_S = 10.0  # for all RPCs together, asked side by side
BEHIND_S = 4.0  # of it, for one that does not have the view's block yet


class SecondLook:
    """Of one keeper. What most RPCs show counts, also of the one that is used: so of three, one that lies cannot have a keeper send what
    costs it. Two that disagree send nothing. Where no other RPC answers there is nobody to ask, and a deadline does not wait; unless one
    was set aside, since then the view may be from that one.

    A false view is from one of the RPCs that were used since the last one. Which of them gave it shows in that it still shows it, or
    now says nothing; where only one was used, it is that one. One that is found so at two blocks is set aside, and what it gave is read
    again. Where several were used and all of them now show something else, nobody knows which one lied: none is set aside, and the
    view is read again. So one that lies, beside one that fails, can make a keeper look again, but has no other one set aside that answers.
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        # The RPC that gave a false view, and the block at which most showed something else.
        self._doubted: tuple[str, int] | None = None

    def confirm(self, call: Call, view: JobView) -> None:
        """Raises RpcsDisagree unless most RPCs show the block, time and job of `view`; FalseLook if most show something else."""
        if (call.contract, call.function) not in COSTLY or len(self._chain.network.rpcs) < 2:
            return
        provider = cast(FailoverProvider, self._chain.w3.provider)
        first = next(iter(provider.trusted()), "")
        head = self._chain.head(view.block)
        events = job_events(self._chain, view.job, head)
        said = self._ask_each(view, head, events)
        alike = sum(said.values())
        differ = len(said) - alike
        if provider.trusts_all() and first not in said:
            alike += 1  # the one in use: it has shown the view
        if alike > differ:
            self._doubted = None
            return
        waits = f"{call.contract}.{call.function} waits: the network's RPCs disagree at block {head.number}"
        if alike == differ:
            raise RpcsDisagree(waits)
        suspect = _suspect(provider, first, said)
        self._chain.forget_all()
        provider.used.clear()
        store = self._chain.event_store
        if store is not None:  # an RPC on a fork showed true events of its blocks
            store.forget(newest_turn(events))
        url, block = self._doubted or ("", head.number)
        if url != suspect:
            self._doubted = (suspect, head.number) if suspect else None
        elif suspect and block != head.number:  # no passing fork, and no events that the others have not indexed yet
            self._doubted = None
            provider.set_aside(suspect)
            if store is not None:
                store.forget_what_came_from(suspect)
            waits += f"; {redacted(suspect)} is alone, and is not used for {UNTRUSTED_S / 60:.0f} minutes"
        raise FalseLook(waits)

    def _ask_each(self, view: JobView, head: Head, events: Sequence[Event]) -> dict[str, bool]:
        """By RPC, whether it shows the view: of those that answer in time, or until most have said so."""
        answers: queue.SimpleQueue[tuple[str, bool | None]] = queue.SimpleQueue()

        def ask(url: str, rpc: Chain) -> None:
            answer = None
            try:
                rpc.wait_for_block(head.number - 1, BEHIND_S)
                has_block = rpc.w3.eth.block_number >= head.number
                answer = has_block and rpc.head(head.number) == head and shows_job(rpc, view, head, events)
            except Exception as error:  # noqa: BLE001 whatever ails another RPC must not keep me from my deadline
                log.warning("job %d: %s does not say what the chain is: %s", view.job, redacted(url), error)
            answers.put((url, answer))

        rpcs, said = over_each_rpc(self._chain), dict[str, bool]()
        for url, rpc in rpcs.items():
            threading.Thread(target=ask, args=(url, rpc), name="second look", daemon=True).start()
        ends_at = time.monotonic() + ANSWER_S
        for _ in rpcs:
            try:
                url, answer = answers.get(timeout=max(0.0, ends_at - time.monotonic()))
            except queue.Empty:
                break
            if answer is not None:
                said[url] = answer
            if 2 * sum(said.values()) > len(self._chain.network.rpcs):
                break
        return said


def _suspect(provider: FailoverProvider, first: str, said: dict[str, bool]) -> str:
    """The RPC that must have given a false view; empty where that cannot be said, or it is set aside already.

    first: the one in use. said: by RPC, whether it shows the view now.
    """
    if said.get(first):
        return first
    used = provider.used or {first}
    if used - set(provider.trusted()):
        return ""
    suspects = {url for url in used if said.get(url, True)}
    if not suspects and provider.trusts_all():  # else the view may be older, from one that was set aside since
        suspects = used
    return suspects.pop() if len(suspects) == 1 else ""
