"""Gas of explored lies: whole paths of openings about real programs, read from receipts on anvil.

    python -m benchmarks.disputes.explored_lies [--json] [--program gpt] [--each N] [--seed S]

Each lie is one false word of an honest computation (`benchmarks.disputes.lies`). The asker goes to the first difference from its
own computation, the defender answers from the lying one, and the deployed `Evidence` judges. The path begins at the segment leaf
that the bundle shows. Every call is one transaction; the specification makes it too, and its records are what the next call sends.
Settlement is a double: `SETTLEMENT_GAS` is added to a total.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from web3 import Web3
from web3.exceptions import ContractLogicError

from benchmarks.disputes.lies import CachedComputation, LyingComputation, Plan, lies_of, result_of
from benchmarks.disputes.programs import PROGRAMS, seven_billion, slot_round
from node.disputes.challenger import Challenger
from node.disputes.depth import NONE, Depth
from node.disputes.trees import LEAF_BYTES, Trees
from repops.encoding import read_descriptor
from repops.merkle import Tree as Hashed
from repops.merkle import sha256
from repops.operators import TABLE
from repops.parts import part_count
from tests.support.games.hashed_computation import plain
from tests.support.sources import load
from zoo_compute.devnet.anvil import Anvil
from zoo_compute.disputes import evidence
from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.disputes.stage_data import encode_stage
from zoo_compute.spec import openings
from zoo_compute.spec.clocks import PRODUCTION
from zoo_compute.spec.descents import (
    Answer,
    Ask,
    BeginAnswer,
    ElementAsk,
    NodeAnswer,
    PartsAnswer,
    SegmentAnswer,
    StepAnswer,
)
from zoo_compute.spec.disputed_claims import Explorations, Place, Terms
from zoo_compute.spec.exploration import WORD_LEVELS, Node, Status, Tree, TreePosition
from zoo_compute.spec.frames import EMPTY, Awaits, Frame, Game, Kind, Phase, Result, States, Steps, Trace
from zoo_compute.spec.state import Claim, Message

JOB, OPERATOR, CHAIN_ID, BASE_FEE, FEE = 1, 7, 31337, 10**9, 10**17
DEADLINE = 2**33
# Of the deployed Settlement: `open_dispute` and `close_dispute` with a conviction, `gas_settlement` of benchmarks/dispute.py.
SETTLEMENT_GAS = 177_455


@dataclass
class PathGas:
    """Of one path, in order. judge: the last call; silent: there was nothing to judge."""

    what: str
    calls: list[tuple[str, bool, int]] = field(default_factory=list)  # name, whether the defender's, gas

    @property
    def pairs(self) -> int:
        return sum(is_defenders for _, is_defenders, _ in self.calls)

    @property
    def committer(self) -> int:
        return sum(gas for _, is_defenders, gas in self.calls if is_defenders)

    @property
    def total(self) -> int:
        return sum(gas for *_, gas in self.calls) + SETTLEMENT_GAS

    @property
    def last(self) -> int:
        return self.calls[-1][2]


class ExplorationChain:
    """Openings, Descent and what judges, over doubles, on anvil. It is also the specification's court."""

    def __init__(self, url: str) -> None:
        self.w3 = Web3(Web3.HTTPProvider(url))
        self.asker, self.hot = self.w3.eth.accounts[:2]
        self.double, self.protocol = self.deploy("mocks/DisputesDouble"), self.deploy("mocks/ProtocolDouble")
        executor = self.deploy("OpExecutor").address
        bindings = self.deploy("ConsistencyProofs", self.protocol.address, self.protocol.address).address
        self.evidence = self.deploy("Evidence", executor, bindings)
        descent = self.deploy("Descent", executor).address
        clocks = PRODUCTION.committer_s, PRODUCTION.asker_s, PRODUCTION.exclusive_s, PRODUCTION.seal_lead_s
        at = self.double.address
        self.openings = self.deploy("Openings", at, at, at, self.evidence.address, descent, *clocks)
        self.token = self.deploy("ZenToken", 10**30)
        self.send(self.token, "approve", self.asker, self.openings.address, 2**256 - 1)
        self.send(self.double, "set_price", self.asker, False, self.token.address, 1)
        self.send(self.double, "set_operator", self.asker, OPERATOR, self.hot, self.hot)
        self.terms = Terms(EMPTY, 60, 1, DEADLINE)
        self.deadlines: dict[int, int] = {}

    def deploy(self, name: str, *args: Any) -> Any:
        compiled = load(name)
        contract = self.w3.eth.contract(abi=compiled.abi, bytecode=compiled.bytecode)
        receipt = self.w3.eth.wait_for_transaction_receipt(
            contract.constructor(*args).transact({"from": self.w3.eth.accounts[0]})
        )
        return self.w3.eth.contract(address=receipt["contractAddress"], abi=compiled.abi)

    def send(self, contract: Any, name: str, sender: str, *args: Any, value: int = 0) -> Any:
        call = getattr(contract.functions, name)(*args)
        asked = {"from": sender, "value": value, "gas": 10_000_000}
        receipt = self.w3.eth.wait_for_transaction_receipt(call.transact(asked))
        if receipt["status"] != 1:
            call.call(asked)
        assert receipt["status"] == 1, f"{name} reverted"
        return receipt

    def now(self, receipt: Any) -> int:
        return int(self.w3.eth.get_block(receipt["blockNumber"])["timestamp"])

    def rpc(self, method: str, *params: Any) -> Any:
        answer = self.w3.provider.make_request(method, list(params))  # type: ignore[arg-type]
        assert "error" not in answer, answer
        return answer["result"]

    # --- what the specification asks

    def dispute_terms(self, job: int, claim: Claim) -> Terms:
        return self.terms

    def deadline(self, job: int, turn: int) -> int:
        return DEADLINE

    def reexecution_price(self, job: int, is_aggregation: bool) -> tuple[str, int]:
        return self.token.address, 1

    def hot_key(self, operator: int) -> str:
        return self.hot

    def owner_of(self, operator: int) -> str:
        return self.hot

    def part_count(self, descriptor: bytes, element: int) -> int:
        return part_count(read_descriptor(descriptor))

    def judge(self, *asked: Any) -> None:
        raise AssertionError("the contract judges")

    def open_dispute(self, job: int, claim: Claim) -> None: ...
    def close_dispute(self, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None: ...
    def reward_finder(self, job: int, claim: Claim, finder: str) -> None: ...
    def take(self, token: str, account: str, amount: int) -> bool:
        return True

    def send_token(self, token: str, account: str, amount: int) -> bool:
        return True


class ExploredPath:
    """One path, both sides played, from the first ask to the judgement. `revealed`: of each tree, what was revealed on the way."""

    def __init__(self, chain: ExplorationChain, claim: Claim, work: Any, mine: Trees, theirs: Trees, what: str) -> None:
        self.chain, self.claim, self.work, self.mine, self.theirs = chain, claim, work, mine, theirs
        self.challenger = Challenger(mine)
        self.world = Explorations(chain, PRODUCTION)
        self.gas = PathGas(what)
        self.id, self.status = b"", Status.ASKED
        self.node: Node
        self.frame = Frame()
        self.revealed = RevealedState()

    def call(self, function: str, *args: Any, label: str = "") -> Any:
        """On chain, then on paper at the block's time; `args` as the specification takes them."""
        is_defenders = function.startswith("answer")
        sender, value = (self.chain.hot, 0) if is_defenders else (self.chain.asker, FEE)
        self.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(BASE_FEE))
        receipt = self.chain.send(self.chain.openings, function, sender, *map(_sent, args), value=value)
        self.gas.calls.append((label or function, is_defenders, int(receipt["gasUsed"])))
        message = Message(sender, self.chain.now(receipt), value, BASE_FEE)
        return getattr(openings, function)(self.world, message, *args)

    def play(self, kind: Kind, result: Result) -> bool:
        """Whether the lie was convicted: by evidence, or by silence where what was committed to has no opening."""
        self.begin(kind, result)
        while True:
            if self.status == Status.ASKED:
                if self.judge_at():
                    return True
                try:
                    self.answer()
                except ContractLogicError:
                    return self.expire()
            elif not self.go_on():
                return False
            elif self.gas.calls[-1][0] == "judge":
                return True

    # --- the asker

    def begin(self, kind: Kind, result: Result) -> None:
        index, states, path = 0, States(EMPTY, EMPTY, ()), ()
        frame = Frame(inner_steps=self.work.inner_steps, segment_steps=self.work.segment_steps)
        if kind == Kind.TRAINING:
            mine, theirs = (each.states(frame, Phase.SEGMENTS) for each in (self.mine, self.theirs))
            differing = [at for at, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other]
            if differing:
                index = differing[0]
                tree = self.theirs.tree(frame, Phase.SEGMENTS)
                before = max(index - 1, 0)
                states, path = States(theirs[before], theirs[index], tree.path(before)), tree.path(index)
        args = JOB, self.claim, int(kind), 0, self.work, result, index, states, path
        self.id, self.node, self.frame = self.call("ask_claim", *args)

    def judge_at(self) -> bool:
        """The end of the segments is false at their root: nothing need be answered."""
        if self.node.position.tree != Tree.SEGMENTS or self.node.position.height == 0:
            return False
        return self.judge(self.challenger.evidence(self.game(), self.revealed))

    def game(self, *, index: int | None = None, is_open: bool = False, at_leaf: bool = False) -> Game:
        """The place as today's challenger reads it."""
        at = self.node.position
        return Game(
            job=JOB,
            claim=self.claim,
            frame=self.frame,
            awaits=Awaits.EVIDENCE if at_leaf or is_open else Awaits.PICK,
            phase=Phase(at.tree),
            node=self.node.root,
            height=0 if at_leaf or is_open else at.height,
            index=at.index if index is None else index,
            count=at.count,
            is_open=is_open,
        )

    def go_on(self) -> bool:
        """Judges, or asks at the first difference; False where there is none."""
        at, frame = self.node.position, self.frame
        if at.shows_words:
            return self.go_on_in_words()
        if at.tree in (Tree.ELEMENTS, Tree.PARTS) and self.judge(self.challenger.evidence(self.game(), self.revealed)):
            return True
        phase = Phase(at.tree)
        mine = self.mine.tree(frame, phase).below(at.height, at.index, at.span)
        theirs = self.revealed.last
        for place, (one, other) in enumerate(zip(theirs, mine, strict=True)):
            if one != other:
                return self.go_to(place, one, Hashed(theirs).path(place))
        if at.tree == Tree.NODES and self.node.root == frame.trace_root:
            asked = self.call("ask_stage", self.id, self.node, int(Ask.STATE), frame, self.mine.program.opened)
            self.id, self.node, self.frame = asked
            self.status = Status.ASKED
            self.revealed = replace(self.revealed, phase=Phase.STATE)
            return True
        return False

    def go_to(self, place: int, child: bytes, path: tuple[bytes, ...]) -> bool:
        at = self.node.position
        below = at.below(self.node.root, place, child, path)
        if not below.is_askable(child):
            proof = self.challenger.evidence(self.game(index=below.index, at_leaf=True), self.revealed)
            return self.judge(proof, place, child, path)
        label = f"ask_{1 << at.span}"
        self.id, self.node = self.call("ask", self.id, self.node, place, child, path, label=label)
        self.status = Status.ASKED
        return True

    def go_on_in_words(self) -> bool:
        """At revealed leaves: the first false word is judged, or its parts are asked for."""
        at, phase = self.node.position, Phase(self.node.position.tree)
        first = at.index << at.height
        data = self.revealed.leaves[phase]
        hashes = [sha256(b"\x00" + data[each : each + LEAF_BYTES]) for each in range(0, len(data), LEAF_BYTES)]
        hashes += [EMPTY] * ((1 << at.height) - len(hashes))
        leaves = Hashed(hashes)
        for place in range(-(-len(data) // LEAF_BYTES)):
            leaf = data[place * LEAF_BYTES : (place + 1) * LEAF_BYTES]
            if leaf == self.mine.leaf(self.frame, phase, first + place):
                continue
            revealed = replace(self.revealed, leaves={**self.revealed.leaves, phase: leaf}).with_children(tuple(hashes))
            game = self.game(index=first + place, is_open=True)
            if self.judge(self.challenger.evidence(game, revealed), place, hashes[place], leaves.path(place)):
                return True
            element = self.challenger._first(game, revealed)
            assert element is not None
            opening = ElementAsk(
                self.mine.program.descriptor(self.frame.node), element, hashes[place], leaves.path(place)
            )
            asked = self.call("ask_stage", self.id, self.node, int(Ask.PARTS), self.frame, opening, label="ask_parts")
            self.id, self.node, self.frame = asked
            self.status = Status.ASKED
            return True
        return self.judge(self.challenger.evidence(self.game(), self.revealed))

    def judge(self, proof: Any, place: int | None = None, child: bytes = EMPTY, path: tuple[bytes, ...] = ()) -> bool:
        if proof is None:
            return False
        at = Place(self.id, self.node, self.status, place is not None, place or 0, child, path)
        sent = JOB, self.claim, self.frame, at, proof.KIND, evidence.encode(proof)
        receipt = self.chain.send(self.chain.openings, "judge", self.chain.asker, *map(_sent, sent))
        self.gas.calls.append(("judge", False, int(receipt["gasUsed"])))
        return True

    def expire(self) -> bool:
        self.chain.rpc("evm_increaseTime", self.node.clocks.committer_left_s + 1)
        sent = JOB, self.claim, self.id, self.node
        receipt = self.chain.send(self.chain.openings, "expire", self.chain.asker, *map(_sent, sent))
        self.gas.calls.append(("expire", False, int(receipt["gasUsed"])))
        return True

    # --- the defender

    def answer(self) -> None:
        at, frame, id, node = self.node.position, self.frame, self.id, self.node
        if at.shows_words:
            data = self.words(frame, Phase(at.tree), at)
            self.node = self.call("answer_words", id, node, data)
            self.revealed = self.revealed.with_leaf(data)
        elif at.height:
            children = self.theirs.tree(frame, Phase(at.tree)).below(at.height, at.index, at.span)
            self.node = self.call("answer", id, node, children, label=f"answer_{len(children)}")
            self.revealed = self.revealed.with_children(children)
        else:
            kind, data, phase = self.stage()
            label = f"answer_{Answer(kind).name.lower()}"
            self.node, self.frame = self.call("answer_stage", id, node, int(kind), frame, data, label=label)
            self.revealed = replace(self.revealed, phase=phase)
            words = getattr(data, "words", b"")
            children = data.trace.children if kind == Answer.STEP else getattr(data, "children", ())
            children = data.steps.children if kind == Answer.SEGMENT else children
            self.revealed = self.revealed.with_leaf(words) if words else self.revealed.with_children(children)
        self.status = Status.ANSWERED

    def words(self, frame: Frame, phase: Phase, at: TreePosition) -> bytes:
        size = LEAF_BYTES << at.height
        return self.theirs.words(frame, phase)[at.index * size : (at.index + 1) * size]

    def stage(self) -> tuple[Answer, Any, Phase]:
        at, frame, trees = self.node.position, self.frame, self.theirs
        if at == TreePosition(Tree.NODES):
            return Answer.TRACE, self.trace(frame), Phase.NODES
        if at.tree == Tree.NODES:
            return Answer.NODE, self.opened_node(replace(frame, node=at.index)), Phase.ELEMENTS
        if at.tree == Tree.ELEMENT:
            return Answer.PARTS, self.opened_parts(frame), Phase.PARTS
        phase = Phase(at.tree)
        if at.index == 0:
            begun = replace(frame, is_begin=1)
            tree = trees.tree(begun, Phase.STATE)
            return Answer.BEGIN, BeginAnswer(tree.root, trees.program.opened, self.top(begun, Phase.STATE)), Phase.STATE
        first, last = trees.steps(frame, phase)[at.index - 1 : at.index + 1]
        before, after = trees.states(frame, phase)[at.index - 1 : at.index + 1]
        has_states = phase == Phase.SEGMENTS and frame.after != EMPTY
        states = States(before, after, () if has_states else trees.tree(frame, phase).path(at.index - 1))
        if last - first == 1:
            return Answer.STEP, StepAnswer(states, self.trace(replace(frame, step=first))), Phase.NODES
        inside = replace(frame, first_step=first)
        tree = trees.tree(inside, Phase.STEPS)
        steps = Steps(tree.root, tree.path(0), tree.path(last - first), self.top(inside, Phase.STEPS))
        return Answer.SEGMENT, SegmentAnswer(states, steps), Phase.STEPS

    def trace(self, frame: Frame) -> Trace:
        return Trace(
            self.theirs.tree(frame, Phase.NODES).root, self.theirs.program.opened, self.top(frame, Phase.NODES)
        )

    def opened_node(self, frame: Frame) -> NodeAnswer:
        program, tree = self.theirs.program, self.theirs.tree(frame, Phase.ELEMENTS)
        children, words = self.first_words(frame, Phase.ELEMENTS)
        path = program.nodes.path(frame.node)
        return NodeAnswer(program.descriptor(frame.node), program.opened, path, tree.root, children, words)

    def opened_parts(self, frame: Frame) -> PartsAnswer:
        tree, last = self.theirs.tree(frame, Phase.PARTS), (frame.parts - 1) // 128
        children, words = self.first_words(frame, Phase.PARTS)
        element = self.theirs.leaf(frame, Phase.ELEMENTS, frame.element // 128)
        if words:
            return PartsAnswer(element, tree.root, b"", (), (), words)
        return PartsAnswer(
            element, tree.root, self.theirs.leaf(frame, Phase.PARTS, last), tree.path(last), children, b""
        )

    def first_words(self, frame: Frame, phase: Phase) -> tuple[tuple[bytes, ...], bytes]:
        tree = self.theirs.tree(frame, phase)
        if tree.height <= WORD_LEVELS:
            return (), self.theirs.words(frame, phase)
        return self.top(frame, phase), b""

    def top(self, frame: Frame, phase: Phase) -> tuple[bytes, ...]:
        height = self.theirs.tree(frame, phase).height
        return self.theirs.tree(frame, phase).below(height, 0, TreePosition(Tree(phase), height).span)


def _sent(arg: Any) -> Any:
    if isinstance(arg, Node):
        return arg.record
    if isinstance(arg, Place):
        return (arg.id, arg.node.record, arg.status, arg.is_child, arg.number, arg.child, list(arg.path))
    from zoo_compute.disputes.stage_data import TYPES

    return encode_stage(arg) if type(arg) in TYPES else plain(arg)


@contextmanager
def exploration_chain() -> Iterator[ExplorationChain]:
    with tempfile.TemporaryDirectory(prefix="zoo-openings-") as name:
        folder = Path(name)
        anvil = Anvil.start(chain_id=CHAIN_ID, block_time=1_000_000, port=0, state=folder / "state", log=folder / "log")
        try:
            yield ExplorationChain(anvil.url)
        finally:
            anvil.stop()


def measure(name: str, each: int, seed: int, states: int = 20) -> dict[str, Any]:
    """Lies about one program, `each` of every operator."""
    program, rng = PROGRAMS[name], random.Random(seed)
    with exploration_chain() as chain, tempfile.TemporaryDirectory(prefix="zoo-openings-") as folder:
        case = program.case()
        made = slot_round(case, Path(folder) / "training")
        mine = Trees(CachedComputation(made))
        work, manifest = case.work, case.manifest
        nobody = "0x" + 40 * "0"
        roots = bytes(32), bytes(32), bytes.fromhex(manifest.data.root), manifest.digest
        chain.send(chain.protocol, "set_job", chain.asker, JOB, (nobody, nobody, 3, 0, *roots))
        run = (3, 0, 0, 9, manifest.slots, *[0] * 9, nobody, *[0] * 8, bytes(32))
        chain.send(chain.protocol, "set_run", chain.asker, JOB, run)
        chain.terms = replace(chain.terms, work_root=work.root)
        graphs = {kind: mine.computation.graph for kind in Kind}
        plan = Plan(program.steps, each, states=states, operators=frozenset(TABLE), has_data=program.has_data)
        lies = [lie for lie in lies_of(graphs, plan, rng) if lie.kind == Kind.TRAINING]
        lies.sort(key=lambda lie: (lie.step, lie.node, lie.element))
        paths: list[PathGas] = []
        convicted = 0
        for number, lie in enumerate([lies[0], *lies]):
            theirs = mine if lie.what == "end" else Trees(LyingComputation(mine.computation, lie))
            result = result_of(theirs, manifest.inner_steps, manifest.segment_steps)
            result = replace(result, end_root=b"\x0e" * 32) if lie.what == "end" else result
            claim = replace(case.claim(case.leaf(case.slot, result)), operator=OPERATOR, turn=number)
            chain.send(chain.double, "set_claim", chain.asker, JOB, plain(claim), astuple(chain.terms))
            what = mine.computation.graph.nodes[lie.node].op if lie.what == "training" else lie.what
            path = ExploredPath(chain, claim, work, mine, theirs, what)
            convicted += path.play(Kind.TRAINING, result)
            # The first is played to warm what a path of this asker finds written: it is played again.
            if number:
                paths.append(path.gas)
            if number % 50 == 0:
                print(f"\r{number} of {len(lies)}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    worst = max(paths, key=lambda each: each.total)
    by_call: dict[str, int] = {}
    judged: dict[str, int] = {}
    for path in paths:
        if path.calls[-1][0] == "judge":
            judged[path.what] = max(judged.get(path.what, 0), path.last)
    for path in paths:
        for label, _, gas in path.calls:
            by_call[label] = max(by_call.get(label, 0), gas)
    return {
        "program": name,
        "lies_told": len(paths),
        "lies_convicted": convicted - 1,
        "move_pairs": max(path.pairs for path in paths),
        "gas_total": worst.total,
        "gas_committer": worst.committer,
        "gas_challenger": worst.total - worst.committer - SETTLEMENT_GAS,
        "gas_settlement": SETTLEMENT_GAS,
        "gas_total_mean": round(sum(path.total for path in paths) / len(paths)),
        "second_challenger_gas": max(path.last for path in paths if path.calls[-1][0] == "judge"),
        "worst": {"about": worst.what, "calls": [(label, gas) for label, _, gas in worst.calls]},
        "judge_gas_max_by_lie": dict(sorted(judged.items())),
        "gas_max_by_call": dict(sorted(by_call.items())),
        "estimate_7b": {"move_pairs": pairs_of(seven_billion())},
        "parameters": {"gas": "receipts of every call, on anvil", "settlement": SETTLEMENT_GAS},
    }


def answers_below(tree: Tree, height: int) -> int:
    """Answers from the opened root of a tree of this height down to a leaf, which is revealed or leads into the next tree."""
    at, count = TreePosition(tree, height, 0, 2**40), 0
    while not at.shows_words and at.height:
        at = replace(at, height=at.height - at.span)
        count += at.height > 0 or at.shows_words
    return count


def pairs_of(deep: Depth) -> int:
    """Pairs of the longest path that begins at a segment leaf of the bundle, from the heights of the trees alone."""
    trees = [
        (Tree.STEPS, deep.steps),
        (Tree.NODES, deep.nodes),
        (Tree.ELEMENTS, deep.elements),
        (Tree.PARTS, deep.parts),
    ]
    return sum(1 + answers_below(tree, height) for tree, height in trees if height != NONE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--program", default="gpt", choices=sorted(PROGRAMS))
    parser.add_argument("--each", type=int, default=3, help="lies about each operator")
    parser.add_argument("--states", type=int, default=3, help="lies of every other kind")
    parser.add_argument("--seed", type=int, default=0)
    opening = parser.parse_args()
    figures = measure(opening.program, opening.each, opening.seed, opening.states)
    print(json.dumps(figures) if opening.json else json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
