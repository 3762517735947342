"""Disputes by the deployed Referee: it is wired everywhere, silence and evidence convict, fees and the finder's share reach their accounts."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import encode as abi_encode
from eth_typing import HexStr
from eth_utils.crypto import keccak

from repops.merkle import merkle_proof
from tests.support.disputed_job import AGGREGATION, FEE, STATES, TRAINING, WORK, Dispute
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.disputes.evidence import End as EndEvidence
from zoo_compute.disputes.evidence import encode
from zoo_compute.disputes.exploration import Call
from zoo_compute.errors import EvidenceRefusal, RefereeRefusal, SettlementRefusal
from zoo_compute.spec import state
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import claim_key, unit_of
from zoo_compute.spec.params import COIN

pytestmark = pytest.mark.integration


def newest(dispute: Dispute) -> DisputeView:
    return read_disputes(dispute.chain, dispute.chain.head(), job=dispute.job)[-1]


def as_spec(claim: Any) -> state.Claim:
    return state.Claim(*claim.fields)


def test_the_deployed_referee__judges_what_the_deployed_contracts_keep(devnet: Devnet) -> None:
    dispute = Dispute(devnet)
    chain, (one, two, three) = dispute.chain, dispute.parties
    referee, clocks, zen = chain.referee, chain.params.clocks, chain.zen.address
    for contract in (chain.settlement, chain.audits, chain.admissions):
        assert contract.referee() == referee.address

    def send(call: Call, by: Any = three) -> Any:
        return by.send(getattr(referee, call.name)(*call.args), value=FEE if call.name.startswith("ask") else 0)

    # -- another work than the terms commit to
    with pytest.raises(RefereeRefusal, match="work does not match"):
        dispute.ask(dispute.claim(0), TRAINING, work=WORK._replace(segment_steps=2))

    # -- a claim that contradicts itself: who sealed its step has a share
    false = dispute.claim(1)
    salt = b"s" * 32
    path = keccak(abi_encode(["bytes32", "uint256", "uint256"], [_key(dispute, false), 1, TRAINING]))
    unit = int.from_bytes(unit_of(path).ljust(32, b"\0"), "big")
    three.send(referee.seal(keccak(abi_encode(["address", "uint256", "bytes32"], [three.account.address, unit, salt]))))
    devnet.warp_to(chain.now() + clocks.seal_lead_s + 1)
    dispute.ask(false, TRAINING, slot=1)
    assert dispute.claim(1).disputed
    view = newest(dispute)
    [node] = view.picture.nodes.values()
    assert (view.operator, view.deadline, view.seat, node.id) == (two.id, false.deadline, 1, path)
    for end, refusal in ((b"\x07" * 32, "state does not match"), (b"\x08" * 32, "")):
        proof = EndEvidence(end, tuple(merkle_proof(STATES, 2)))
        call = view.picture.judge(dispute.job, as_spec(false), node, None, EndEvidence.KIND, encode(proof))
        if refusal:
            with pytest.raises(EvidenceRefusal, match=refusal):
                send(call)
        else:
            send(call)
    assert dispute.claim(1).state == ClaimState.CONVICTED
    view = newest(dispute)
    assert view.end == End.JUDGED
    assert all(chain.w3.eth.get_transaction_receipt(HexStr(tx))["status"] for tx in view.transactions)
    send(view.picture.settle([node.id]), two)
    assert referee.owed(COIN, three.account.address) >= FEE // 2
    two.send(referee.open_seal(dispute.job, false.fields, three.account.address, salt))  # type: ignore[arg-type]
    with pytest.raises(RefereeRefusal, match="time left"):
        two.send(referee.reward(dispute.job, false.fields))  # type: ignore[arg-type]
    devnet.warp_to(chain.now() + clocks.opening_s + 1)
    two.send(referee.reward(dispute.job, false.fields))  # type: ignore[arg-type]
    assert chain.tasks.owed(zen, three.account.address) > 0

    # -- an aggregation whose author does not answer
    false = dispute.claim(AGGREGATOR_SEAT)
    balance = chain.zen.balanceOf(three.account.address)
    dispute.ask(false, AGGREGATION)
    _, price = chain.tasks.reexecution_price(dispute.job, True)
    assert balance - chain.zen.balanceOf(three.account.address) == price > 0
    view = newest(dispute)
    [node] = view.picture.nodes.values()
    expire = view.picture.expire(dispute.job, as_spec(false), node)
    with pytest.raises(RefereeRefusal, match="time left"):
        send(expire, one)
    devnet.warp_to(node.due + 1)
    with pytest.raises(SettlementRefusal, match="in dispute"):
        one.send(chain.settlement.finalise(dispute.job, [false.fields]))  # type: ignore[list-item]
    send(expire, one)
    assert dispute.claim(AGGREGATOR_SEAT).state == ClaimState.CONVICTED
    assert newest(dispute).end == End.SILENT
    send(newest(dispute).picture.settle([node.id]), one)
    assert referee.owed(zen, three.account.address) == price


def _key(dispute: Dispute, claim: Any) -> bytes:

    return claim_key(dispute.job, as_spec(claim))
