"""The watch: promises that were broken, and admissions that chance asks for again. Whoever shows them has a part of the stake that
they cost (docs/protocol/node-registry.md, docs/protocol/admissions.md). A call is made where that part pays for its gas.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from eth_utils.crypto import keccak

from keepers.decisions.orders import Send
from keepers.decisions.watching import Admitted, Gas, Promised, breaches, lapses, recalls, schedules
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.chain.sender import Sender
from zoo_compute.errors import Refusal
from zoo_compute.spec.trials import TRIALS

log = logging.getLogger("zoo.keeper")

EMPTY_HASH = bytes(32)
LOOKS_AN_EPOCH = 96  # at most: an epoch of a day is looked at every quarter of an hour
MOST_DELAY = 4  # an epoch's part that keepers leave each other for what any of them may do


def turn_s(operator: int, epoch: int, operators: int, each_s: int, epoch_s: int) -> int:
    """Seconds that this keeper leaves it to others. Another order in every epoch."""
    digest = keccak(operator.to_bytes(8, "big") + epoch.to_bytes(8, "big"))
    place = int.from_bytes(digest, "big") % max(1, operators)
    return min(place * each_s, epoch_s // MOST_DELAY)


class Watching:
    """Of one keeper. coin_price: of a whole coin, in smallest units of ZEN."""

    def __init__(self, chain: Chain, sender: Sender, operator: int, each_s: int, coin_price: int) -> None:
        self._chain, self._sender = chain, sender
        self._operator, self._each_s, self._coin_price = operator, each_s, coin_price
        self._looked_at = 0  # block time
        self._judged = -1  # the newest epoch whose broken promises are shown

    def look(self, head: Head) -> None:
        """Do what is due and pays."""
        epoch_s = self._chain.params.epoch_s
        if head.timestamp - self._looked_at < max(self._each_s, epoch_s // LOOKS_AN_EPOCH):
            return
        self._looked_at = head.timestamp
        epoch, second = divmod(head.timestamp, epoch_s)
        count = self._chain.registry.operator_count(block=head.number)
        if second < turn_s(self._operator, epoch, count, self._each_s, epoch_s):
            return
        others = [number for number in range(1, count + 1) if number != self._operator]
        if not others:
            return
        gas = self._gas()
        if epoch - 1 != self._judged:
            self._send(breaches(self._promised(head, epoch - 1, others), epoch - 1, gas))
            self._judged = epoch - 1
        seen = self._admitted(head, others)
        self._send(lapses(seen, self._chain.time(head), self._sender.address, gas))
        if self._chain.admissions.draws(epoch, block=head.number):
            self._send(recalls(seen, epoch, gas))
        else:
            self._send(schedules(seen, gas))

    def _gas(self) -> Gas:
        wei = next_base_fee(self._chain.w3) + self._chain.w3.eth.max_priority_fee
        return Gas(wei, self._coin_price)

    def _send(self, due: Iterable[Send]) -> None:
        for each in due:
            call = getattr(getattr(self._chain, each.contract), each.function)(*each.args)
            try:
                self._sender.send(call)
            except Refusal as refusal:  # another keeper was quicker
                log.info("%s%s: refused: %s", each.function, each.args, refusal)
            else:
                log.info("%s%s is sent: a part of what it costs is mine", each.function, each.args)

    def _promised(self, head: Head, epoch: int, operators: Sequence[int]) -> list[Promised]:
        """None of an epoch in which the chain stood still."""
        if self._chain.registry.is_stopped(epoch, block=head.number):
            return []
        of_epoch = [("promised", epoch), ("beats", epoch), ("is_judged", epoch)]
        reads = [
            [Read("registry", "stake_of", (number,)), *(Read("registry", name, (number, at)) for name, at in of_epoch)]
            for number in operators
        ]
        return [
            Promised(number, stake, promise["tier"], promise["hours"], beats, is_judged)
            for number, (stake, promise, beats, is_judged) in self._each(head, operators, reads)
            if promise["hours"]
        ]

    def _admitted(self, head: Head, operators: Sequence[int]) -> list[Admitted]:
        reads = [
            [
                Read("registry", "operators", (number,)),
                Read("registry", "is_admitted", (number,)),
                Read("admissions", "is_drawn", (number,)),
                Read("admissions", "claims", (TRIALS, 0, number)),
                Read("admissions", "recalls", (number,)),
            ]
            for number in operators
        ]
        least = self._chain.params.min_stake
        return [
            Admitted(
                operator=number,
                stake=record["stake"],
                is_eligible=record["exit_at"] == 0 and record["stake"] >= least,
                is_drawn=is_drawn,
                has_trial=trial != EMPTY_HASH,
                recalled_in=last["epoch"],
                due=last["due"],
                recaller=last["caller"],
            )
            for number, (record, is_admitted, is_drawn, trial, last) in self._each(head, operators, reads)
            if is_admitted
        ]

    def _each(
        self, head: Head, operators: Sequence[int], reads: Sequence[Sequence[Read]]
    ) -> Iterator[tuple[int, list[Any]]]:
        """What was read of each operator, in one batch."""
        values = iter(read_all(self._chain, head.number, [read for of in reads for read in of]))
        for number, of in zip(operators, reads, strict=True):
            yield number, [next(values) for _ in of]
