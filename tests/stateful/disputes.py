"""Rules of a walk: the Referee explores claims, and their disputes end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from repops.merkle import merkle_proof, merkle_root
from tests.stateful.rules import precondition, rule
from tests.stateful.walk import BITS, BOTH, INDEX, OFFSET, Walk, has_claims, when
from tests.support.explorations.hashed_computation import AGGREGATION, TRAINING, UPDATE, HashedProgram, noise
from tests.support.lockstep import committed_results
from tests.support.lockstep.committed_results import SEGMENTS, STEPS
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import evidence_of
from zoo_compute.spec import clocks, seats
from zoo_compute.spec.clocks import End
from zoo_compute.spec.descents import Answer, ResultAnswer
from zoo_compute.spec.disputed_claims import RESULT, DisputedClaim, Place, claim_key, fee_of, unit_of
from zoo_compute.spec.exploration import Node, Status, Tree, TreePosition, path_id, segments_position
from zoo_compute.spec.frames import EMPTY, Frame, Kind, Position, Result, States, Trace, Work
from zoo_compute.spec.state import Claim
from zoo_compute.spec.verdicts import sealed

# Of slot-rounds as `committed_results` has them.
PROGRAMS: dict[Kind, HashedProgram] = {Kind.TRAINING: TRAINING, Kind.UPDATE: UPDATE, Kind.AGGREGATION: AGGREGATION}
WORK = Work((TRAINING.opened.root, UPDATE.opened.root, *[AGGREGATION.opened.root] * 3), SEGMENTS * STEPS, STEPS, 1)
KINDS = (Kind.TRAINING, Kind.TRAINING, Kind.TRAINING, Kind.UPDATE, RESULT)
NO_STATES = States(EMPTY, EMPTY, ())
SALT = b"s" * 32
MUCH = 10**18


@dataclass
class Asked:
    """What a caller keeps of a node. children: what its answer showed."""

    job: int
    claim: Claim
    node: Node
    status: Status
    frame: Frame
    children: tuple[bytes, ...] = ()


@dataclass
class Explored:
    """By id; a node whose fee is settled is gone."""

    nodes: dict[bytes, Asked] = field(default_factory=dict)

    def of(self, status: Status) -> list[bytes]:
        return [id for id, each in self.nodes.items() if each.status == status]


def trace_of(node: Node, kind: Kind, shown: bytes) -> Trace:
    """Some hashes: nobody looks behind them here."""
    program = PROGRAMS[kind]
    leaves = [noise(node.claim, shown, at) for at in range(len(program.shapes))]
    width = 1 << max(0, (len(leaves) - 1).bit_length())
    leaves += [EMPTY] * (width - len(leaves))
    depth = TreePosition(Tree.NODES, width.bit_length() - 1).span
    size = width >> depth
    children = tuple(merkle_root(leaves[at : at + size]) for at in range(0, width, size))
    return Trace(merkle_root(list(children)), program.opened, children)


class Disputes(Walk):
    """Asks and answers, judgements, silence, fees and seals."""

    explored: Explored

    def __init__(self, coverage: Coverage) -> None:
        super().__init__(coverage)
        self.explored = Explored()

    def on_referee(self, function: str, sender: str, *args: Any, value: int = 0) -> str | None:
        return self.s.attempt("referee", function, sender, *args, value=value)

    def word(self, job: int, claim: Claim) -> DisputedClaim | None:
        return self.s.world.disputes.claims.get(claim_key(job, claim))

    def fee(self, job: int, claim: Claim, position: TreePosition) -> int:
        word = self.word(job, claim)
        return fee_of(position, (word.open if word else 0) + 1, self.s.base_fee)

    @when(has_claims)
    @rule(8, job=INDEX, index=BITS, kind=range(5), short=(0, 0, 0, 1), who=("stranger", "guardian"), bent=INDEX)
    def ask_claim(self, job: int, index: int, kind: int, short: int, who: str, bent: int) -> None:
        """The first ask of a path, now and then for too little, of another slot, or with what does not belong to it."""
        job = self.job(job, has_claims)
        claim = self.open_claim(job, index)
        asked = Kind.AGGREGATION if claim.is_aggregation else KINDS[kind]
        slot = 0 if claim.is_aggregation else (claim.scope >> 16) + index % max(1, claim.count)
        result = self.result(claim, slot)
        position = segments_position(WORK.inner_steps, WORK.segment_steps)
        if asked != Kind.TRAINING:
            position = TreePosition(Tree.RESULT if asked == RESULT else Tree.NODES)
        work = replace(WORK, rows=2) if bent == 7 else WORK
        result = replace(result, end_root=EMPTY) if bent == 6 else result
        asked = Kind.AGGREGATION if bent == 5 else asked
        args = (job, claim, int(asked), slot + (bent == 4), work, result, 0, NO_STATES, ())
        if self.on_referee("ask_claim", who, *args, value=self.fee(job, claim, position) - short) is None:
            id, node, frame = self.s.result
            self.explored.nodes[id] = Asked(job, claim, node, Status.ASKED, frame)

    def open_claim(self, job: int, index: int) -> Claim:
        """One that can be asked about, if there is any."""
        claims = [claim for claim in self.s.claims(job) if self.s.now <= self.s.deadline(job, claim)]
        return claims[index % len(claims)] if claims else self.claim(job, index)

    def result(self, claim: Claim, slot: int) -> Result:
        """As the bundle would show it; of a lie there is no right one."""
        if claim.is_aggregation:
            return Result()
        results = committed_results.results_of(claim)
        roots = [each.root for each in results]
        at = slot - (claim.scope >> 16)
        each = results[at]
        return Result(each.segment_root, each.end_root, each.update_root, tuple(merkle_proof(roots, at)))

    @precondition(lambda self: bool(self.explored.of(Status.ANSWERED)))
    @rule(4, index=BITS, place=INDEX, short=(0, 0, 0, 1))
    def ask_child(self, index: int, place: int, short: int) -> None:
        ids = self.explored.of(Status.ANSWERED)
        if not ids:
            return
        above = ids[index % len(ids)]
        asked = self.explored.nodes[above]
        if not asked.children:
            return
        place %= len(asked.children)
        child, path = asked.children[place], tuple(merkle_proof(list(asked.children), place))
        below = asked.node.position.below(asked.node.root, place, child, path)
        value = max(0, self.fee(asked.job, asked.claim, below) - short)
        if self.on_referee("ask", "stranger", above, asked.node, place, child, path, value=value) is None:
            id, node = self.s.result
            self.explored.nodes[id] = replace(asked, node=node, status=Status.ASKED, children=())

    @precondition(lambda self: bool(self.explored.of(Status.ASKED)))
    @rule(8, some=BITS, who=("", "", "", "stranger"), waits=(0, 0, 1, 5, 30))
    def answer_asks(self, some: int, who: str, waits: int) -> None:
        """What a hash determines, by anybody; what is new, by the operator's hot key, or not by a stranger."""
        self.s.wait(waits)
        for index, id in enumerate(self.explored.of(Status.ASKED)):
            if some >> index % 16 & 1:
                self.answer_ask(id, who)

    def answer_ask(self, id: bytes, who: str) -> None:
        asked = self.explored.nodes[id]
        node, position = asked.node, asked.node.position
        by = who or self.hot(asked.claim.operator)
        if position.tree == Tree.SEGMENTS and position.height:
            slot = committed_results.slot_round(asked.frame.slot, asked.claim.turn, asked.claim.start_root)
            children = tuple(committed_results.segment_leaves(slot))
            if self.on_referee("answer", by, id, node, children) is None:
                self.keep_answer(id, self.s.result, asked.frame, children)
        elif position.tree == Tree.RESULT:
            data = ResultAnswer(asked.claim, self.result(asked.claim, asked.frame.slot))
            self.answer_stage(id, by, Answer.RESULT, data)
        elif position == TreePosition(Tree.NODES):
            trace = trace_of(node, Kind(asked.frame.kind), id)
            self.answer_stage(id, by, Answer.TRACE, trace, trace.children)

    def answer_stage(self, id: bytes, by: str, kind: Answer, data: Any, children: tuple[bytes, ...] = ()) -> None:
        asked = self.explored.nodes[id]
        if self.on_referee("answer_stage", by, id, asked.node, int(kind), asked.frame, data) is None:
            node, frame = self.s.result
            self.keep_answer(id, node, frame, children)

    def keep_answer(self, id: bytes, node: Node, frame: Frame, children: tuple[bytes, ...]) -> None:
        asked = self.explored.nodes[id]
        self.explored.nodes[id] = replace(asked, node=node, status=Status.ANSWERED, frame=frame, children=children)

    @precondition(lambda self: bool(self.explored.nodes))
    @rule(index=BITS, right=(True, True, False))
    def judge_node(self, index: int, right: bool) -> None:
        """What the double takes for evidence, or not."""
        if not self.explored.nodes:
            return
        ids = list(self.explored.nodes)
        id = ids[index % len(ids)]
        asked = self.explored.nodes[id]
        at, root = asked.node.position, asked.node.root
        position = Position(int(at.tree), at.height, at.index, root, EMPTY)
        data = evidence_of(8, asked.frame, position) if right else SALT
        place = Place(id, asked.node, asked.status)
        self.on_referee("judge", "stranger", asked.job, asked.claim, asked.frame, place, 8, data)

    @precondition(lambda self: bool(self.explored.of(Status.ASKED)))
    @rule(index=BITS, offset=OFFSET, waits=(True, False, False))
    def expire_ask(self, index: int, offset: int, waits: bool) -> None:
        """At the edge of the committer's clock, or whenever; mostly where time has passed for other reasons."""
        ids = self.explored.of(Status.ASKED)
        if not ids:
            return
        id = ids[index % len(ids)]
        asked = self.explored.nodes[id]
        if waits:
            clock = asked.node.clocks
            self.s.to(max(self.s.now, clock.since + clock.committer_left_s + offset))
        self.on_referee("expire", "stranger", asked.job, asked.claim, id, asked.node)

    @precondition(lambda self: bool(self.explored.nodes))
    @rule(2, index=BITS, offset=OFFSET, aged=(False, False, False, True))
    def close_dispute(self, index: int, offset: int, aged: bool) -> None:
        """At the edge of all clocks, or when it has aged."""
        pending = {}
        for asked in self.explored.nodes.values():
            word = self.word(asked.job, asked.claim)
            if word and not word.end:
                pending[asked.job, asked.claim] = word
        keys = list(pending) or [(each.job, each.claim) for each in list(self.explored.nodes.values())[:1]]
        if not keys:
            return
        job, claim = keys[index % len(keys)]
        closed = self.s.world.closed_turns.get((job, claim.turn))
        if closed and (job, claim) in pending:
            word, deadline = pending[job, claim], self.s.deadline(job, claim)
            last = max(deadline + self.s.preset.clocks.asker_s, word.latest)
            if aged and word.open:
                last = clocks.aged_at(deadline, word.reexecute_s, self.s.preset.clocks)
            self.s.to(max(self.s.now, last + offset))
        self.on_referee("close", "stranger", job, claim)

    @precondition(lambda self: bool(self.explored.nodes))
    @rule(2, some=BITS)
    def settle_fees(self, some: int) -> None:
        """Of nodes whose claims are resolved, or not yet; everybody withdraws."""
        for index, (id, asked) in enumerate(list(self.explored.nodes.items())):
            if some >> index % 16 & 1:
                done = self.on_referee("settle", "stranger", (id,), (asked.node,), (int(asked.status),))
                if done is None:
                    del self.explored.nodes[id]
        for token, account in list(self.s.world.disputes.owed):
            self.on_referee("withdraw", "stranger", token, account)

    @precondition(lambda self: bool(self.explored.nodes))
    @rule(index=BITS, who=("stranger", "guardian"), places=BOTH, waits=(0, 1, 5, 6))
    def seal_steps(self, index: int, who: str, places: bool, waits: int) -> None:
        """A finder seals the step of some node, or opens what it sealed; the share is given when its time has come."""
        if not self.explored.nodes:
            return
        ids = list(self.explored.nodes)
        asked = self.explored.nodes[ids[index % len(ids)]]
        finder = self.s.accounts[who]
        if places:
            self.on_referee("seal", who, sealed(finder, asked.node.origin.unit, SALT))
        self.s.wait(waits)
        self.on_referee("open_seal", who, asked.job, asked.claim, finder, SALT)
        self.on_referee("reward", who, asked.job, asked.claim)

    @when(has_claims)
    @rule(2, job=INDEX, index=BITS, who=("stranger", "guardian"), seals=BOTH, ends=BOTH)
    def whole_dispute(self, job: int, index: int, who: str, seals: bool, ends: bool) -> None:
        """From a sealed step to the conviction, and mostly to what its finder gets."""
        job = self.job(job, has_claims)
        claim = self.open_claim(job, index)
        asked = Kind.AGGREGATION if claim.is_aggregation else Kind.UPDATE
        slot = 0 if claim.is_aggregation else claim.scope >> 16
        finder = self.s.accounts[who]
        if seals:
            self.on_referee("seal", who, sealed(finder, unit_of_path(job, claim, slot, asked), SALT))
            self.s.wait(self.s.preset.clocks.seal_lead_s)
        args = (job, claim, int(asked), slot, WORK, self.result(claim, slot), 0, NO_STATES, ())
        value = self.fee(job, claim, TreePosition(Tree.NODES))
        if self.on_referee("ask_claim", who, *args, value=value):
            return
        id, node, frame = self.s.result
        self.explored.nodes[id] = Asked(job, claim, node, Status.ASKED, frame)
        self.answer_ask(id, "")
        known = self.explored.nodes[id]
        position = Position(int(Tree.NODES), known.node.position.height, 0, known.node.root, EMPTY)
        place = Place(id, known.node, known.status)
        data = evidence_of(8, known.frame, position)
        self.on_referee("judge", who, job, claim, known.frame, place, 8, data)
        self.on_referee("open_seal", who, job, claim, finder, SALT)
        if ends:
            self.s.wait(self.s.preset.clocks.opening_s + 1)
            self.on_referee("reward", who, job, claim)

    @when(has_claims)
    @rule(job=INDEX, index=BITS, end=tuple(End), used_s=(0, 20, 21, 70, 120), burned=(0, 100, 10_000))
    def end_dispute(self, job: int, index: int, end: End, used_s: int, burned: int) -> None:
        """As the Referee says it, of a claim that nobody explored; only claims of closed turns are final or aged."""
        job = self.job(job, has_claims)
        parked = seats.parked_of(self.s.world, job)
        claim = parked[index % len(parked)] if parked and index % 2 else self.claim(job, index)
        if end in (End.FINAL, End.AGED) and (job, claim.turn) not in self.s.world.closed_turns:
            end = End.SILENT
        self.s.attempt("settlement", "open_dispute", "referee", job, claim)
        self.s.attempt("settlement", "close_dispute", "referee", job, claim, int(end), used_s, burned)


def unit_of_path(job: int, claim: Claim, slot: int, kind: int) -> bytes:
    return unit_of(path_id(claim_key(job, claim), slot, kind))
