"""Slot-rounds that are no restart: what the turn before left, who held the slot then, and committers that begin otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any

from node.compute.programs import Programs, State
from node.compute.training import carried_state
from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.computation import SlotRound
from node.disputes.previous_turn import PreviousTurn, SeatClaim
from node.disputes.trees import Trees
from repops.commitments import state_root, tensor_roots
from repops.merkle import Tree
from tests.referee.evidence_contracts import deploy
from tests.support.explorations.exploration_board import Played, board_of, play, training_claim
from tests.support.explorations.lying_jobs import SEATS, Case, mlp
from zoo_compute.formats.manifest import Compression
from zoo_compute.spec.carry import claim_before, is_restart
from zoo_compute.spec.clocks import PRODUCTION
from zoo_compute.spec.frames import Result
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import Claim
from zoo_compute.training.rounds import with_residuals

OPERATOR = 7  # of seat 0, whose claims are disputed
SPARSE = Compression(chunk=64, keep=8, bits=2, decay=0.5)


@dataclass(frozen=True)
class CarriedRound(Case):
    """The slot of a round, and the turn before it.

    holder: who had seat 0 in that turn; gone: nothing is kept of its aggregation; rolled_back: the round that it was instead.
    """

    holder: int = OPERATOR
    gone: bool = False
    rolled_back: int | None = None

    @cached_property
    def last(self) -> Case:
        """The slot in the round before, which begins at zero."""
        settings = {name: getattr(self, name) for name in Case.__dataclass_fields__}
        return Case(**{**settings, "round": self.round - 1})

    @cached_property
    def ended(self) -> tuple[State, State]:
        """How the slot ended there, and its update."""
        run = self.last.honest
        end = {name: array.copy() for name, array in run.state(self.inner_steps).items()}
        return end, run.programs.update(self.compression, self.checkpoint, end)

    @cached_property
    def private(self) -> State:
        return carried_state(self.manifest, Programs(self.graph), *self.ended)

    @cached_property
    def seated(self) -> tuple[SeatClaim, ...]:
        right = replace(self.last.result(Trees(self.last.honest)), update_root=state_root(self.ended[1]))
        seat_claims = []
        for seat, slots in SEATS.items():
            results = [right if slot == self.slot else Result(b"s" * 32, b"e" * 32, b"u" * 32) for slot in slots]
            tree = Tree([self.leaf(slot, result) for slot, result in zip(slots, results, strict=True)])
            claim = self.last.claim(tree.root, seat=seat, scope=slots[0] << 16 | len(slots))
            own_claim = replace(claim, operator=self.holder if seat == 0 else claim.operator)
            with_paths = {slot: replace(results[at], path=tree.path(at)) for at, slot in enumerate(slots)}
            seat_claims.append(SeatClaim(own_claim, with_paths))
        return tuple(seat_claims)

    @cached_property
    def aggregation(self) -> Claim | None:
        if self.gone:
            return None
        claim = self.last.claim(b"next" * 8, seat=AGGREGATOR_SEAT, scope=sum(1 << seat for seat in SEATS))
        return claim if self.rolled_back is None else replace(claim, round=self.rolled_back)

    @cached_property
    def carried(self) -> State | None:
        """What the slot begins with, by the rule."""
        claims = [each.claim for each in self.seated]
        mine = self.claim(bytes(32))
        goes_on = not is_restart(self.round, self.carry) and claim_before(mine, self.slot, self.aggregation, claims)
        return self.private if goes_on else None

    @cached_property
    def before(self) -> PreviousTurn | None:
        if is_restart(self.round, self.carry):
            return None
        end, update = (tensor_roots(state) for state in self.ended)
        return PreviousTurn(self.aggregation, self.seated, end, update)

    @cached_property
    def honest(self) -> SlotRound:
        return self.beginning(self.carried, before=self.before)

    def beginning(self, carried: State | None, **options: Any) -> SlotRound:
        """Whatever it begins with."""
        place = (self.checkpoint, self.examples, self.round, self.slot)
        return SlotRound(self.manifest, Programs(self.graph), *place, carried=carried, **options)

    def judges(self) -> SimpleNamespace:
        """The contracts, deployed anew, over a protocol that keeps the claims of the turn before."""
        seat_claims = deploy(self.manifest.data_root)
        self.keep(seat_claims.double)
        return seat_claims

    def keep(self, double: Any) -> None:
        """The claims of the turn before, whatever became of them."""
        for at, each in enumerate(self.seated):
            double.set_claim(1, astuple(each.claim), 1 + 2 * at)
        if self.aggregation is not None:
            double.set_claim(1, astuple(self.aggregation), 3)

    def disputed(self, carried: State | None) -> Played:
        """A slot-round that began so, before the contracts."""
        theirs = Trees(self.beginning(carried))
        return self.played(training_claim(self, theirs), theirs, Trees(self.honest))

    def played(self, about: Disputed, theirs: Trees, mine: Trees) -> Played:
        results = {about.slot: about.result or Result()}
        answerer = Answerer(about.claim, lambda *_: theirs, PRODUCTION, result_of=results.get, is_author=True)
        with board_of(self, about.claim) as board:
            self.keep(board.at.protocol)
            return play(board, lambda: Asker(mine, about), answerer, is_patient=False)


@lru_cache
def carrying(**options: Any) -> CarriedRound:
    case = mlp()
    settings = {"round": 1, "carry": 3, "compression": SPARSE, "inner_steps": 3} | options
    return CarriedRound(with_residuals(case.graph), case.checkpoint, case.examples, **settings)


# What the turn before can be. In the first alone the slot's private state is carried over.
SCENES: dict[str, dict[str, Any]] = {
    "the same operator": {},
    "another operator": {"holder": 5},
    "the slot was absent": {"slot": 2},
    "a rollback": {"rolled_back": 2},
    "nothing was aggregated": {"gone": True},
    "a restart": {"round": 2, "carry": 2},
}


def with_bit(state: State, name: str) -> State:
    """Private state of which one bit is false."""
    changed = {each: array.copy() for each, array in state.items()}
    changed[name].reshape(-1).view("uint32")[-1:] ^= 1
    return changed


def without(state: State, names: Sequence[str]) -> State:
    """Private state of which some tensors are zero."""
    return {name: array * 0 if name in names else array for name, array in state.items()}
