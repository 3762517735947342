"""What does a dispute cost? Lies about real programs, each played to its conviction by the contracts on anvil.

    python benchmarks/dispute.py [--json] [--lies N] [--seed S] [--programs gpt,llama,...]

`gpt` is the demo's model with 500 inner steps; its figures are at the top level. Every lie is one false word of one honest
computation, at a step, in a state, a node, an element, a part, a shape or the update (lies_by_place). The players of
`node.disputes` choose both sides' moves. The specification and a local judge check them; then each goes to the deployed
contracts in one transaction. Gas is read from the receipts, calldata included. gas_total: both sides of the costliest game,
from `challenge` to `convict`. gas_committer, gas_challenger and gas_settlement (the share of `open_dispute` and
`close_dispute`, conviction included) are of the same game. gas_judge: `Evidence.judge` as a transaction of its own. The
challenger has played one game about another job before, so only storage of this game and its job is written for the first
time. A hostile challenger walks anywhere in honest work and sends true openings at every place to the deployed `Evidence`.
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

from benchmarks.disputes.game_chain import GameChain, GasUsed
from benchmarks.disputes.lies import (
    BEGIN,
    CachedAggregation,
    CachedComputation,
    Lie,
    LyingComputation,
    Nearby,
    Plan,
    lies_of,
    result_of,
)
from benchmarks.disputes.programs import PROGRAMS, Program, seven_billion, slot_round
from node.disputes.challenger import Challenger
from node.disputes.defender import Defender
from node.disputes.moves import Move
from node.disputes.previous_turn import SeatClaim
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from repops.commitments import state_root, state_root_of
from repops.operators import TABLE
from tests.support.games.evidence_oracle import EvidenceOracle, JobFacts
from tests.support.games.game_board import GameBoard, GameRecord, play
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.frames import Frame, Game, Kind, Position, Result
from zoo_compute.spec.referee import opened_game
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim

EACH = 20  # lies about each operator, and of each other kind
LIES = 2_000  # about the first program
BLOCK_S = 1_000_000  # between empty blocks, so that one block has a whole game
HOSTILE = 60  # challenges of honest work, a program
PRINTED = ("move_pairs", "gas_committer", "gas_challenger", "gas_total", "gas_judge_max", "gas_judge_median", "wall_s")


@dataclass
class Tally:
    """The results of the games about one program."""

    lies: int = 0
    convicted: int = 0
    pairs: int = 0
    worst: GasUsed | None = None
    judged: list[int] = field(default_factory=list)
    gas_of: dict[str, int] = field(default_factory=dict)  # by what a lie is about, the most in all
    judge_of: dict[str, int] = field(default_factory=dict)  # by operator
    lies_by_kind: Counter[str] = field(default_factory=Counter)
    lies_by_place: Counter[str] = field(default_factory=Counter)  # by what kind of committed number is false
    moves: dict[str, int] = field(default_factory=dict)
    hostile: int = 0
    attempts: Counter[int] = field(default_factory=Counter)
    honest_convictions: int = 0
    began: float = field(default_factory=time.monotonic)
    wall_s: float = 0

    def report(self) -> dict[str, Any]:
        assert self.worst is not None, "no game was played"
        return {
            "move_pairs": self.pairs,
            "gas_committer": self.worst.committer,
            "gas_challenger": self.worst.challenger,
            "gas_total": self.worst.total,
            "gas_settlement": self.worst.settlement,
            "gas_judge_max": max(self.judged),
            "gas_judge_median": round(median(self.judged)),
            "gas_total_by_lie": dict(sorted(self.gas_of.items())),
            "gas_judge_max_by_operator": dict(sorted(self.judge_of.items())),
            "gas_max_by_move": dict(sorted(self.moves.items())),
            "lies_told": self.lies,
            "lies_convicted": self.convicted,
            "lies_by_kind": dict(sorted(self.lies_by_kind.items())),
            "lies_by_place": dict(sorted(self.lies_by_place.items())),
            "hostile_challenges": self.hostile,
            "hostile_evidence": dict(sorted(self.attempts.items())),
            "honest_convictions": self.honest_convictions,
            "wall_s": round(self.wall_s, 1),
        }


class ProgramGames:
    """All games about one program."""

    def __init__(self, court: GameChain, program: Program, folder: Path, rng: random.Random) -> None:
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

    def _judge(self, kind: Kind) -> Any:
        if kind != Kind.AGGREGATION:
            return self.case.judge
        manifest = self.case.manifest
        data = bytes.fromhex(manifest.data.root), manifest.data.examples
        return EvidenceOracle(JobFacts(*data, manifest.slots, manifest.draw_seed, [self.seated.claim]))

    def run(self, lies: Sequence[Lie], hostile: int, said: Callable[[Tally], None]) -> None:
        """Order lies by step and node, so that cached values of a step are used while they are cached."""
        for lie in sorted(lies, key=lambda each: (each.kind, each.step, each.node, each.element)):
            self.play(lie)
            said(self.tally)
        steps = sorted({lie.step for lie in lies if lie.step != BEGIN})
        for step in steps if hostile else ():
            for _ in range(-(-hostile // len(steps))):
                self.challenge_honest(step)
            said(self.tally)

    def play(self, lie: Lie, *, is_undone: bool = True) -> None:
        """Play a game from the claim to the conviction, on the specification and then on chain."""
        mine = self.honest[lie.kind]
        theirs = mine if lie.what == "end" else Trees(LyingComputation(mine.computation, lie))
        result = self.result(lie, theirs)
        claim, game = self.opened_game(lie.kind, result, theirs)
        on_paper = self._judge(lie.kind)
        convictions: list[tuple[Move, Position]] = []

        def judge(number: int, frame: Frame, position: Position, data: bytes) -> None:
            on_paper(number, frame, position, data)
            convictions.append((Move("convict", (claim, frame, number, data)), position))

        played = play(GameBoard(game), Defender(theirs), Challenger(mine), judge)
        self.tally.lies += 1
        if played.is_convicted:
            silence = Move("time_out", (claim, played.game.frame)), None
            end, position = convictions[0] if convictions else silence
            args = (self.case.work, result, [*played.moves, end], position)
            least = self.tally.worst.total if self.tally.worst else 0
            over = self.seated.claim if lie.kind == Kind.AGGREGATION else None
            self.note(lie, played, self.court.play(claim, lie.kind, *args, over=over, traced_above=least))
            if is_undone:
                self.court.reset()

    def opened_game(self, kind: Kind, result: Result, theirs: Trees) -> tuple[Claim, Game]:
        if kind == Kind.AGGREGATION:
            mine = self.honest[kind].computation
            assert isinstance(mine, CachedAggregation)
            mine.claim = claim = self.court.aggregation(state_root_of(theirs.computation.after(0)))
        else:
            claim = self.court.claim(self.case.leaf(self.case.slot, result))
        return claim, opened_game(self.court.job, claim, kind, self.case.slot, self.case.work, result)

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

    def note(self, lie: Lie, played: GameRecord, spent: GasUsed) -> None:
        tally, graph = self.tally, self.honest[lie.kind].computation.graph
        what = graph.nodes[lie.node].op if lie.what == "training" else lie.what
        tally.wall_s = time.monotonic() - tally.began
        tally.convicted += spent.is_convicted
        tally.lies_by_kind[what] += 1
        tally.lies_by_place[lie.place(graph)] += 1
        tally.pairs = max(tally.pairs, played.pairs)
        if spent.judge:
            tally.judged.append(spent.judge)
            _most(tally.judge_of, what, spent.judge)
        _most(tally.gas_of, what, spent.total)
        for name, gas in (("challenge", spent.challenge), *spent.moves):
            _most(tally.moves, name, gas)
        if tally.worst is None or spent.total > tally.worst.total:
            tally.worst = spent

    def challenge_honest(self, step: int) -> None:
        """Play one game about honest work, and send the contracts every evidence that the challenger can make."""
        trees = self.honest[Kind.TRAINING]
        manifest = self.case.manifest
        result = result_of(trees, manifest.inner_steps, manifest.segment_steps)
        _, game = self.opened_game(Kind.TRAINING, result, trees)
        taken = 0

        def judge(*asked: Any) -> None:
            nonlocal taken
            self.court.judge(*asked)
            taken += 1
            raise Refused("it was taken, which is counted")

        played = play(
            GameBoard(game), Defender(trees), Nearby(trees, self.rng, judge, self.tally.attempts, step), judge
        )
        self.tally.hostile += 1
        self.tally.honest_convictions += taken + played.is_convicted


def _most(most: dict[str, int], name: str, value: int) -> None:
    most[name] = max(most.get(name, 0), value)


def _play_first(court: GameChain, folder: Path) -> None:
    """Play a game and keep it on chain, so that no measured game is this challenger's first."""
    trial = ProgramGames(court, PROGRAMS["mlp"], folder, random.Random(0))
    trial.play(Lie("end", 0), is_undone=False)


def measure(names: Sequence[str], *, lies: int, hostile: int, seed: int, each: int = EACH) -> dict[str, Any]:
    """The first program's figures at the top level, all programs' under `programs`. lies: about the first."""
    covered: Counter[str] = Counter()
    tallies: dict[str, Tally] = {}
    with (
        tempfile.TemporaryDirectory(prefix="zoo-dispute-") as name,
        Devnet(Path(name) / "chain", preset="production", block_time=BLOCK_S) as devnet,
    ):
        court = GameChain(devnet, Path(name))
        _play_first(court, Path(name) / "first")
        for number, program in enumerate(PROGRAMS[each] for each in names):
            rng = random.Random(f"{seed} {program.name}")
            trial = ProgramGames(court, program, Path(name) / str(number), rng)
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
    return next(iter(programs.values())) | {
        "lies_told": sum(tally.lies for tally in every),
        "lies_convicted": sum(tally.convicted for tally in every),
        "lies_by_place": dict(sorted(places.items())),
        "hostile_challenges": sum(tally.hostile for tally in every),
        "honest_convictions": sum(tally.honest_convictions for tally in every),
        "operators_covered": sum(covered[op] >= each for op in TABLE),
        "operators": len(TABLE),
        "estimate_7b": {"move_pairs": seven_billion().pairs},
        "parameters": {"gas": "receipts of every move of every game, on anvil", "preset": "production", "token": "ZEN"},
        "programs": programs,
    }


def _progress(name: str, lies: int, tally: Tally) -> None:
    if tally.lies % 50 == 0 or tally.lies == lies:
        counts = f"{tally.lies:,} of {lies:,} lies, {tally.convicted:,} convicted"
        print(f"\r{name}: {counts}, {tally.hostile} hostile challenges   ", end="", file=sys.stderr, flush=True)
        if tally.lies == lies and tally.hostile == 0:
            print(file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--lies", type=int, default=LIES, help="at least so many about the first program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", default=",".join(PROGRAMS), help=f"some of {', '.join(PROGRAMS)}")
    arguments = parser.parse_args()
    names = arguments.programs.split(",")
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program {unknown[0]!r}: choose of {', '.join(PROGRAMS)}")
    try:
        figures = measure(names, lies=arguments.lies, hostile=HOSTILE, seed=arguments.seed)
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
