"""Beats: while somebody says now and then that the chain takes transactions, the protocol's time runs (docs/design/clocks.md, rule 6).

One keeper's transaction is enough for all. A halt ends for all of them in the same block, so they take turns, by chance.
"""

from __future__ import annotations

import logging

from eth_utils.crypto import keccak

from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.sender import Sender
from zoo_compute.spec.clocks import NEVER_S

log = logging.getLogger("zoo.keeper")


def due_after(last_beat: int, outage_s: int) -> int:
    """The block time from which on keepers beat: two thirds of what a gap may last before time stops."""
    return last_beat + 2 * outage_s // 3


def delay_s(operator: int, operators: int, last_beat: int, turn_s: int, outage_s: int) -> int:
    """How long this keeper leaves it to others. Another order after every beat; all have begun well before time stops."""
    place = int.from_bytes(keccak(operator.to_bytes(8, "big") + last_beat.to_bytes(8, "big")), "big") % max(
        1, operators
    )
    return min(place * turn_s, outage_s // 4)


class Beats:
    """Of one keeper. Asks the chain only when a beat may be due."""

    def __init__(self, chain: Chain, sender: Sender, operator: int, turn_s: int) -> None:
        self._chain, self._sender = chain, sender
        self._operator, self._turn_s = operator, turn_s
        self._outage_s = chain.params.clocks.outage_s
        self._last_beat = 0
        self._due_since: int | None = None  # block time at which this keeper saw that a beat is due

    def keep(self, head: Head) -> None:
        """Beat, if nobody has for too long, and it is my turn."""
        if self._outage_s >= NEVER_S or head.timestamp < due_after(self._last_beat, self._outage_s):
            return
        last_beat = self._chain.registry.last_beat(block=head.number)
        if last_beat != self._last_beat:
            self._last_beat, self._due_since = last_beat, None
        if head.timestamp < due_after(last_beat, self._outage_s):
            return
        if self._due_since is None:
            self._due_since = head.timestamp
        operators = self._chain.registry.operator_count(block=head.number)
        wait_s = delay_s(self._operator, operators, last_beat, self._turn_s, self._outage_s)
        if head.timestamp >= self._due_since + wait_s:
            self._sender.send(self._chain.registry.beat())
            log.info("beat: nobody had for %d s", head.timestamp - last_beat)
