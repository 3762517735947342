"""The long campaign: random walks of ever new seeds, after the directed sequences, until enough calls were made.

    python -m tests.campaigns.random_walks --calls 100000 --processes 2
    python -m tests.campaigns.random_walks --replay 4711                # one walk again

Every call is made on contracts and specification alike and compared; none is discarded. It fails where they disagree,
where an invariant breaks, and where a state, a transition, a function or a refusal of docs/protocol/ was never reached.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from tests.stateful.machine import WalkFailed, walk_from
from tests.support.lockstep.contract_mirror import fresh_mirror
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.catalogue import SCENARIOS
from zoo_compute.spec.params import PRESETS

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "campaign.json"
STEPS = 120  # of a walk
TELL_EVERY = 5_000  # calls


@dataclass
class Part:
    """What a scenario or a walk did: what was reached, and the calls that the contracts got."""

    coverage: Coverage
    made: int


def play_scenario(name: str) -> Part:
    preset, coverage = "production" if "production" in name else "devnet", Coverage()
    with fresh_mirror(preset) as mirror:
        stage = Stage(coverage, mirror, preset=PRESETS[preset])
        SCENARIOS[name](stage)
        mirror.compare(stage.world)
        return Part(coverage, mirror.calls)


def play_walk(seed: int) -> Part:
    coverage = Coverage()
    return Part(coverage, walk_from(seed, STEPS, coverage))


@dataclass
class Campaign:
    """Parts are added as they end; `calls` is what is wanted."""

    calls: int
    processes: int
    first_seed: int
    total: Coverage = field(default_factory=Coverage)
    made: int = 0
    walks: int = 0
    began: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        with ProcessPoolExecutor(self.processes) as pool:
            try:
                self._drive(pool)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _drive(self, pool: ProcessPoolExecutor) -> None:
        waiting: set[Future[Part]] = {pool.submit(play_scenario, name) for name in SCENARIOS}
        seed = self.first_seed
        while waiting:
            while self.made < self.calls and len(waiting) < 2 * self.processes:
                waiting.add(pool.submit(play_walk, seed))
                seed, self.walks = seed + 1, self.walks + 1
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                self._add(future.result())

    def _add(self, part: Part) -> None:
        batch = self.made // TELL_EVERY
        self.total.update(part.coverage)
        self.made += part.made
        if self.made // TELL_EVERY > batch:
            print(f"{self.made} calls, {self.seconds:.0f} s: {self.total.summary()}", file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def result(self) -> dict[str, object]:
        accepted, refused = self.total.accepts.total(), self.total.reasons.total()
        reached = {what: [len(met & listed), len(listed)] for what, (met, listed) in self.total.reached().items()}
        return {
            "calls": {"accepted": accepted, "refused": refused, "discarded": self.made - accepted - refused},
            "reached": reached,
            "scenarios": len(SCENARIOS),
            "walks": self.walks,
            "steps_a_walk": STEPS,
            "seeds": [self.first_seed, self.first_seed + self.walks - 1],
            "processes": self.processes,
            "seconds": round(self.seconds),
            "calls_a_second": round(self.made / self.seconds, 1),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1_000, help="of the first walk; the next ones count on")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--replay", type=int, metavar="SEED", help="take this walk alone")
    options = parser.parse_args()
    if options.replay is not None:
        print(play_walk(options.replay).coverage.summary())
        return 0
    campaign = Campaign(options.calls, options.processes, options.seed)
    try:
        campaign.run()
    except WalkFailed as failure:
        print(f"{failure}\nafter {campaign.made} calls", file=sys.stderr)
        return 1
    text = json.dumps(campaign.result(), indent=2) + "\n"
    options.out.write_text(text, encoding="utf-8")
    print(text, end="")
    gaps = {"never reached": campaign.total.missing(), "not in docs/protocol/": campaign.total.unlisted()}
    for what, names in gaps.items():
        if names:
            print(f"{what}: {names}", file=sys.stderr)
    return 1 if any(gaps.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
