"""How much of a round do nodes spend on exchange? Some nodes on shaped links (benchmarks/lab), whose stores move real files.

A node's inner steps are emulated by sleeping --step-s for each of them: one machine has not the cores for all nodes. Real are the roots of
the segments, the update's file and its root, every byte between the nodes' gateways, the aggregation and the check of its root.
The chain is emulated by --chain-s seconds from a commitment to its being seen. Two ways to the next checkpoint:
  download   the aggregator (the first node) fetches all updates, and every node fetches the checkpoint that it made
  recompute  every node fetches all updates and combines them itself, as the aggregator does; equal roots are checked

  utilisation  inner seconds against wall seconds of a round, all nodes waiting for the slowest

--update-bytes N moves N bytes in place of an update's dense file (what a codec would make of it); its decoding is not counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # beside this file lies one that bears the name of a package
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from benchmarks.lab import Laboratory, Link, laboratory
from node import syncer
from node.aggregation import aggregate
from node.programs import State
from node.prover import SlotResult
from node.training import root_of
from repops.files import state_bytes
from zoo_compute.data import prepare_text
from zoo_compute.job import ComputeJob
from zoo_compute.publish import publish_files
from zoo_compute.store import BlockStore
from zoo_compute.store.dag import ahead

ROOT = Path(__file__).resolve().parents[1]
GATEWAY = 8077
MOST_BYTES = 2**32


class Node:
    """One node's side: orders come on stdin, answers go to stdout, both beside the laboratory's links (they are the chain's part)."""

    def __init__(self, folder: Path, manifest: str, me: int, options: argparse.Namespace) -> None:
        job = BlockStore(folder / "job")
        self.manifest = syncer.fetch_manifest(job, manifest)
        self.programs = syncer.fetch_programs(job, self.manifest)
        step = self.programs.graph
        self.checkpoint = syncer.fetch_checkpoint(job, self.manifest, step, 0, 0, None, self.manifest.state_root)
        self.store = BlockStore(folder / f"node{me}")
        self.me, self.options = me, options

    def connect(self, peers: list[str]) -> dict[str, Any]:
        self.store.set_peers(peers)
        return {}

    def update_of(self, round: int, node: int) -> State:
        """The update of a node, as every node can make it: only its bytes are what is measured."""
        source = np.random.default_rng((round, node))
        names = self.programs.graph.exchanged
        return {name: 1e-3 * source.standard_normal(self.checkpoint[name].shape, np.float32) for name in names}

    def train(self, round: int) -> dict[str, Any]:
        """A slot-round but for its steps: the roots, the update, its file."""
        update = self.update_of(round, self.me)
        began = time.perf_counter()
        self.programs.begin(self.checkpoint, 1)
        for _ in range(len(self.manifest.segments()) + 1):
            self.programs.state_root()
        rooted = time.perf_counter()
        inner_s = self.options.step_s * self.options.inner_steps
        time.sleep(inner_s)
        trained = time.perf_counter()
        root = root_of(update)
        packed = self.options.update_bytes
        data = np.random.default_rng((round, self.me)).bytes(packed) if packed else state_bytes(update)
        cid = self.store.add(data)
        stored = time.perf_counter()
        return {"cid": cid, "root": root.hex(), "roots_s": rooted - began, "store_s": stored - trained}

    def combine(self, round: int, updates: list[tuple[str, str]], keep: bool) -> dict[str, Any]:
        began = time.perf_counter()
        found: dict[int, State] = {}
        if self.options.update_bytes:
            list(ahead(self._read, [cid for cid, _ in updates], syncer.AT_ONCE))
        else:
            results = {
                node: SlotResult(node, cid, b"", b"", b"", bytes.fromhex(root), (0.0, 0.0), 0.0)
                for node, (cid, root) in enumerate(updates)
            }
            found = syncer.get_updates(self.store, self.programs.graph, results)
        fetched = time.perf_counter()
        if self.options.update_bytes:
            found = {node: self.update_of(round, node) for node in range(len(updates))}
            skipped = time.perf_counter() - fetched
        else:
            skipped = 0.0
        self.checkpoint = aggregate(self.manifest, self.programs, self.checkpoint, found)
        root = root_of(self.checkpoint).hex()
        cid = syncer.put_state(self.store, self.checkpoint) if keep else ""
        combine_s = time.perf_counter() - fetched - skipped
        return {"root": root, "cid": cid, "fetch_s": fetched - began, "combine_s": combine_s, "skipped_s": skipped}

    def _read(self, cid: str) -> bytes:
        return self.store.read(cid, max_bytes=MOST_BYTES, timeout_s=300)

    def load(self, cid: str, root: str) -> dict[str, Any]:
        began = time.perf_counter()
        self.checkpoint = syncer.get_state(self.store, cid, bytes.fromhex(root), max_bytes=MOST_BYTES, timeout_s=300)
        return {"load_s": time.perf_counter() - began}

    def serve(self) -> None:
        print(json.dumps({"loaded": True}), flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            print(json.dumps(getattr(self, order.pop("do"))(**order)), flush=True)


class Remote:
    """A node as the runner sees it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def tell(self, do: str, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a node ended")
        return dict(json.loads(line))


def every(nodes: list[Remote], do: str, **order: Any) -> list[dict[str, Any]]:
    """The same order to all at once; their answers."""
    for node in nodes:
        node.tell(do, **order)
    return [node.hear() for node in nodes]


def published(options: argparse.Namespace, folder: Path) -> str:
    """The job in `folder`/job, with a slot a node; its manifest's CID."""
    job = ComputeJob.from_file(options.config)
    training = {**job.training_config, "inner_steps": options.inner_steps, "slots": options.nodes}
    training |= {"quorum": options.nodes, "segment_steps": max(1, options.inner_steps // 3), "rounds": 1}
    job = dataclasses.replace(job, training_config=training)
    data = prepare_text(
        [Path(sysconfig.get_path("stdlib")) / "asyncio"], job.context, 1,
        wanted=job.examples_wanted, minimum=job.examples_of_a_round, heldout=job.data.heldout,
    )  # fmt: skip
    store = BlockStore(folder / "job")
    manifest = publish_files(job, data, store)
    return store.add(manifest.to_bytes())


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    manifest = published(options, folder)
    names = [f"node{index}" for index in range(options.nodes)]
    link = Link.of_round_trip(options.mbit, options.rtt_ms / 1000)
    with laboratory(dict.fromkeys(names, link), options.kind) as lab:
        found = lab.measured(names[0], names[1])
        nodes, urls = started(lab, names, folder, manifest, options)
        for index, node in enumerate(nodes):
            node.tell("connect", peers=[url for other, url in urls(names[index]) if other != names[index]])
            node.hear()
        before = lab.counts()
        rounds = [one_round(nodes, number, options) for number in range(options.rounds)]
        after = lab.counts()
    moved = {name: after[name].get("bytes", 0) - before[name].get("bytes", 0) for name in names}
    inner_s = options.step_s * options.inner_steps
    parts = {key: statistics.mean(r[key] for r in rounds) for key in rounds[0]}
    return {
        "parameters": {k: str(v) for k, v in vars(options).items() if k not in ("json", "node")},
        "link": {"kind": lab.kind, **found},
        "inner_s": inner_s,
        "round_s": parts.pop("round_s"),
        "parts_s": parts,
        "utilisation": inner_s / statistics.mean(r["round_s"] for r in rounds),
        "bytes_in_a_round": {name: count // options.rounds for name, count in moved.items()},
    }


def started(lab: Laboratory, names: list[str], folder: Path, manifest: str, options: argparse.Namespace) -> Any:
    """A gateway and a node process on every host; and what gives the gateways' URLs as a host sees them."""
    ports, nodes = {}, []
    for index, name in enumerate(names):
        store = folder / name
        store.mkdir()
        ports[name] = lab.free_port(GATEWAY)
        gateway = [sys.executable, "-m", "zoo_compute.store.gateway", "--root", str(store)]
        gateway += ["--host", lab.address(name), "--port", str(ports[name])]
        lab.start(name, gateway, stdout=subprocess.DEVNULL)
        asked = ["--step-s", str(options.step_s), "--inner-steps", str(options.inner_steps)]
        asked += ["--update-bytes", str(options.update_bytes)]
        command = [sys.executable, str(Path(__file__).resolve()), "--node", str(folder), manifest, str(index), *asked]
        nodes.append(Remote(lab.start(name, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)))
    for node in nodes:
        node.hear()

    def urls(seen_from: str) -> list[tuple[str, str]]:
        places = {name: lab.endpoint(name, ports[name], seen_from=seen_from) for name in names if name != seen_from}
        return [(name, f"http://{address}:{port}") for name, (address, port) in places.items()]

    return nodes, urls


def one_round(nodes: list[Remote], number: int, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of its parts, each as the slowest node has it; round_s is without what only this benchmark does."""
    began = time.perf_counter()
    trained = every(nodes, "train", round=number)
    time.sleep(options.chain_s)
    updates = [(answer["cid"], answer["root"]) for answer in trained]
    recomputes = options.mode == "recompute"
    combined = every(nodes if recomputes else nodes[:1], "combine", round=number, updates=updates, keep=not recomputes)
    assert len({answer["root"] for answer in combined}) == 1, "the nodes disagree about the next checkpoint"
    loaded = [{"load_s": 0.0}]
    if not recomputes:
        time.sleep(options.chain_s)
        loaded = every(nodes[1:], "load", cid=combined[0]["cid"], root=combined[0]["root"])
    parts: dict[str, float] = {}
    for answers in (trained, combined, loaded):
        for key in (key for key in answers[0] if key.endswith("_s")):
            parts[key] = max(answer[key] for answer in answers)
    round_s = time.perf_counter() - began - parts.pop("skipped_s")
    return {**parts, "chain_s": options.chain_s * (1 if recomputes else 2), "round_s": round_s}


def table(result: Mapping[str, Any]) -> str:
    return "\n".join(f"{key:<18} {value}" for key, value in result.items())


def main() -> int:
    parser = argparse.ArgumentParser(description="Utilisation of nodes that exchange over shaped links")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--inner-steps", type=int, default=30)
    parser.add_argument("--step-s", type=float, default=1.0, help="seconds of a node's inner step")
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--rtt-ms", type=float, default=50)
    parser.add_argument("--chain-s", type=float, default=1.0)
    parser.add_argument("--mode", choices=("download", "recompute"), default="download")
    parser.add_argument("--update-bytes", type=int, default=0, help="0: the dense file")
    parser.add_argument("--config", type=Path, default=ROOT / "scripts" / "demo.yaml", help="the job's model")
    parser.add_argument("--kind", choices=("", "tun", "relay"), default="", help="of laboratory")
    parser.add_argument("--node", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.node:
        folder, manifest, me = options.node
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        Node(Path(folder), manifest, int(me), options).serve()
        return 0
    with tempfile.TemporaryDirectory(prefix="exchange") as folder:
        result = run(options, Path(folder))
    print(json.dumps(result) if options.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
