"""Does training over the network lose anything? Held-out loss of R rounds of S slots beside one machine's AdamW on the same tokens.

Both begin with the same weights: the module's first ones, or (--pretrained N) those that one machine has after N steps.

  network   the job's rounds by the protocol's own programs (node.replay): S slots of H steps of batch B, then the aggregation;
            one row for each kind of update in NETWORKS
  central   AdamW on one machine: R x H steps of batch S x B, the same module, weights and examples in the same order, the same warm-up (once, since private state is carried through all rounds); its learning rate is the best
            of --rates for each seed by the very loss that is published, which favours it

The network's settings were chosen on seeds from 100 on and are published on 0, 1, 2.
Held-out loss is of real text: Python's standard library, as bytes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from node import syncer
from node.device import use_threads
from node.programs import Programs, State
from node.replay import simulate
from node.training import heldout_loss
from zoo_compute.data import Dataset, batch_of, prepare_text
from zoo_compute.job import ComputeJob, Manifest
from zoo_compute.publish import publish_files
from zoo_compute.rounds import tokens_of
from zoo_compute.store import BlockStore

MODEL = {"layers": 2, "heads": 4, "width": 32, "context": 32, "tied": False}
TRAINING = {"batch_size": 8, "inner_steps": 30, "slots": 4, "warmup_steps": 60}
HELDOUT = 512  # examples
ROUNDS = 120
TEXT = (Path(sysconfig.get_path("stdlib")),)
RATES = (0.003, 0.006, 0.012)  # of the central run
DECLARED = "sparse"  # the kind of NETWORKS that `loss_gap` is of
# What each kind of update is trained with: inner learning rate, outer learning rate and momentum.
NETWORKS: dict[str, dict[str, Any]] = {
    "dense": {"rate": 0.006, "outer": (0.7, 0.6), "compression": None, "rule": "mean"},
    "int8": {"rate": 0.006, "outer": (0.7, 0.6), "compression": {"bits": 8}, "rule": "mean"},
    "sparse": {
        "rate": 0.006,
        "outer": (1.0, 0.0),
        "compression": {"keep": 64, "bits": 2, "decay": 0.8},
        "rule": "sent_mean",
    },
}


def job_of(seed: int, rounds: int, kind: Mapping[str, Any]) -> ComputeJob:
    rate, momentum = kind["outer"]
    training = TRAINING | {
        "rounds": rounds,
        "carry_rounds": min(rounds, 1024),
        "learning_rate": kind["rate"],
        "outer_learning_rate": rate,
        "outer_momentum": momentum,
        "seed": seed,
    }
    return ComputeJob(
        MODEL,
        {"heldout": HELDOUT},
        training,
        "1000000",
        aggregation_config={"rule": kind["rule"]},
        compression_config=kind["compression"],
    )


def data_of(job: ComputeJob, text: Sequence[Path]) -> Dataset:
    return prepare_text(
        text, job.context, job.training.seed, wanted=job.examples_wanted, minimum=job.examples_of_a_round, heldout=HELDOUT
    )  # fmt: skip


def published(job: ComputeJob, data: Dataset) -> tuple[Manifest, syncer.JobFiles]:
    with tempfile.TemporaryDirectory() as folder:
        store = BlockStore(Path(folder))
        manifest = publish_files(job, data, store)
        return manifest, syncer.fetch_job(store, manifest)


def pretrained(job: ComputeJob, data: Dataset, steps: int) -> State:
    """The module's tensors after so many steps of one machine, on batches drawn from the job's own examples."""
    assert job.traced.initial is not None
    programs, draw = Programs(job.traced.graph), np.random.default_rng(job.training.seed)
    state = programs.begin(job.traced.initial)
    count = len(next(iter(data.examples.values())))
    for _ in range(steps):
        programs.advance(batch_of(data.examples, draw.integers(0, count, job.training.batch_size)))
    return {name: state[name].copy() for name in programs.names}


def network(job: ComputeJob, data: Dataset, weights: State) -> list[float]:
    """Held-out loss of every checkpoint, the first one's first."""
    manifest, files = published(job, data)
    masks = [(1 << manifest.slots) - 1] * manifest.rounds
    begun = files.checkpoint | weights
    return simulate(manifest, files.programs, begun, files.examples, files.heldout, masks).losses


def central(job: ComputeJob, data: Dataset, weights: State, rate: float) -> float:
    """Held-out loss of AdamW at this learning rate on what all slots see, a step of theirs at a time."""
    manifest, files = published(job, data)
    whole = {"slots": 1, "batch_size": manifest.slots * manifest.batch_size, "learning_rate": rate}
    alone = dataclasses.replace(
        job, training_config=job.training_config | whole, aggregation_config=None, compression_config=None
    )
    programs = Programs(alone.traced.graph)
    state = programs.begin(files.checkpoint | weights)
    for round_ in range(manifest.rounds):
        for step in range(manifest.inner_steps):
            seen = [manifest.examples_for(round_, slot, step) for slot in range(manifest.slots)]
            programs.advance(batch_of(files.examples, np.concatenate(seen)))
    trained = {name: state[name].copy() for name in programs.names}
    return heldout_loss(manifest, files.programs, trained, files.heldout)


def seeded(
    seed: int, rounds: int, kinds: Sequence[str], rates: Sequence[float], steps: int, text: Sequence[Path]
) -> dict[str, Any]:
    """What one seed gave: the central run's losses by rate, its best, and of each kind its losses and its gap to the best."""
    first = job_of(seed, rounds, NETWORKS[kinds[0]])
    data = data_of(first, text)
    weights = pretrained(first, data, steps)
    losses = {str(rate): central(first, data, weights, rate) for rate in rates}
    best = min(losses.values())
    print(f"seed {seed} central: {losses}", file=sys.stderr, flush=True)
    found: dict[str, Any] = {"central": best, "central_by_rate": losses, "networks": {}}
    for kind in kinds:
        began = time.process_time()
        curve = network(job_of(seed, rounds, NETWORKS[kind]), data, weights)
        gap = curve[-1] / best - 1
        found["networks"][kind] = {
            "loss": curve[-1],
            "loss_gap": gap,
            "losses": curve[:: max(1, rounds // 10)],
            "cpu_s": time.process_time() - began,
        }
        print(f"seed {seed} {kind}: {curve[-1]:.4f}, gap {100 * gap:+.2f} %", file=sys.stderr, flush=True)
    return found


def loss_gap(
    seeds: int = 3,
    *,
    rounds: int = ROUNDS,
    kinds: Sequence[str] = tuple(NETWORKS),
    rates: Sequence[float] = RATES,
    first: int = 0,
    pretrained_steps: int = 0,
    text: Sequence[Path] = TEXT,
) -> dict[str, Any]:
    """The table of `seeds` seeds from `first` on. loss_gap: mean of the kind in DECLARED, relative to the best central run."""
    found = {seed: seeded(seed, rounds, kinds, rates, pretrained_steps, text) for seed in range(first, first + seeds)}
    table = {}
    for kind in kinds:
        gaps = [each["networks"][kind]["loss_gap"] for each in found.values()]
        loss = float(np.mean([each["networks"][kind]["loss"] for each in found.values()]))
        table[kind] = {"loss": loss, "loss_gap": float(np.mean(gaps)), "loss_gap_worst": max(gaps)}
    job = job_of(first, rounds, NETWORKS[kinds[0]])
    step = tokens_of(job.traced.graph, job.training.batch_size)
    return {
        "loss_gap": table[DECLARED]["loss_gap"] if DECLARED in table else None,
        "loss_gap_worst": table[DECLARED]["loss_gap_worst"] if DECLARED in table else None,
        "declared": DECLARED,
        "central": float(np.mean([each["central"] for each in found.values()])),
        "networks": table,
        "seeds": {str(seed): each for seed, each in found.items()},
        "settings": {kind: NETWORKS[kind] for kind in kinds},
        "model": MODEL,
        "training": TRAINING,
        "rounds": rounds,
        "pretrained_steps": pretrained_steps,
        "rates": list(rates),
        "tokens": rounds * job.training.slots * job.training.inner_steps * step,
        "parameters_of_the_model": job.profile.parameters,
    }


def shown(result: Mapping[str, Any]) -> str:
    lines = [f"{'run':<8} {'held-out loss':>13} {'gap':>8} {'worst':>8}", f"{'central':<8} {result['central']:>13.4f}"]
    for kind, row in result["networks"].items():
        gaps = f"{100 * row['loss_gap']:>7.2f}% {100 * row['loss_gap_worst']:>7.2f}%"
        lines.append(f"{kind:<8} {row['loss']:>13.4f} {gaps}")
    kept = (
        "settings",
        "model",
        "training",
        "rounds",
        "pretrained_steps",
        "rates",
        "tokens",
        "parameters_of_the_model",
        "declared",
    )
    return "\n".join([*lines, *(f"{key}: {json.dumps(result[key])}" for key in kept)])


def main() -> int:
    parser = argparse.ArgumentParser(description="Held-out loss of the network beside AdamW on one machine")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--pretrained", type=int, default=0, help="steps of one machine before the first round")
    parser.add_argument("--kinds", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument(
        "--rates", type=float, nargs="*", default=list(RATES), help="of the central run; the best counts"
    )
    parser.add_argument("--data", type=Path, nargs="*", default=list(TEXT))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    use_threads(1)
    result = loss_gap(
        given.seeds,
        rounds=given.rounds,
        kinds=given.kinds,
        rates=given.rates,
        first=given.first,
        pretrained_steps=given.pretrained,
        text=given.data,
    )
    print(json.dumps(result) if given.json else shown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
