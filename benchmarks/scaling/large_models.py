"""Models of many billions of parameters over many nodes, for benchmarks/scaling/scale.py: a round's bytes, memory, times and gas.

Nothing is trained. The job is the one that `zoo train` would post: its program is traced on shapes, the aggregators' shares, every
memory need and the limits of traces are the product's functions of it; seats and schedule come from the specification, played. The
codec is measured here on one tensor; links and arithmetic are the rates below. Each party has one link, full in both directions.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.scaling import model, network
from keepers.services.signer_checks import AGAIN
from repops.commitments import Array
from repops.graph import Graph
from repops.limits import MAX_TRACE_BYTES
from repops.profile import trace_bytes
from zoo_compute import codec
from zoo_compute.codec.signs import sent_elements
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.formats.manifest import Compression
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.spec.schedule import DATACENTER, Worker
from zoo_compute.store import unixfs
from zoo_compute.training.held_bytes import round_bytes
from zoo_compute.training.memory import aggregation_bytes, memory_needs
from zoo_compute.training.rounds import aggregation_programs, checkpoint_bytes, checkpoint_nodes, shares_of

KEEP, BITS, CHUNK = 1_230, 1, 4_096  # signs of random elements, which a mean of several aggregators takes as they are
AGGREGATORS, CUSTODIANS, INNER_STEPS, CONTEXT = 16, 3, 500, 2_048
NODE_CORES = 16  # that decode updates side by side
NODE_FLOPS = 10**14  # of one node, in float32 as the arithmetic asks for it
LINKS_MBIT = (100, 1_000)
CHECK = unixfs.CHUNK + 8_710  # a block, and a full node above it
SAMPLE = 2**22  # elements that the codec is measured on


@dataclass(frozen=True)
class Case:
    """nodes_a_slot: that train one slot together, as their memory asks for. operators: alike in size."""

    name: str
    preset: str
    nodes: int
    nodes_a_slot: int
    operators: int

    @property
    def slots(self) -> int:
        return self.nodes // self.nodes_a_slot


CASES = (Case("7B", "llama-7b", 100, 1, 20), Case("70B", "llama-70b", 1_000, 8, 25))


def measured_codec() -> dict[str, float]:
    """Bytes and seconds of a file of signs, for each byte of float32 in its place: of one core."""
    how = Compression(chunk=CHUNK, keep=KEEP, bits=BITS)
    tensors = {"w": _signs(how)}
    began = time.perf_counter()
    file = codec.encode(tensors, codec.FileHeader(CHUNK), how)
    encoded = time.perf_counter()
    _, read = codec.unpack(io.BytesIO(file), {"w": (SAMPLE,)}, 0, how)
    decoded = time.perf_counter()
    assert (read["w"] == tensors["w"]).all()
    dense = 4 * SAMPLE
    return {
        "ratio": dense / len(file),
        "encode_mb_s": dense / 1e6 / (encoded - began),
        "decode_mb_s": dense / 1e6 / (decoded - encoded),
    }


def _signs(how: Compression) -> Array:
    """An update as the program of a job makes it: in each chunk one magnitude, of the elements that follow from it, under random signs."""
    rng = np.random.default_rng(1)
    magnitude_C = rng.uniform(0.001, 0.01, SAMPLE // CHUNK).astype(np.float32)
    sent_CW = sent_elements(magnitude_C.view(np.uint32), SAMPLE, how)
    made_CW = np.where(sent_CW, magnitude_C[:, None] * rng.choice(np.array([-1, 1], np.float32), sent_CW.shape), 0)
    return made_CW.astype(np.float32).reshape(-1)


def job_of(case: Case) -> ComputeJob:
    training = {"batch_size": 1, "inner_steps": INNER_STEPS, "rounds": 12, "slots": case.slots}
    return ComputeJob(
        {"name": case.preset, "context": CONTEXT},
        {},
        training,
        str(100 * 12 * (case.slots + AGGREGATORS)),
        compression_config={"keep": KEEP, "bits": BITS},
        aggregation_config={"rule": "mean", "aggregators": AGGREGATORS},
        checkpoint_config={"redundancy": CUSTODIANS},
    )


def fractions_of(step: Graph, spec: AggregationSpec) -> list[float]:
    """Of the exchanged elements, by aggregator."""
    nodes, exchanged = checkpoint_nodes(step, spec), set(step.exchanged)
    shares = [sum(nodes[name].elements for name in own & exchanged) for own in shares_of(step, spec)]
    return [share / sum(shares) for share in shares]


def checked_bytes(aggregators: int) -> int:
    """Who has a seat asks every signer of every share for a block of it, and again in its window (keepers/services/signer_checks.py)."""
    return CUSTODIANS * aggregators * (1 + AGAIN) * CHECK


def measure(case: Case, packed: dict[str, float]) -> dict[str, Any]:
    """One round of a case."""
    job = job_of(case)
    graph, profile, manifest = job.traced.graph, job.profile, job.outline()
    spec = manifest.aggregation_spec
    update = round(4 * profile.parameters / packed["ratio"])
    largest = max(fractions_of(graph, spec))
    whole, all_updates = checkpoint_bytes(graph, spec), case.slots * update
    checks = checked_bytes(AGGREGATORS)
    into = {
        "aggregator": round(all_updates * largest) + checks,
        # It makes the checkpoint from the updates where these have fewer bytes.
        "holder of a slot": min(all_updates, whole) + checks,
        "custodian": all_updates + whole,
    }
    busiest = max(into, key=lambda who: into[who])
    out = {
        # Whoever makes the checkpoint itself asks the author first.
        "holder of a slot": update * (CUSTODIANS + 1 + (case.slots - 1 if all_updates < whole else 0)),
        "aggregator": round(whole * largest) * (CUSTODIANS + (0 if all_updates < whole else case.slots)),
    }
    played = seats_of(case, update)
    train_s = INNER_STEPS * profile.flops / (NODE_FLOPS * case.nodes_a_slot)
    decode_s = case.slots * 4 * profile.parameters / 1e6 / packed["decode_mb_s"]
    ready_s = {
        # Who combines decodes what does not fit in memory twice: for its root, and for its values.
        "aggregator": 2 * decode_s * largest / NODE_CORES,
        "holder of a slot": 2 * decode_s / NODE_CORES,
        "custodian": decode_s / NODE_CORES,
    }
    needs = memory_needs(graph, profile)
    return {
        "nodes": case.nodes,
        "nodes_a_slot": case.nodes_a_slot,
        "slots": case.slots,
        "parameters": profile.parameters,
        "aggregators": AGGREGATORS,
        "largest_share": largest,
        "update_bytes": update,
        "checkpoint_bytes": whole,
        "into": into,
        "out": out,
        "busiest_receiver": busiest,
        "busiest_receiver_bytes": into[busiest],
        "one_aggregator_bytes": all_updates,
        "train_s": train_s,
        "links": {str(mbit): times(mbit, train_s, ready_s, into) for mbit in LINKS_MBIT},
        "decode_s": ready_s,
        "memory_bytes": {
            "worker": needs.plain,
            "worker, recomputing": needs.recomputed,
            "worker, recomputing, state in files": needs.in_files,
            "aggregator": aggregation_bytes(graph, spec, streamed=True),
        },
        "custodian_disk_bytes_a_round": round_bytes(graph, manifest),
        "trace": {
            "step": trace_bytes(graph) / MAX_TRACE_BYTES,
            "aggregation": max(map(trace_bytes, aggregation_programs(graph, spec))) / MAX_TRACE_BYTES,
        },
        **played,
        "gas_a_round": gas(played["seats"]),
    }


def times(mbit: int, train_s: float, ready_s: dict[str, float], into: dict[str, int]) -> dict[str, float]:
    """Of a round on links of this rate, by who waits longest for bytes and for decoding them.

    A turn is closed when every custodian has its inputs, the aggregators have made the checkpoint, and the custodians have that too.
    hidden: with `delay: 1`, behind the next round's training.
    """
    rate = mbit * 1e6 / 8
    waits = {who: into[who] / rate + ready_s[who] for who in into}
    exchange_s = max(waits.values())
    return {
        **{f"{who}_s": wait for who, wait in waits.items()},
        "round_s": train_s + exchange_s,
        "utilisation": train_s / (train_s + exchange_s),
        "round_hidden_s": max(train_s, exchange_s),
        "utilisation_hidden": train_s / max(train_s, exchange_s),
        "inner_steps_for_97_percent": INNER_STEPS * max(1.0, 0.97 * exchange_s / train_s),
    }


def seats_of(case: Case, update: int) -> dict[str, Any]:
    """Operators of equal nodes bid on the specification; the schedule places the slots."""
    workers = [
        Worker(number, 1 + number % case.operators, DATACENTER, 80, step_us=1_000, kbps=1_000_000, cost=100)
        for number in range(case.slots)
    ]
    began = time.perf_counter()
    played = network.play(workers, case.slots, 1, update)
    return {
        "seats": played.seats,
        "schedule_and_play_s": time.perf_counter() - began,
    }


def gas(seats: int) -> dict[str, int]:
    """A round's transactions: every seat's claim, the custodians' signatures, every aggregator's checkpoint, and payments."""
    measured = model.measured_gas()
    paid = measured["finalise_60_claims"] // 60
    made = {
        "seats": seats * (measured["commit"] + paid),
        "custodians": measured["custody_hold_inputs"] + measured["custody_count"],
        "aggregators": AGGREGATORS * (measured["custody_post_checkpoint"] + paid),
    }
    return {**made, "all": sum(made.values())}


def run(cases: tuple[Case, ...] = CASES) -> dict[str, Any]:
    packed = measured_codec()
    return {"codec": packed, "cases": {case.name: measure(case, packed) for case in cases}}
