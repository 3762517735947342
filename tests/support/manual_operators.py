"""Operators without keepers, and a job for them: what tests share that walk a devnet's windows by hand."""

from __future__ import annotations

from typing import Any

from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from repops.merkle import merkle_root
from zoo_compute.chain.generated.bindings.referee import Result, Work
from zoo_compute.chain.generated.bindings.task_registry import Terms
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Claim as Posted
from zoo_compute.chain.views import Kind
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec import games, merkle
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.referee import bond

SALT = b"\x05" * 32
WORK = Work((b"\x01" * 32, b"\x02" * 32, b"\x03" * 32), inner_steps=8, segment_steps=4, rows=2, carry=1)
STATES = [merkle.segment_leaf(step, bytes([step]) * 32) for step in (0, 4, 8)]
RESULT = Result(merkle_root(STATES), b"\x05" * 32, b"\x06" * 32, ())  # it does not end where its last segment does
BUNDLE = b"\x08" * 32
START = b"s" * 32
TRAINING, AGGREGATION = int(games.Kind.TRAINING), int(games.Kind.AGGREGATION)


class ManualOperator:
    """An operator whose one key is owner and hot key."""

    def __init__(self, devnet: Devnet, name: str, price: int) -> None:
        self.account: LocalAccount = devnet.account(name, zen=5_000 * ZEN)
        self.price = price
        self.chain = devnet.chain
        self.sender = Sender(devnet.chain, self.account, folder=devnet.folder)
        registry = self.chain.registry
        self.send(self.chain.zen.approve(registry.address, 5_000 * ZEN))
        stake = self.chain.params.min_stake
        registered = self.send(registry.register(self.account.address, 1, 8, stake, f"http://{name}"))
        self.id: int = registered.event("OperatorRegistered").args["operator"]
        self.send(registry.deposit(self.id, self.chain.zen.address, 100 * ZEN))

    def send(self, call: object, **options: Any) -> Receipt:
        return self.sender.send(call, **options)  # type: ignore[arg-type]

    def seal(self, job: int, kind: int, price: int) -> bytes:
        types = ["uint256"] * 6 + ["bytes32"]
        return bytes(keccak(encode(types, [job, kind, 1, self.id, price, 1, SALT])))

    def bid(self, job: int, kind: int, price: int) -> None:
        self.send(self.chain.auction.bid(job, kind, self.id, self.seal(job, kind, price), 1, True))

    def reveal(self, job: int, kind: int, price: int) -> None:
        self.send(self.chain.auction.reveal(job, kind, self.id, price, SALT))


def post(devnet: Devnet, **changes: Any) -> int:
    """A job of two slots and one round."""
    submitter = devnet.account("submitter", zen=1_000 * ZEN)
    sender, chain = Sender(devnet.chain, submitter, folder=devnet.folder), devnet.chain
    sender.send(chain.zen.approve(chain.tasks.address, 1_000 * ZEN))
    terms = {
        "token": chain.zen.address,
        "work_root": b"p" * 32,
        "state_root": b"s" * 32,
        "data_root": b"d" * 32,
        "manifest": b"m" * 32,
        "rounds": 1,
        "slots": 2,
        "quorum": 2,
        "reserve": 10,
        "max_price": 20,
        "aggregator_reserve": 5,
        "aggregator_max_price": 6,
        "slot_s": 600,
        "aggregate_s": 600,
        "reexecute_s": 100,
        "flops": 10**12,
        "depth": 4,
        "policy": 0,
    }
    call = chain.tasks.post(Terms(**(terms | changes)))
    return int(sender.send(call).event("JobPosted").args["job"])


class Dispute:
    """A job whose only round is closed: the first operator's claim, and the second one's aggregation; the third challenges.

    work: what is posted and claimed, if it is computed: its terms, `commit(slot, operator)` and `aggregate()`, each a root and a CID's digest.
    """

    def __init__(self, devnet: Devnet, work: Any = None) -> None:
        self.devnet, self.chain = devnet, devnet.chain
        self.parties = [ManualOperator(devnet, name, price) for name, price in (("one", 5), ("two", 6), ("three", 7))]
        self.job = post(devnet, **(work.terms if work else {"work_root": games.Work(*WORK).root}))
        self._award()
        one, two, three = self.parties
        settlement = self.chain.settlement
        for seat, party in enumerate((one, two)):
            party.send(settlement.ready(self.job, seat, 60))
        for slot, party in enumerate((one, two)):
            root = merkle.result_root(slot, START, RESULT.segment_root, RESULT.end_root, RESULT.update_root)
            given = work.commit(slot, party.id) if work else (root, BUNDLE)
            party.send(settlement.commit(self.job, slot, 0, *given))
        made = work.aggregate() if work else (b"\x09" * 32, BUNDLE)
        two.send(settlement.post_checkpoint(self.job, 0, 0b11, *made))
        three.send(self.chain.zen.approve(self.chain.referee.address, 2**256 - 1))

    def _award(self) -> None:
        job, auction, parties = self.job, self.chain.auction, self.parties
        two, slots, aggregator = parties[1], int(Kind.SLOTS), int(Kind.AGGREGATOR)
        for party in parties:
            party.bid(job, slots, party.price)
        two.bid(job, aggregator, 4)
        lot = read_job(self.chain, job).lots[Kind.SLOTS]
        self.devnet.warp_to(lot.bid_end)
        for party in parties:
            party.reveal(job, slots, party.price)
        two.reveal(job, aggregator, 4)
        self.devnet.warp_to(lot.reveal_end)
        two.send(auction.clear(job, slots, [party.id for party in parties]))
        two.send(auction.award(job, slots, [party.id for party in parties[:2]]))
        two.send(auction.clear(job, aggregator, [two.id]))
        two.send(auction.award(job, aggregator, [two.id]))

    def claim(self, seat: int) -> Posted:
        (found,) = (claim for claim in read_job(self.chain, self.job).claims if claim.seat == seat)
        return found

    def challenge(self, claim: Posted, kind: int, slot: int = 0, work: Work = WORK) -> Receipt:
        coin, _ = bond(claim, 0, self.chain.w3.eth.gas_price)  # type: ignore[arg-type]
        call = self.chain.referee.challenge(self.job, claim.fields, kind, slot, work, RESULT)  # type: ignore[arg-type]
        return self.parties[2].send(call, value=2 * coin)
