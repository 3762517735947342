"""What do hostile slots cost? Rules of aggregation against attacks, by the protocol's own slot-rounds and aggregation.

F of S slots are hostile and know all honest updates and the rule. Shards are i.i.d., as the manifest deals them. Two jobs: an
MLP on scikit-learn's digits (points of accuracy), and a small GPT on the source of Python's standard library (held-out loss).
The gap of a rule is that of its worst attack to the clean job, in which all S slots are honest and the rule is the mean; the
worst seed's is printed beside the mean over seeds. `byzfl NAME` are byzfl's rules on the same kind of run; `times` compares the
time each rule takes on rows in memory. The headline keys are those of the rule --recommended.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers import byzfl_rules
from benchmarks.training import rule_times
from benchmarks.training.attacks import ATTACKS, Rule, Scene
from node.compute.aggregation import aggregate
from node.compute.programs import Programs, State
from node.compute.training import heldout_loss
from node.hardware import use_threads
from node.inputs.job_files import fetch_job
from repops.backend import Runner
from repops.commitments import Array
from zoo_compute.formats.aggregation import Aggregation, AggregationSpec
from zoo_compute.formats.manifest import Manifest
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.files import initial_checkpoint, publish_files
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import Dataset, Examples, batch_of, prepare_arrays, prepare_text
from zoo_compute.training.parts import Part

ROOT = Path(__file__).resolve().parents[2]

SLOTS, HOSTILE = 17, 4
RECOMMENDED = "trimmed_mean+nearest"
RULES = (
    "mean", "clipped_mean", "median", "trimmed_mean", "krum", "geometric_median", "centred_clipping", "centred_clipping+buckets",
    "median+nearest", "trimmed_mean+nearest", "geometric_median+nearest",
)  # fmt: skip
GPT_RULES = ("mean", "median", "trimmed_mean+nearest")
PEERS = ("median", "trimmed_mean", "trimmed_mean+nearest")  # on digits: searching against them on the GPT takes minutes


class CachedPrograms(Programs):
    """Programs whose parts of an aggregation stay ready from round to round; of a model this small they can."""

    @lru_cache  # noqa: B019
    def aggregation(self, part: Part, aggregation_spec: AggregationSpec) -> Runner:
        return super().aggregation(part, aggregation_spec)

    @lru_cache  # noqa: B019
    def products(self, part: Part, aggregation_spec: AggregationSpec) -> Runner:
        return super().products(part, aggregation_spec)

    @lru_cache  # noqa: B019
    def row_weights(self, aggregation_spec: AggregationSpec) -> Runner:
        return super().row_weights(aggregation_spec)


@dataclass
class Lab:
    """A loaded job. score: of a checkpoint; lower is better."""

    manifest: Manifest
    programs: CachedPrograms
    tensors: State
    data: Dataset
    accuracy: bool
    batches: dict[tuple[int, int], list[Examples]] = field(default_factory=dict)  # of a round and slot: all runs' alike
    first: dict[int, State] = field(default_factory=dict)  # round 0 starts alike under every rule

    def score(self, checkpoint: State) -> float:
        if not self.finite(checkpoint):
            return 100.0 if self.accuracy else float(np.log(256))  # of a guess at a byte
        if not self.accuracy:
            return heldout_loss(self.manifest, self.programs, checkpoint, self.data.heldout)
        hidden = np.maximum(self.data.heldout["inputs"] @ checkpoint["0.weight"].T + checkpoint["0.bias"], 0)
        predicted = (hidden @ checkpoint["2.weight"].T + checkpoint["2.bias"]).argmax(1)
        return 100 * float((predicted != self.data.heldout["targets"]).mean())

    def finite(self, checkpoint: State) -> bool:
        return all(np.isfinite(checkpoint[name]).all() for name in self.programs.graph.exchanged)

    def batches_of(self, round_: int, slot: int) -> list[Examples]:
        if (round_, slot) not in self.batches:
            of, data = self.manifest, self.data.examples
            steps = [of.examples_for(round_, slot, step) for step in range(of.inner_steps)]
            self.batches[round_, slot] = [batch_of(data, index, of.accumulate) for index in steps]
        return self.batches[round_, slot]

    def trained(self, checkpoint: State, round_: int, slot: int) -> State:
        """A slot-round as `node.compute.training.train_shard` runs it, without its roots, which take longer than such small steps."""
        if round_ == 0 and slot in self.first:
            return self.first[slot]
        manifest, programs = self.manifest, self.programs
        state = programs.begin(checkpoint)  # the modules here draw nothing
        for batch in self.batches_of(round_, slot):
            programs.advance(batch)
        update = programs.update(manifest.compression, checkpoint, state)
        if round_ == 0:
            self.first[slot] = update
        return update

    @cached_property
    def values(self) -> int:
        return sum(self.tensors[name].size for name in self.programs.graph.exchanged)

    def flat(self, update: State) -> Array:
        return np.concatenate([update[name].reshape(-1) for name in self.programs.graph.exchanged])

    def shaped(self, row: Array) -> State:
        names = self.programs.graph.exchanged
        ends = np.cumsum([self.tensors[name].size for name in names])[:-1]
        return {n: part.reshape(self.tensors[n].shape) for n, part in zip(names, np.split(row, ends), strict=True)}

    def run(
        self,
        rule: Aggregation,
        attack: Callable[[Scene], Array] | None,
        seed: int,
        joined: Rule,
        peer: bool = False,
    ) -> float:
        """The last checkpoint's score. joined: the rule on rows in memory; a peer's rule makes the checkpoints too."""
        manifest = replace(self.manifest, aggregation=rule)
        checkpoint = initial_checkpoint(self.programs.graph, self.tensors, manifest.aggregation_spec)
        rng = np.random.default_rng(seed)
        hostile = sorted(rng.choice(manifest.slots, HOSTILE, replace=False)) if attack else []
        honest = [slot for slot in range(manifest.slots) if slot not in hostile]
        for round_ in range(manifest.rounds):
            if attack and round_ == 0:
                earlier = np.stack([self.flat(self.trained(checkpoint, 0, slot)) for slot in hostile])
            updates = {slot: self.trained(checkpoint, round_, slot) for slot in honest}
            if attack:
                rows = np.stack([self.flat(updates[slot]) for slot in honest])
                sent = attack(Scene(rows, earlier, joined, rng))
                updates |= {slot: self.shaped(row) for slot, row in zip(hostile, sent, strict=True)}
            if peer:
                row = joined(np.stack([self.flat(updates[slot]) for slot in sorted(updates)]))
                updates = {0: self.shaped(row.astype(np.float32))}
            checkpoint = aggregate(manifest, self.programs, checkpoint, updates)
            if not self.finite(checkpoint):
                break
        return self.score(checkpoint)


def classifier(seed: int) -> tuple[torch.nn.Module, Any, Any]:
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    return module, torch.nn.functional.cross_entropy, torch.optim.AdamW(module.parameters(), lr=3e-3)


def digits(seed: int, rounds: int, inner_steps: int) -> Lab:
    from sklearn.datasets import load_digits

    dataset = load_digits()
    arrays = {"inputs": (dataset.data / 16).astype(np.float32), "targets": dataset.target.astype(np.int32)}
    training = {"batch_size": 32, "inner_steps": inner_steps, "rounds": rounds, "slots": SLOTS, "seed": seed}
    job = ComputeJob(
        {"module": "benchmarks.training.byzantine:classifier", "seed": seed}, {"arrays": arrays}, training, "1"
    )
    return laboratory(job, prepare_arrays(arrays, seed, wanted=job.examples_wanted, heldout=360), accuracy=True)


def gpt(seed: int, rounds: int, inner_steps: int) -> Lab:
    model = {"layers": 2, "heads": 2, "width": 64, "context": 32}
    training = {
        "batch_size": 4, "inner_steps": inner_steps, "rounds": rounds, "slots": SLOTS, "seed": seed, "learning_rate": 3e-3,
    }  # fmt: skip
    job = ComputeJob(model, {}, training, "1")
    text = Path(sysconfig.get_path("stdlib"))
    data = prepare_text(text, 32, seed, wanted=job.examples_wanted, minimum=job.examples_per_round, heldout=256)
    return laboratory(job, data, accuracy=False)


def laboratory(job: ComputeJob, data: Dataset, *, accuracy: bool) -> Lab:
    with tempfile.TemporaryDirectory() as folder:
        store = BlockStore(Path(folder))
        manifest = publish_files(job, data, store)
        files = fetch_job(store, manifest)
    programs = CachedPrograms(files.programs.graph)
    tensors = {name: files.checkpoint[name] for name in programs.names}
    return Lab(manifest, programs, tensors, data, accuracy)


def table_of(
    made: Callable[[int], Lab],
    rules: tuple[str, ...],
    seeds: range,
    byzfl: Any | None,
    peers: tuple[str, ...],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Gaps to the clean job by rule and attack, one a seed; points of accuracy, or parts of the loss."""
    attacks = ATTACKS | (byzfl_rules.attacks(byzfl, HOSTILE) if byzfl else {})
    names = [*rules, *(f"byzfl {name}" for name in peers if byzfl and name in rules)]
    gaps: dict[str, dict[str, list[float]]] = {name: {attack: [] for attack in ["none", *attacks]} for name in names}
    clean = []
    for seed in seeds:
        lab = made(seed)
        plain = rule_times.rule_of(Aggregation(), SLOTS, lab.values)
        clean.append(lab.run(Aggregation(), None, seed, plain))
        for name in names:
            peer, own = name.startswith("byzfl "), name.removeprefix("byzfl ")
            rule = rule_times.named(own, HOSTILE)
            if peer:
                joined = byzfl_rules.on_arrays(byzfl_rules.rules(byzfl, HOSTILE)[own])
            else:
                joined = rule_times.rule_of(rule, SLOTS, lab.values)
            for attack, rows in {"none": None, **attacks}.items():
                score = lab.run(Aggregation() if peer else rule, rows, seed, joined, peer)
                gaps[name][attack].append(score - clean[-1] if lab.accuracy else score / clean[-1] - 1)
            say(f"seed {seed}, {name}: " + ", ".join(f"{a} {g[-1]:.3g}" for a, g in gaps[name].items()))
    worst = {n: [max(by[a][s] for a in attacks) for s in range(len(seeds))] for n, by in gaps.items()}
    return {
        "values": lab.values, "rounds": lab.manifest.rounds, "inner_steps": lab.manifest.inner_steps, "clean": clean, "gaps": gaps,
        "worst": {n: {"mean": float(np.mean(by)), "worst_seed": max(by)} for n, by in worst.items()},
    }  # fmt: skip


def as_text(result: dict[str, Any]) -> str:
    lines = [f"{result['hostile']} of {result['slots']} hostile, seeds {result['seeds']}, {result['threads']} threads"]
    for job, unit in (("digits", "points of accuracy"), ("gpt", "of the loss")):
        lines += [
            "",
            f"{job}: gap of the worst attack to clean {result[job]['clean']}, {unit} (mean of seeds, worst seed, attack)",
        ]
        for name, worst in result[job]["worst"].items():
            by = result[job]["gaps"][name]
            attack = max((a for a in by if a != "none"), key=lambda a: float(np.mean(by[a])))
            lines.append(
                f"  {name:34}{worst['mean']:9.3f}{worst['worst_seed']:9.3f}  {attack}; unattacked {np.mean(by['none']):.3f}"
            )
    lines += ["", f"seconds for {result['slots']} x {result['values']:,} values"]
    for name, took in result["times"].items():
        lines.append(f"  {name:34}" + "".join(f"{key} {value:.3f}  " for key, value in took.items()))
    lines += [
        "",
        f"recommended: {result['recommended']}",
        f"digits_gap_points {result['digits_gap_points']:.3f}, gpt_loss_gap {result['gpt_loss_gap']:.4f}",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Rules of aggregation against attacks")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help="choices were made on 100 and above")
    parser.add_argument("--digits-rounds", type=int, default=40)
    parser.add_argument("--digits-steps", type=int, default=20, help="inner steps of a slot-round")
    parser.add_argument("--gpt-rounds", type=int, default=10)
    parser.add_argument("--gpt-steps", type=int, default=10, help="inner steps of a slot-round")
    parser.add_argument("--values", type=int, default=10**6, help="of an update, for the times")
    parser.add_argument("--recommended", default=RECOMMENDED, choices=RULES)
    parser.add_argument(
        "--rules", nargs="+", default=list(RULES), choices=RULES, help="these alone, beside the recommended"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    began = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    warnings.simplefilter("ignore")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    byzfl, threads = byzfl_rules.load(), torch.get_num_threads()
    rules = tuple(name for name in RULES if name in ("mean", options.recommended, *options.rules))
    took = rule_times.times(list(rules), SLOTS, options.values, HOSTILE, byzfl)
    say(f"times { ({n: {k: round(v, 3) for k, v in t.items()} for n, t in took.items()}) }")
    use_threads(1)  # the laboratories' modules are too small for more
    by_digits = table_of(
        lambda seed: digits(seed, options.digits_rounds, options.digits_steps), rules, seeds, byzfl, PEERS, say
    )
    of_gpt = tuple(name for name in rules if name in (*GPT_RULES, options.recommended))
    by_gpt = table_of(lambda seed: gpt(seed, options.gpt_rounds, options.gpt_steps), of_gpt, seeds, byzfl, (), say)
    result = {
        "slots": SLOTS, "hostile": HOSTILE, "seeds": list(seeds), "threads": threads, "values": options.values,
        "recommended": options.recommended, "digits": by_digits, "gpt": by_gpt, "times": took,
        "digits_gap_points": by_digits["worst"][options.recommended]["mean"],
        "gpt_loss_gap": by_gpt["worst"][options.recommended]["mean"],
        "digits_gap_points_of_mean": by_digits["worst"]["mean"]["mean"], "gpt_loss_gap_of_mean": by_gpt["worst"]["mean"]["mean"],
        "benchmark_s": time.perf_counter() - began,
    }  # fmt: skip
    print(json.dumps(result) if options.json else as_text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
