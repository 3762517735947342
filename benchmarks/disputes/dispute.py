"""What does a dispute cost? Lies about real programs, each explored to its conviction by the contracts on anvil.

    python benchmarks/dispute.py [--json] [--lies N] [--seed S] [--programs gpt,llama,...]

`gpt` is the demo's model with 500 inner steps; its figures are at the top level. Every lie is one false word of one honest
computation, at a step, in a state, a node, an element, a part, a shape or the update (lies_by_place). The players of
`node.disputes` choose all calls; each is a transaction of its own to the deployed contracts, whose gas is read from receipts,
calldata included. The claim's turn is closed.
gas_total: both sides of the costliest path, from the first ask to the conviction. gas_committer, gas_challenger and
gas_settlement (inside Settlement: `open_dispute` and `close_dispute`, conviction included) are of the same path.
gas_judge: the evidence as a transaction of its own to `Evidence`. second_challenger_gas: the dearest judgement of a lie that
others explored, without what Settlement does with the conviction (gas_conviction). The asker has disputed another job before, so
only storage of this claim is written for the first time. A hostile asker wanders through honest work and shows true openings as
evidence of every place. delay_bound_s, delays_s and attack_cost_per_hour: benchmarks/disputes/delays.py.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.disputes.delays import delays
from benchmarks.disputes.exploration_chain import ExplorationChain, ExplorationGas, ExploredClaim
from benchmarks.disputes.lies import (
    BEGIN,
    CachedAggregation,
    CachedComputation,
    Lie,
    LyingComputation,
    Plan,
    lies_of,
    result_of,
)
from benchmarks.disputes.programs import PROGRAMS, Program, pairs_of, seven_billion, slot_round
from benchmarks.disputes.wanderer import Wanderer
from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.previous_turn import SeatClaim
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from repops.commitments import state_root, state_root_of
from repops.operators import TABLE
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.clocks import PRODUCTION
from zoo_compute.spec.frames import Frame, Kind, Phase, Result

EACH = 20  # lies about each operator, and of each other kind
LIES = 2_000  # about the first program
BLOCK_S = 1_000_000  # between empty blocks: none comes by itself
HOSTILE = 60  # hostile explorations of honest work, a program
PRINTED = ("pairs", "gas_committer", "gas_challenger", "gas_total", "gas_judge_max", "second_challenger_gas", "wall_s")


@dataclass
class Tally:
    """The results about one program."""

    lies: int = 0
    convicted: int = 0
    silent: int = 0
    pairs: int = 0
    worst: ExplorationGas | None = None
    judged: list[int] = field(default_factory=list)
    second: tuple[int, int] = 0, 0  # gas of a judgement without Settlement's share, and that share
    gas_of: dict[str, int] = field(default_factory=dict)  # by what a lie is about, the most in all
    judge_of: dict[str, int] = field(default_factory=dict)  # by operator
    lies_by_kind: Counter[str] = field(default_factory=Counter)
    lies_by_place: Counter[str] = field(default_factory=Counter)  # by what kind of committed number is false
    calls: dict[str, int] = field(default_factory=dict)
    hostile: int = 0
    attempts: Counter[int] = field(default_factory=Counter)
    honest_convictions: int = 0
    began: float = field(default_factory=time.monotonic)
    wall_s: float = 0

    def report(self) -> dict[str, Any]:
        assert self.worst is not None, "nothing was explored"
        return {
            "pairs": self.pairs,
            "gas_committer": self.worst.committer,
            "gas_challenger": self.worst.asker,
            "gas_total": self.worst.total,
            "gas_settlement": self.worst.settlement,
            "gas_judge_max": max(self.judged),
            "gas_judge_median": round(median(self.judged)),
            "second_challenger_gas": self.second[0],
            "gas_conviction": self.second[1],
            "worst_path": [(each.name, each.gas) for each in self.worst.calls],
            "gas_total_by_lie": dict(sorted(self.gas_of.items())),
            "gas_judge_max_by_operator": dict(sorted(self.judge_of.items())),
            "gas_max_by_call": dict(sorted(self.calls.items())),
            "lies": self.lies,
            "convicted": self.convicted,
            "convicted_by_silence": self.silent,
            "lies_by_kind": dict(sorted(self.lies_by_kind.items())),
            "lies_by_place": dict(sorted(self.lies_by_place.items())),
            "hostile": self.hostile,
            "hostile_evidence": dict(sorted(self.attempts.items())),
            "honest_convictions": self.honest_convictions,
            "wall_s": round(self.wall_s, 1),
        }


class ProgramDisputes:
    """All disputes about one program."""

    def __init__(self, court: ExplorationChain, program: Program, folder: Path, rng: random.Random) -> None:
        self.court, self.rng, self.tally = court, rng, Tally()
        self.case = program.case()
        made = slot_round(self.case, folder / "training")
        self.honest = {
            Kind.TRAINING: Trees(CachedComputation(made)),
            Kind.UPDATE: Trees(CachedComputation(Update(made, folder=folder / "update"))),
        }
        court.open(self.case.manifest, self.case.work)
        self.seated = self._seated()
        aggregation = Aggregation(
            self.case.manifest, self.case.graph, self.case.checkpoint, {0: self._update}, claim=self.seated.claim,
            seated=[self.seated], folder=folder / "aggregation",
        )  # fmt: skip
        self.honest[Kind.AGGREGATION] = Trees(CachedAggregation(aggregation))

    @cached_property
    def _update(self) -> dict[str, Any]:
        """An arbitrary update to aggregate."""
        made, checkpoint = np.random.default_rng(7), self.case.checkpoint
        return {
            name: made.standard_normal(checkpoint[name].shape).astype(np.float32) for name in self.case.graph.exchanged
        }

    def _seated(self) -> SeatClaim:
        """The claim of the job's one slot, whose update is aggregated."""
        result = Result(b"\x01" * 32, b"\x02" * 32, state_root(self._update))
        return SeatClaim(self.court.claim(self.case.leaf(self.case.slot, result)), {self.case.slot: result})

    def run(self, lies: Sequence[Lie], hostile: int, said: Callable[[Tally], None]) -> None:
        """Order lies by step and node, so that cached values of a step are used while they are cached."""
        for lie in sorted(lies, key=lambda each: (each.kind, each.step, each.node, each.element)):
            self.dispute(lie)
            said(self.tally)
        steps = sorted({lie.step for lie in lies if lie.step != BEGIN})
        for step in steps if hostile else ():
            for _ in range(-(-hostile // len(steps))):
                self.wander(step)
            said(self.tally)

    def dispute(self, lie: Lie, *, is_undone: bool = True) -> None:
        """One path, from the claim to the conviction."""
        mine = self.honest[lie.kind]
        theirs = mine if lie.what == "end" else Trees(LyingComputation(mine.computation, lie))
        about = self.about(lie.kind, theirs, self.result(lie, theirs))
        board = ExploredClaim(self.court, lie.kind == Kind.AGGREGATION)
        spent = board.explore(Asker(mine, about), self.answerer(about, theirs))
        self.note(lie, spent)
        if is_undone:
            self.court.reset()

    def about(self, kind: Kind, theirs: Trees, result: Result) -> Disputed:
        """Their claim, committed; of training, with the states that the bundle shows."""
        job, work = self.court.job, self.case.work
        if kind == Kind.AGGREGATION:
            mine = self.honest[kind].computation
            assert isinstance(mine, CachedAggregation)
            mine.claim = claim = self.court.aggregation(state_root_of(theirs.computation.after(0)))
            self.court.commit(self.seated.claim, claim)
            return Disputed(job, claim, kind, 0, work)
        claim = self.court.claim(self.case.leaf(self.case.slot, result))
        self.court.commit(claim)
        shape = Frame(inner_steps=work.inner_steps, segment_steps=work.segment_steps)
        segments = tuple(theirs.states(shape, Phase.SEGMENTS)) if kind == Kind.TRAINING else ()
        return Disputed(job, claim, kind, self.case.slot, work, result, segments)

    def answerer(self, about: Disputed, theirs: Trees) -> Answerer:
        results = {about.slot: about.result} if about.result else {}
        return Answerer(about.claim, lambda kind, slot: theirs, PRODUCTION, result_of=results.get, is_author=True)

    def result(self, lie: Lie, theirs: Trees) -> Result:
        manifest = self.case.manifest
        steps = manifest.inner_steps, manifest.segment_steps
        if lie.kind == Kind.AGGREGATION:
            return Result()
        if lie.kind == Kind.UPDATE:
            update = state_root_of(theirs.computation.after(0))
            return replace(result_of(self.honest[Kind.TRAINING], *steps), update_root=update)
        result = result_of(theirs, *steps)
        return replace(result, end_root=b"\x0e" * 32) if lie.what == "end" else result

    def note(self, lie: Lie, spent: ExplorationGas) -> None:
        tally, graph = self.tally, self.honest[lie.kind].computation.graph
        what = graph.nodes[lie.node].op if lie.what == "training" else lie.what
        tally.wall_s = time.monotonic() - tally.began
        tally.lies += 1
        tally.convicted += spent.is_convicted
        tally.lies_by_kind[what] += 1
        tally.lies_by_place[lie.place(graph)] += 1
        tally.pairs = max(tally.pairs, spent.pairs)
        end = spent.end
        if end.name == "judge":
            tally.judged.append(end.evidence)
            tally.second = max(tally.second, (end.gas - end.settlement, end.settlement))
            _most(tally.judge_of, what, end.evidence)
        tally.silent += end.name == "expire"
        _most(tally.gas_of, what, spent.total)
        for each in spent.calls:
            _most(tally.calls, each.name, each.gas)
        if tally.worst is None or spent.total > tally.worst.total:
            tally.worst = spent

    def wander(self, step: int) -> None:
        """One hostile exploration of honest work."""
        trees = self.honest[Kind.TRAINING]
        manifest = self.case.manifest
        about = self.about(Kind.TRAINING, trees, result_of(trees, manifest.inner_steps, manifest.segment_steps))
        hostile = Wanderer(trees, about, step, self.rng, self.tally.attempts)
        self.tally.honest_convictions += hostile.explore(ExploredClaim(self.court), self.answerer(about, trees))
        self.tally.hostile += 1
        self.court.reset()


def _most(most: dict[str, int], name: str, value: int) -> None:
    most[name] = max(most.get(name, 0), value)


def _dispute_first(court: ExplorationChain, folder: Path) -> None:
    """Convict a lie and keep that on chain, so that no measured dispute is this asker's first."""
    trial = ProgramDisputes(court, PROGRAMS["mlp"], folder, random.Random(0))
    trial.dispute(Lie("update", 0, entry=0), is_undone=False)


def measure(names: Sequence[str], *, lies: int, hostile: int, seed: int, each: int = EACH) -> dict[str, Any]:
    """The first program's figures at the top level, all programs' under `programs`. lies: about the first."""
    covered: Counter[str] = Counter()
    tallies: dict[str, Tally] = {}
    with (
        tempfile.TemporaryDirectory(prefix="zoo-dispute-") as name,
        Devnet(Path(name) / "chain", preset="production", block_time=BLOCK_S) as devnet,
    ):
        court = ExplorationChain(devnet, Path(name))
        _dispute_first(court, Path(name) / "first")
        for number, program in enumerate(PROGRAMS[each] for each in names):
            rng = random.Random(f"{seed} {program.name}")
            trial = ProgramDisputes(court, program, Path(name) / str(number), rng)
            lacking = frozenset(op for op in TABLE if covered[op] < each)
            planned = lies_of(
                {kind: trees.computation.graph for kind, trees in trial.honest.items()},
                Plan(
                    program.steps,
                    each,
                    states=each if program.has_data else 0,
                    total=0 if number else lies,
                    operators=None if program.has_data else lacking,
                    has_data=program.has_data,
                ),
                rng,
            )
            if not planned:
                continue
            tallies[program.name] = trial.tally
            try:
                trial.run(planned, hostile if program.has_data else 0, partial(_progress, program.name, len(planned)))
            except KeyboardInterrupt:
                print("\ninterrupted: the figures so far", file=sys.stderr)
                break
            finally:
                covered += trial.tally.lies_by_kind
    return _report(tallies, covered, each)


def _report(tallies: dict[str, Tally], covered: Counter[str], each: int) -> dict[str, Any]:
    programs = {name: tally.report() for name, tally in tallies.items()}
    every = tallies.values()
    places = sum((tally.lies_by_place for tally in every), Counter[str]())
    first = next(iter(programs.values()))
    return first | {
        **delays(first["pairs"], max(first["gas_max_by_call"].values())),
        "lies": sum(tally.lies for tally in every),
        "convicted": sum(tally.convicted for tally in every),
        "lies_by_place": dict(sorted(places.items())),
        "hostile": sum(tally.hostile for tally in every),
        "honest_convictions": sum(tally.honest_convictions for tally in every),
        "operators_covered": sum(covered[op] >= each for op in TABLE),
        "operators": len(TABLE),
        "estimate_7b": {"pairs": pairs_of(seven_billion())},
        "parameters": {
            "gas": "receipts of every call of every dispute, on anvil",
            "preset": "production",
            "token": "ZEN",
        },
        "programs": programs,
    }


def _progress(name: str, lies: int, tally: Tally) -> None:
    if tally.lies % 50 == 0 or tally.lies == lies:
        counts = f"{tally.lies:,} of {lies:,} lies, {tally.convicted:,} convicted"
        print(f"\r{name}: {counts}, {tally.hostile} hostile explorations   ", end="", file=sys.stderr, flush=True)
        if tally.lies == lies and tally.hostile == 0:
            print(file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--lies", type=int, default=LIES, help="at least so many about the first program")
    parser.add_argument("--each", type=int, default=EACH, help="lies about each operator, and of each other kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", default=",".join(PROGRAMS), help=f"some of {', '.join(PROGRAMS)}")
    arguments = parser.parse_args()
    names = arguments.programs.split(",")
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program {unknown[0]!r}: choose of {', '.join(PROGRAMS)}")
    try:
        figures = measure(names, lies=arguments.lies, hostile=HOSTILE, seed=arguments.seed, each=arguments.each)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    if arguments.json:
        print(json.dumps(figures))
        return 0
    for name, report in figures["programs"].items():
        print(f"{name:20}", *(f"{key} {report[key]:,}" for key in PRINTED), sep="  ")
    print({key: value for key, value in figures.items() if not isinstance(value, dict) and key not in PRINTED})
    return 0


if __name__ == "__main__":
    sys.exit(main())
