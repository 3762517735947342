"""Gas of a turn's custody: five of nine custodians sign for its inputs, and for its checkpoint.

Nine operators without a seat; the ring of records was used before. `custody_turn` is one transaction with both;
`custody_turn_apart` is one of each kind, as when a turn's mask must be fixed before its aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eth_account.signers.local import LocalAccount

from tests.support.job_driver import AGGREGATOR, SLOTS, Offer
from tests.support.lockstep.custody_records import compact
from zoo_compute.chain.sender import Receipt
from zoo_compute.spec.custodians import CheckpointSignature, InputsSignature
from zoo_compute.spec.custody import escrow_of, fee_of, reserve_of
from zoo_compute.spec.params import ZEN

CUSTODIANS, SIGNERS = 9, 5
TURNS, DEPTH, SEATS = 6, 2, 4
PRICE, SIZE = ZEN // 1_000, 2**34  # per GiB and round; 16 GiB
GREATEST = 2**256 - 1
Word = tuple[Any, ...]


class CustodyBench:
    """One job with custodians on the bench's devnet."""

    def __init__(self, bench: Any, holders: Sequence[Any], aggregator: Any) -> None:
        self.bench, self.chain, self.devnet = bench, bench.chain, bench.devnet
        self.custodians = [bench.operator(f"custodian-{index}", PRICE) for index in range(CUSTODIANS)]
        self.keys: list[LocalAccount] = [self.devnet.account(f"custodian-{index}") for index in range(CUSTODIANS)]
        self.lots = (
            {holder: Offer(holder.price, bench.TERMS["slots"] // SEATS) for holder in holders},
            {aggregator: Offer(aggregator.price)},
        )
        self.holders, self.committee = holders, list[Word]()

    def send(self, function: str, sender: Any, *args: Any) -> Receipt:
        receipt: Receipt = self.bench.send("custody", function, sender, *args)
        return receipt

    def drawn(self) -> int:
        """A running job whose committee was drawn."""
        bench, zen, custody = self.bench, self.chain.zen.address, self.chain.custody.address
        reserve = reserve_of(DEPTH * bench.round_price, CUSTODIANS)
        for each in self.custodians:
            each.owner.send(self.chain.zen.approve(custody, GREATEST))
            self.send("deposit", each.owner, each.id, zen, reserve)
            self.send("note_stake", each.hot, each.id)
        self.devnet.warp(self.chain.params.exit_delay_s)
        job: int = bench.post(rounds=TURNS, depth=DEPTH)
        self.send("request", bench.submitter, job, CUSTODIANS, PRICE, SIZE)
        bench.submitter.send(self.chain.zen.approve(custody, GREATEST))
        self.send("fund", bench.submitter, job, escrow_of(fee_of(PRICE, SIZE), CUSTODIANS, TURNS))
        for each in self.custodians:
            self.send("offer", each.hot, job, each.id)
        bench.bid_all(job, *self.lots)
        bench.reveal_all(job, *self.lots)
        for kind in (SLOTS, AGGREGATOR):
            bench.clear(job, kind)
            bench.award(job, kind)
        self.send("schedule", bench.anyone, job)
        self.devnet.rpc("anvil_mine", [hex(self.chain.params.draw_blocks + 2)])
        changed = self.send("draw", bench.anyone, job, []).event("CommitteeChanged")
        self.committee = [(member["word"], member["key"]) for member in changed.args["committee"]]
        bench.ready(job, *self.holders)
        return job

    def key(self, place: int) -> bytes:
        address = self.committee[place][1]
        return bytes(next(key.key for key in self.keys if int(key.address, 16) == address))

    def signature(self, signed: InputsSignature | CheckpointSignature) -> tuple[bytes, bytes]:
        key, network = self.key(signed.index), self.chain.network
        return compact(key, self.chain.custody.address, signed, network.chain_id)

    def inputs(self, job: int, turn: int) -> list[Word]:
        mask = 2**SEATS - 1
        signed = [InputsSignature(place, "", job, turn, mask) for place in range(SIGNERS)]
        return [(each.index, mask, *self.signature(each)) for each in signed]

    def checkpoint(self, job: int, claim: Word) -> list[Word]:
        signed = [CheckpointSignature(place, "", job, claim[0], claim[-1]) for place in range(SIGNERS)]
        return [(each.index, *self.signature(each)) for each in signed]

    def measure(self) -> dict[str, int]:
        """Turns of separate transactions, then one in which both are one."""
        bench, job, gas = self.bench, self.drawn(), dict[str, int]()
        for turn in range(TURNS):
            is_last = turn == TURNS - 1
            if not bench.run(job).opened_at:
                bench.finalise(job)
                self.send("count", bench.anyone, job, 1, self.committee)
            bench.commit_all(job)
            args = (job, turn, self.committee, self.inputs(job, turn))
            inputs = 0 if is_last else self.send("hold_inputs", bench.anyone, *args).gas_used
            claim = bench.post_checkpoint(job)
            signed = self.checkpoint(job, claim)
            again = self.inputs(job, turn) if is_last else []
            used = self.send("hold_turn", bench.anyone, job, claim, self.committee, again, signed).gas_used
            gas["custody_turn" if is_last else "custody_turn_apart"] = inputs + used
            if turn == 0:
                gas["custody_turn_apart_first"] = inputs + used
        return gas
