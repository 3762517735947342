"""Gas of a turn's custody: five of nine custodians sign for its inputs, and for its checkpoint.

Nine operators without a seat; the ring of records was used before. What counts is by how much a turn costs more than in the same
job without custodians. `custody_turn`: the aggregator sends both lists with its checkpoint; `custody_turn_apart`: those for the
inputs were sent before, as where some seat may have to be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eth_account.signers.local import LocalAccount

from tests.support.job_driver import AGGREGATOR, SLOTS, Offer
from tests.support.lockstep.custody_records import compact
from zoo_compute.chain.sender import Receipt
from zoo_compute.spec.custodians import CheckpointSignature, InputsSignature, StartSignature
from zoo_compute.spec.custody import escrow_of, fee_of, reserve_of
from zoo_compute.spec.params import AGGREGATOR_SEAT, CUSTODIANS_AT, ZEN
from zoo_compute.spec.state import Claim

CUSTODIANS, SIGNERS = 9, 5
TURNS, DEPTH, SEATS = 7, 2, 4
APART, TOGETHER = 4, 5  # the turns that count: neither the first, whose words are new, nor the last, which ends the job
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
        job: int = bench.post(rounds=TURNS, depth=DEPTH, policy=CUSTODIANS << CUSTODIANS_AT)
        self.send("request", bench.submitter, job, PRICE, SIZE)
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
        signed = [StartSignature(place, "", job) for place in range(SIGNERS)]
        starts = [(each.index, *self.signature(each)) for each in signed]
        self.send("hold_start", bench.anyone, job, self.committee, starts)
        return job

    def key(self, place: int) -> bytes:
        address = self.committee[place][1]
        return bytes(next(key.key for key in self.keys if int(key.address, 16) == address))

    def signature(self, signed: StartSignature | InputsSignature | CheckpointSignature) -> tuple[bytes, bytes]:
        key, network = self.key(signed.index), self.chain.network
        return compact(key, self.chain.custody.address, signed, network.chain_id)

    def inputs(self, job: int, turn: int) -> list[Word]:
        mask = 2**SEATS - 1
        signed = [InputsSignature(place, "", job, turn, mask) for place in range(SIGNERS)]
        return [(each.index, mask, *self.signature(each)) for each in signed]

    def checkpoint(self, job: int, turn: int, root: bytes, cid: bytes) -> list[Word]:
        signed = [CheckpointSignature(place, "", job, turn, AGGREGATOR_SEAT, root, cid) for place in range(SIGNERS)]
        return [(each.index, *self.signature(each)) for each in signed]

    def post(self, job: int, turn: int, inputs: list[Word]) -> int:
        """The aggregator closes the turn; the gas."""
        bench, run, seat = self.bench, self.bench.run(job), self.bench.seat(job, AGGREGATOR_SEAT)
        mask, (root, cid) = 2**SEATS - 1, bench.checkpoint(job, turn)
        args = (
            job,
            AGGREGATOR_SEAT,
            turn,
            mask,
            root,
            cid,
            self.committee,
            inputs,
            self.checkpoint(job, turn, root, cid),
        )
        used = self.send("post_checkpoint", bench.party(seat.operator).hot, *args).gas_used
        fixed = (turn, run.round, AGGREGATOR_SEAT, seat.operator, mask, seat.price, run.start_root, root)
        bench.record(job, Claim(*fixed))
        return used

    def without(self) -> list[int]:
        """Gas of `post_checkpoint` in each turn of the same job without custodians."""
        bench, gas = self.bench, list[int]()
        job = bench.running(*self.lots, rounds=TURNS, depth=DEPTH)
        for _ in range(TURNS):
            if not bench.run(job).opened_at:
                bench.finalise(job)
            bench.commit_all(job)
            bench.post_checkpoint(job)
            gas.append(bench.gas["post_checkpoint"])
        return gas

    def measure(self) -> dict[str, int]:
        bench, plain, job, gas = self.bench, self.without(), self.drawn(), list[int]()
        for turn in range(TURNS):
            if not bench.run(job).opened_at:
                bench.finalise(job)
                self.send("count", bench.anyone, job, 1, self.committee)
            bench.commit_all(job)
            inputs, used = self.inputs(job, turn), 0
            if turn != TOGETHER:
                used, inputs = self.send("hold_inputs", bench.anyone, job, turn, self.committee, inputs).gas_used, []
            gas.append(used + self.post(job, turn, inputs) - plain[turn])
        return {
            "custody_turn": gas[TOGETHER],
            "custody_turn_apart": gas[APART],
            "custody_turn_apart_first": gas[0],
        }
