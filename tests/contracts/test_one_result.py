"""A claim's root has one result for each slot, whoever is shown it: the path is as high as the tree over the claim's slots."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from repops.commitments import result_root
from tests.contracts.two_results import Crafted, slot_2_of_3
from tests.support.evm import chain, reverts
from tests.support.protocol_driver import load
from zoo_compute.disputes.stage_data import encode_stage
from zoo_compute.spec.descents import ResultAnswer
from zoo_compute.spec.frames import Frame, Result, Work, claim_hash
from zoo_compute.spec.state import Claim

JOB, SLOT, SLOTS = 1, 2, 3
START, *ROOTS = (bytes([number]) * 32 for number in range(1, 8))
WORK = Work((START, START, START), inner_steps=4, segment_steps=2, rows=1)
TRAINING, RESULT = 0, 3  # kinds of first asks
AT_RESULT, RESULT_ANSWER = 8, 3  # position of a slot's result; Descent's kind of answer
FRAME_WORDS = ["uint256"] * 5 + ["bytes32"] * 7 + ["uint256"] * 4 + ["bytes32"] * 3 + ["uint256"] * 2
FRAME_WORDS += ["bytes32", "uint256"] + ["bytes32"] * 3 + ["uint256"] * 2 + ["bytes32", "uint256"]


@pytest.fixture
def results():
    """The result of slot 2, and another one that the claim's root has a level higher."""
    one, other = Result(*ROOTS[:3]), Result(*ROOTS[3:])
    tree = slot_2_of_3(leaf_of(one), leaf_of(other))
    return tree, replace(one, path=tuple(tree.path)), replace(other, path=tuple(tree.short))


def leaf_of(result: Result) -> bytes:
    return result_root(SLOT, START, result.segment_root, result.end_root, result.update_root)


def claim_of(tree: Crafted) -> Claim:
    return Claim(0, 0, 0, 7, SLOTS, 9, START, tree.root)


def test_ask_claim__of_a_result_that_is_too_high__is_refused(results):
    tree, one, other = results
    claim = astuple(claim_of(tree))
    with chain.anchor():
        double = load("mocks/DisputesDouble").deploy()
        referee = load("Referee").deploy(*[double] * 7, 1_000, 100, 10, 1, 50)
        double.set_claim(JOB, claim, (WORK.root, 100, SLOTS, chain.timestamp + 100))
        asker = chain.account("asker")
        chain.set_balance(asker, 10**20)

        def ask(result: Result) -> None:
            states = (bytes(32), bytes(32), [])
            args = (JOB, claim, TRAINING, SLOT, astuple(WORK), astuple(result), 0, states, [])
            referee.ask_claim(*args, sender=asker, value=10**18)

        with reverts("referee: result does not match"):
            ask(other)
        ask(one)


def test_answer__with_a_result_that_is_too_high__is_refused(results):
    tree, one, other = results
    claim = claim_of(tree)
    frame = Frame(job=JOB, slot=SLOT, kind=RESULT, claim=claim_hash(claim))
    node = (keccak(encode(FRAME_WORDS, astuple(frame))), AT_RESULT, tree.root)
    with chain.anchor():
        descent = load("Descent").deploy(chain.account("executor"))

        def show(result: Result) -> object:
            return descent.answered(RESULT_ANSWER, node, astuple(frame), encode_stage(ResultAnswer(claim, result)))

        with reverts("referee: result does not match"):
            show(other)
        assert tuple(show(one)) == node
