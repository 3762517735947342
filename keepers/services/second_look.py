"""Before what a false view of the chain would make costly, the network's other RPCs are asked whether they see the same.

An RPC that lies about time makes a keeper decline its slots, which costs a tenth of a lock; one that lies about a checkpoint's root has
it train from there and commit what everybody else finds false, which costs the whole lock.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zoo_compute.chain.connection import over_other_rpcs
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
    """Of one keeper. Where no other RPC answers there is nobody to ask, and a deadline does not wait."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._second: Chain | None = None

    def confirm(self, call: Call, view: JobView) -> None:
        """Raises RpcsDisagree if another RPC shows another block, time or job than the one that `view` was read from."""
        if (call.contract, call.function) not in COSTLY or len(self._chain.network.rpcs) < 2:
            return
        self._second = over_other_rpcs(self._chain, self._second)
        head = self._chain.head(view.block)
        try:
            same = self._second.head(head.number) == head
            same = same and shows_same_job(self._chain, self._second, view.job, head)
        except Exception as error:  # noqa: BLE001 whatever ails another RPC must not keep me from my deadline
            log.warning("job %d: nobody else says what the chain is: %s", view.job, error)
            return
        if not same:
            raise RpcsDisagree(
                f"{call.contract}.{call.function} waits: the network's RPCs disagree at block {head.number}"
            )
