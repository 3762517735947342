"""Before what a false view of the chain would make costly, the network's other RPCs are asked whether they see the same.

An RPC that lies about time makes a keeper decline its slots, which costs a tenth of a lock; one that lies about a checkpoint's root has
it train from there and commit what everybody else finds false, which costs the whole lock.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from zoo_compute.chain.connection import over_other_rpcs
from zoo_compute.chain.provider import LONGEST_REST_S, FailoverProvider
from zoo_compute.chain.snapshot import shows_same_job
from zoo_compute.errors import RpcsDisagree

if TYPE_CHECKING:
    from zoo_compute.chain.call import Call
    from zoo_compute.chain.connection import Chain
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


class SecondLook:
    """Of one keeper. What most RPCs show counts, the one that is used among them: so of three, one that lies can neither have a keeper
    send what costs it, nor keep it from sending. Two that disagree send nothing. Where no other RPC answers there is nobody to ask, and
    a deadline does not wait.
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def confirm(self, call: Call, view: JobView) -> None:
        """Raises RpcsDisagree unless most RPCs show the block, time and job that `view` was read from."""
        if (call.contract, call.function) not in COSTLY or len(self._chain.network.rpcs) < 2:
            return
        rpcs = len(self._chain.network.rpcs)
        head, alike, blocks_differ, jobs_differ = self._chain.head(view.block), 1, 0, 0
        for other in over_other_rpcs(self._chain):
            try:
                if other.head(head.number) != head:
                    blocks_differ += 1
                elif not shows_same_job(self._chain, other, view.job, head):
                    jobs_differ += 1
                else:
                    alike += 1
            except Exception as error:  # noqa: BLE001 whatever ails another RPC must not keep me from my deadline
                log.warning("job %d: another RPC does not say what the chain is: %s", view.job, error)
            if 2 * alike > rpcs:
                return
        differ = blocks_differ + jobs_differ
        if alike > differ:
            return
        waits = f"{call.contract}.{call.function} waits: the network's RPCs disagree at block {head.number}"
        if alike == differ:
            raise RpcsDisagree(waits)
        liar = cast(FailoverProvider, self._chain.w3.provider).set_aside()
        self._chain.forget_all()
        if jobs_differ and self._chain.event_store is not None:  # an RPC on a fork showed true events of its blocks
            self._chain.event_store.forget()
        raise RpcsDisagree(f"{waits}; {liar} is alone, and is not used for {LONGEST_REST_S / 60:.0f} minutes")
