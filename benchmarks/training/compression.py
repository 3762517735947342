"""What does compression cost, and what does it save? A small GPT on held-out text of Python's standard library.

Every seed trains the same job, from the same weights on the same tokens, with updates that are
  dense    float32, all of them
  int8     all elements, 8 bits each
  sparse   the largest 64 of every 4096, 2 bits each; what is kept back is carried on
by the protocol's own slot-rounds and aggregation, and every update goes through the transport's codec and back. Beside them,
with torch alone, plain data parallelism over gloo: two processes of half the network's batch each that synchronise at every step,
  allreduce  the gradients in float32
  powersgd   by torch's own powerSGD_hook
All begin with the weights that one machine has after --pretrained steps, as DiLoCo's own comparison does. From the module's first weights
(--pretrained 0) `sparse` is some rounds late: nearly 10 % of the loss after 12 rounds, 1.3 % after 20 of a smaller batch.
Bytes are what one slot (of the torch runs: one process) sends in the whole run; a loss gap is relative to dense. Outer rate,
momentum and decay of each kind are what served it best among the few settings tried (dense three, sparse five, one seed, 10 rounds); all
else is the same for all.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from benchmarks.peers import powersgd
from node.compute.aggregation import aggregate
from node.compute.programs import Programs, State
from node.compute.training import heldout_loss, train_shard
from node.inputs.job_files import JobFiles, fetch_job
from repops.commitments import tensor_roots
from zoo_compute import codec
from zoo_compute.codec.files import UpdateLayout
from zoo_compute.codec.pruning import prune
from zoo_compute.jobs.config import ComputeJob, Manifest
from zoo_compute.jobs.files import publish_files
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import Dataset, batch_of, prepare_text

KINDS: dict[str, dict[str, Any]] = {
    "dense": {"outer": (0.7, 0.6), "compression": None, "rule": "mean"},
    "int8": {"outer": (0.7, 0.6), "compression": {"bits": 8}, "rule": "mean"},
    "sparse": {"outer": (1.0, 0.0), "compression": {"keep": 64, "bits": 2, "decay": 0.8}, "rule": "sent_mean"},
}
TORCH = ("allreduce", "powersgd")
NOTE_BYTES = 36  # a CID
TIMED = 8  # updates of a run that the codec is timed on, spread over it


@dataclass
class Run:
    """losses: held-out, at every tenth of the run. sent: total bytes of one slot's updates. update: float32 bytes of one."""

    losses: list[float] = field(default_factory=list)
    sent: float = 0.0
    update: int = 0
    encode_s: list[float] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"loss": self.losses[-1], "losses": self.losses, "bytes": self.sent}
        if self.encode_s:
            seconds = max(np.median(self.encode_s), np.median(self.decode_s))
            figures |= {"codec_mb_s": self.update / 1e6 / seconds, "float32_bytes_an_update": self.update}
        return figures


def job_of(options: argparse.Namespace, seed: int, kind: Mapping[str, Any]) -> ComputeJob:
    rate, momentum = kind["outer"]
    return ComputeJob(
        {"layers": options.layers, "heads": 4, "width": options.width, "context": options.context, "tied": False},
        {"heldout": options.heldout},
        {
            "learning_rate": options.learning_rate,
            "warmup_steps": options.warmup,
            "batch_size": options.batch,
            "inner_steps": options.inner_steps,
            "rounds": options.rounds,
            "slots": options.slots,
            "carry_rounds": min(options.rounds, 1024),
            "outer_learning_rate": rate,
            "outer_momentum": momentum,
            "seed": seed,
        }
        | kind.get("training", {}),
        "1000000",
        aggregation_config={"rule": kind["rule"]},
        compression_config=kind["compression"],
    )


def data_of(job: ComputeJob, text: list[Path]) -> Dataset:
    return prepare_text(
        text, job.context, job.training.seed, wanted=job.examples_wanted, minimum=job.examples_per_round,
        heldout=job.data.heldout,
    )  # fmt: skip


def pretrained(options: argparse.Namespace, seed: int, data: Dataset) -> State:
    """The weights that all kinds begin with."""
    alone = argparse.Namespace(**vars(options) | {"learning_rate": options.pretrained_rate})
    job = job_of(alone, seed, KINDS["dense"])
    assert job.traced.initial is not None
    programs, draw = Programs(job.traced.graph), np.random.default_rng(seed)
    state = programs.begin(job.traced.initial)
    count = len(next(iter(data.examples.values())))
    for _ in range(options.pretrained):
        programs.advance(batch_of(data.examples, draw.integers(0, count, options.batch)))
    return {name: state[name].copy() for name in programs.names}


def network(manifest: Manifest, files: JobFiles, weights: State) -> Run:
    """Every round of every slot; private state goes on from round to round."""
    run, checkpoint, programs = Run(), {**files.checkpoint, **weights}, files.programs
    private: dict[int, State] = {}
    parts, every = UpdateLayout.of(programs.graph, manifest), max(1, manifest.rounds // 10)
    timed = {round_ for round_ in range(manifest.rounds) if round_ % max(1, manifest.rounds // TIMED) == 0}
    for round_ in range(manifest.rounds):
        updates: dict[int, State] = {}
        for slot in range(manifest.slots):
            carried = private.get(slot) if round_ % manifest.carry else None
            result = train_shard(manifest, programs, checkpoint, files.examples, round_, slot, carried=carried)
            private[slot] = result.private
            updates[slot] = through_codec(run, result.update, parts, check=slot == 0 and round_ in timed)
        checkpoint = aggregate(manifest, programs, checkpoint, updates)
        if (round_ + 1) % every == 0:
            run.losses.append(heldout_loss(manifest, programs, checkpoint, files.heldout))
    run.sent /= manifest.slots
    return run


def through_codec(run: Run, update: State, parts: UpdateLayout, *, check: bool) -> State:
    """An update as others receive it. check: time the codec, and verify that it is lossless."""
    head = codec.FileHeader(parts.chunk)
    if parts.kept:  # as zoo_compute.codec.files writes it: hashes for the tensors that stay, and where those are
        head = replace(head, hashes=prune(tensor_roots(update), parts.kept), note=bytes(NOTE_BYTES))
    sent = {name: update[name] for name in parts.shapes}
    began = time.process_time()
    data = codec.encode(sent, head, parts.signs)
    encoded = time.process_time()
    run.sent, run.update = run.sent + len(data), sum(array.nbytes for array in sent.values())
    if not check:
        return sent
    began_back = time.process_time()
    _, back = codec.unpack(io.BytesIO(data), parts.shapes, parts.hashes, parts.signs)
    run.encode_s.append(max(encoded - began, 1e-9))
    run.decode_s.append(max(time.process_time() - began_back, 1e-9))
    assert all(back[name].tobytes() == array.tobytes() for name, array in sent.items()), "the codec lost a bit"
    return back


def seeded(
    options: argparse.Namespace, seed: int, kinds: Mapping[str, dict[str, Any]] = KINDS
) -> dict[str, dict[str, Any]]:
    """The figures of each kind for one seed."""
    figures = {}
    data, weights = None, State()
    for name in options.kinds:
        began = time.process_time()
        job = job_of(options, seed, kinds.get(name, kinds["dense"]))
        if data is None:
            data = data_of(job, options.data)
            weights = pretrained(options, seed, data)
        if name in TORCH:
            figures[name] = powersgd.run(job, data, weights, name, rank=options.rank, synced=options.synced)
        else:
            with tempfile.TemporaryDirectory() as folder:
                store = BlockStore(Path(folder))
                manifest = publish_files(job, data, store)
                figures[name] = network(manifest, fetch_job(store, manifest), weights).to_dict()
        figures[name]["cpu_s"] = time.process_time() - began
        print(
            f"seed {seed} {name}: held-out loss {figures[name]['loss']:.4f}, {figures[name]['bytes']:,.0f} bytes",
            file=sys.stderr,
        )
    return figures


def summary(options: argparse.Namespace, seeds: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    first = next(iter(seeds.values()))
    table = {}
    for name in first:
        gaps = [each[name]["loss"] / each["dense"]["loss"] - 1 for each in seeds.values() if "dense" in each]
        table[name] = {
            "loss": float(np.mean([each[name]["loss"] for each in seeds.values()])),
            "loss_gap": float(np.mean(gaps)) if gaps else None,
            "loss_gap_worst": max(gaps) if gaps else None,
            "bytes": float(np.mean([each[name]["bytes"] for each in seeds.values()])),
        }
        speeds = [each[name]["codec_mb_s"] for each in seeds.values() if "codec_mb_s" in each[name]]
        if speeds:
            float32 = options.rounds * first[name]["float32_bytes_an_update"]
            table[name] |= {"ratio": float32 / table[name]["bytes"], "codec_mb_s": float(np.median(speeds))}
    sparse = table.get("sparse", {})
    return {
        "compression_ratio": sparse.get("ratio"),
        "loss_gap": sparse.get("loss_gap"),
        "codec_mb_s": sparse.get("codec_mb_s"),
        "kinds": table,
        "seeds": {str(seed): runs for seed, runs in seeds.items()},
        "settings": {name: KINDS[name] for name in first if name in KINDS},
        "parameters": parameters_of(options, leave_out=("data",)),
        "parameters_of_the_model": job_of(options, 0, KINDS["dense"]).profile.parameters,
    }


def as_text(result: Mapping[str, Any]) -> str:
    lines = [
        f"{'kind':<10} {'held-out loss':>13} {'gap to dense':>13} {'bytes sent':>16} {'x float32':>10} {'MB/s':>7}"
    ]
    for name, row in result["kinds"].items():
        cells = [f"{row['loss']:>13.4f}", f"{100 * (row['loss_gap'] or 0):>12.2f}%", f"{row['bytes']:>16,.0f}"]
        cells += [f"{row['ratio']:>10.1f}", f"{row['codec_mb_s']:>7.0f}"] if "ratio" in row else []
        lines.append(f"{name:<10} " + " ".join(cells))
    lines += [f"{key}: {json.dumps(result[key])}" for key in ("settings", "parameters", "parameters_of_the_model")]
    return "\n".join(lines)


def parser_of(description: str) -> argparse.ArgumentParser:
    """The options of the job, for one_round.py and restart.py too."""
    parser = argparse.ArgumentParser(description=description)
    for name, default in (("layers", 2), ("width", 64), ("context", 64), ("batch", 16), ("rounds", 12), ("slots", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--inner-steps", type=int, default=30)
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--warmup", type=int, default=20, help="steps, of the kinds that carry private state")
    parser.add_argument("--pretrained", type=int, default=4000, help="steps of one machine before the first round")
    parser.add_argument("--pretrained-rate", type=float, default=0.003, help="learning rate of those")
    parser.add_argument("--heldout", type=int, default=1024, help="examples")
    parser.add_argument("--data", type=Path, nargs="*", default=[Path(sysconfig.get_path("stdlib"))])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main() -> int:
    parser = parser_of("Loss and bytes of compressed updates beside dense ones and PowerSGD")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--kinds", nargs="*", default=[*KINDS, *TORCH], choices=[*KINDS, *TORCH])
    parser.add_argument("--rank", type=int, default=1, help="of powersgd's matrices")
    parser.add_argument("--synced", type=int, default=10, help="steps before powersgd begins to compress")
    options = parser.parse_args()
    result = summary(options, {seed: seeded(options, seed) for seed in options.seeds})
    print(json.dumps(result) if options.json else as_text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
