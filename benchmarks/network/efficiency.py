"""What does training over the network cost, in a node's time (network/utilisation.py) and in the loss (training/loss_gap.py)?

  utilisation           of the real network, four nodes on shaped links
  loss_gap              of held-out loss to AdamW on one machine, the same tokens
  claimed               what the seed documents say, and the best that is published
  cost_of_a_pflop_day   at the protocol's reference prices and the utilisation (benchmarks/network/cost.py)

With RUN or --simulate, one job: held-out loss of R rounds x S slots x H steps against plain AdamW, on the same examples, from the same
weights, held out alike:
  network    the job's rounds, as its workers and aggregator run them
  central    one machine, the network's whole batch at each step: batch S x B, R x H steps
  sequential one machine that has S times as long: batch B, R x S x H steps (a bound no parallel run can reach)

`benchmarks/network/efficiency.py RUN` takes a finished run's folder (report.json, manifest.json and its stores): its final state is compared
with a single-process replay, bit for bit, and utilisation is read from its shard reports. With --simulate the job of --config is
simulated here, and its first round is replayed a second time, every slot of it, which is what `bit_equal_replay` compares.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from benchmarks.network import utilisation
from benchmarks.network.cost import CLAIMED, costs
from benchmarks.training.loss_gap import loss_gap
from node.compute.programs import Programs
from node.compute.training import heldout_loss, root_of, train_shard
from node.inputs.job_files import JobFiles, fetch_job
from node.replay import Replay, simulate
from repops.commitments import Array
from zoo_compute.jobs.config import ComputeJob, Manifest
from zoo_compute.jobs.files import publish_files
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import batch_of, prepare_text
from zoo_compute.training.rounds import tokens_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Job:
    """A job's loaded content. config: the submitter's, from which other programs of its module are traced."""

    config: ComputeJob
    manifest: Manifest
    files: JobFiles


def load(config: ComputeJob, manifest: Manifest, store: Any) -> Job:
    if config.traced.root != manifest.program_root:
        raise SystemExit("the run trained another program than this configuration makes: give its own with --config")
    return Job(config, manifest, fetch_job(store, manifest))


def publish(config: Path, text: list[Path]) -> Job:
    job = ComputeJob.from_file(config)
    data = prepare_text(
        text, job.context, job.training.seed, wanted=job.examples_wanted, minimum=job.examples_per_round,
        heldout=job.data.heldout,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = BlockStore(Path(folder))
        return load(job, publish_files(job, data, store), store)


def centralised(job: Job, batch: int, steps: int, order: Array) -> float:
    """Held-out loss of plain training on the examples in this order; the same rule, warmed up once, moments never reset."""
    training = {**job.config.training_config, "batch_size": batch, "inner_steps": steps, "rounds": 1, "slots": 1}
    for key in ("quorum", "segment_steps"):
        training.pop(key, None)
    plain = dataclasses.replace(job.config, training_config=training, checkpoint_config=None)
    programs, examples = Programs(plain.traced.graph), job.files.examples
    state = programs.begin(job.files.checkpoint)
    for step in range(steps):
        index = order[np.arange(step * batch, (step + 1) * batch) % len(order)]
        programs.advance(batch_of(examples, index, job.manifest.accumulate))
    trained = {name: state[name].copy() for name in programs.names}
    return heldout_loss(job.manifest, job.files.programs, trained, job.files.heldout)


def network_order(manifest: Manifest) -> Array:
    """Examples in the order in which a central run with the network's batch sees them: step by step, all slots of it."""
    return np.concatenate(
        [
            manifest.examples_for(r, s, h)
            for r in range(manifest.rounds)
            for h in range(manifest.inner_steps)
            for s in range(manifest.slots)
        ]
    )


def measure(job: Job, run: Replay, shards: Iterable[Mapping[str, Any]], *, sequential: bool) -> dict[str, Any]:
    """The figures that need no run folder."""
    manifest = job.manifest
    steps, batch = manifest.rounds * manifest.inner_steps, manifest.slots * manifest.batch_size
    central = centralised(job, batch, steps, network_order(manifest))
    figures = {
        "loss_initial": run.losses[0],
        "loss_first": run.losses[1],
        "loss_last": run.losses[-1],
        "loss_ratio": run.losses[-1] / run.losses[1],
        "loss_network": run.losses[-1],
        "loss_central": central,
        "loss_gap": run.losses[-1] / central - 1,
        "losses": run.losses,
    }
    if sequential:
        strong = centralised(job, manifest.batch_size, steps * manifest.slots, np.arange(manifest.data.examples))
        figures |= {"loss_sequential": strong, "loss_gap_sequential": run.losses[-1] / strong - 1}
    shards = list(shards)
    inner, wall = (sum(shard[key] for shard in shards) for key in ("seconds", "wall_s"))
    return figures | {
        "tokens": steps * manifest.slots * tokens_of(job.files.programs.graph, manifest.batch_size),
        "utilisation": inner / wall if wall else math.nan,
        "seconds_inner": inner,
        "seconds_slots": wall,
    }


def parameters_used(job: Job) -> dict[str, Any]:
    manifest, training = job.manifest, job.config.training
    names = ("rounds", "slots", "inner_steps", "batch_size", "seed")
    outer = {"outer_learning_rate": manifest.outer.lr, "outer_momentum": manifest.outer.momentum}
    return (
        {name: getattr(manifest, name) for name in names}
        | outer
        | {
            "parameters": job.config.profile.parameters,
            "model": {key: value for key, value in job.config.model.options.items() if key not in training.rule},
            "optimizer": training.rule | {"warmup_steps": training.warmup_steps, "clip_norm": training.clip_norm},
        }
    )


def simulated(config: Path, text: list[Path], *, sequential: bool) -> dict[str, Any]:
    job = publish(config, text)
    run, shards = timed_simulation(job)
    return {
        "source": f"simulation of {config.name}",
        **measure(job, run, shards, sequential=sequential),
        "bit_equal_replay": first_round_again(job, run),
        **parameters_used(job),
    }


def first_round_again(job: Job, run: Replay) -> bool:
    """Train every slot of round 0 once more, last slot first; whether all roots are those of `run`."""
    first = {result.slot: result for result in run.results if result.round == 0}
    assert sorted(first) == list(range(job.manifest.slots)), "round 0 was simulated whole"
    for slot, known in sorted(first.items(), reverse=True):
        again = train_shard(job.manifest, job.files.programs, job.files.checkpoint, job.files.examples, 0, slot)
        if (again.segment_root, again.end_root, again.update_root) != (
            known.segment_root,
            known.end_root,
            known.update_root,
        ):
            return False
    return True


def timed_simulation(job: Job) -> tuple[Replay, list[dict[str, float]]]:
    """The whole run in this process; a slot's wall time is the run's without evaluation, shared equally."""
    manifest = job.manifest
    full = (1 << manifest.slots) - 1
    began = time.perf_counter()
    run = simulated_run(job, [full] * manifest.rounds)
    wall = time.perf_counter() - began
    began = time.perf_counter()
    heldout_loss(manifest, job.files.programs, run.state, job.files.heldout)
    evaluation = time.perf_counter() - began
    return run, [{"seconds": run.seconds, "wall_s": wall - evaluation * len(run.losses)}]


def simulated_run(job: Job, masks: list[int]) -> Replay:
    files = job.files
    return simulate(job.manifest, files.programs, files.checkpoint, files.examples, files.heldout, masks)


def finished(folder: Path, config: Path, *, sequential: bool) -> dict[str, Any]:
    """Figures of a run folder: manifest.json, its stores, and report.json with

    losses (held-out, of every checkpoint), masks (one a closed round) and checkpoint_root: compared with a replay here;
    shard_reports: the workers' reports (node.compute.report).
    """
    manifest = Manifest.from_bytes((folder / "manifest.json").read_bytes())
    report = json.loads((folder / "report.json").read_text())
    job = load(ComputeJob.from_file(config), manifest, store_of(folder, manifest))
    masks = [int(mask, 0) if isinstance(mask, str) else int(mask) for mask in report["masks"]]
    if masks != [(1 << manifest.slots) - 1] * manifest.rounds:
        print("note: slots or rounds are absent: the network saw fewer tokens than the baselines", file=sys.stderr)
    run = simulated_run(job, masks)
    return {
        "source": folder.name,
        **measure(job, run, report["shard_reports"], sequential=sequential),
        "bit_equal_replay": root_of(run.state).hex() == report["checkpoint_root"].removeprefix("0x"),
        **parameters_used(job),
    }


def store_of(folder: Path, manifest: Manifest) -> BlockStore:
    """The embedded store of the run (any folder with `blocks` in it) that holds the job's own files."""
    roots = sorted(path.parent for path in folder.glob("**/blocks") if path.is_dir())
    files = (manifest.program, manifest.state, manifest.data, manifest.heldout)
    needed = [file.cid for file in files if file is not None]
    for store in map(BlockStore, roots):
        if all(store.has(cid) for cid in needed):
            return store
    raise SystemExit(f"{folder}: none of its {len(roots)} stores holds the job's initial state and data")


def network_efficiency(options: argparse.Namespace) -> dict[str, Any]:
    """Utilisation and loss gap of the network, and its cost."""
    network = utilisation.measured(options)
    figures = {
        "utilisation": network["utilisation"],
        "claimed": CLAIMED,
        "cost_of_a_pflop_day": costs(network["gpu_share_of_peak"], network["utilisation"]),
        "network": network,
    }
    loss = loss_gap(options.seeds)
    return figures | {"loss_gap": loss["loss_gap"], "loss": loss}


def table(result: Mapping[str, Any]) -> str:
    def number(value: Any) -> str:
        return f"{value:.4f}" if isinstance(value, float) else str(value)

    rows = [(k, number(v)) for k, v in result.items() if not isinstance(v, (list, dict))]
    rows += [("losses", " ".join(f"{loss:.3f}" for loss in result["losses"]))] if "losses" in result else []
    rows += [(k, json.dumps(value)) for k, value in result.items() if isinstance(value, dict)]
    return "\n".join(f"{key:<22} {value}" for key, value in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="What training over the network loses")
    parser.add_argument("run", nargs="?", type=Path, help="folder of a finished run; the whole network when left out")
    parser.add_argument("--simulate", action="store_true", help="one job in this process instead")
    parser.add_argument("--seeds", type=int, default=3, help="of the loss")
    utilisation.add_options(parser)
    parser.add_argument(
        "--config",
        type=Path,
        default=ROOT / "scripts" / "demo" / "demo.yaml",
        help="the job's, also of a finished run (default: the demo's)",
    )
    parser.add_argument(
        "--data", type=Path, nargs="*", help="text files or folders (default: the source of Python's standard library)"
    )
    parser.add_argument(
        "--no-sequential", action="store_true", help="leave out the sequential bound, the slowest baseline"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    sequential = not options.no_sequential
    began = time.perf_counter()
    if options.run:
        result = finished(options.run, options.config, sequential=sequential)
    elif not options.simulate:
        result = {
            "parameters": parameters_of(options),
            **network_efficiency(options),
        }
    else:
        result = simulated(options.config, options.data or [Path(sysconfig.get_path("stdlib"))], sequential=sequential)
    result["benchmark_s"] = time.perf_counter() - began
    print(json.dumps(result) if options.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
