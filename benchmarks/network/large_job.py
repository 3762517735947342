"""A real job of half a billion parameters on one machine: three operators of a local network, each of which combines two of six shares of the
model and keeps copies; two train a slot each, the third verifies everything. One of them lies in one number of one share.

    python -m benchmarks.network.large_job [--json] [--folder DIR] [--model llama-500m] [--memory-gb 5.6]

The job starts from a `config.json` of `transformers` without weights; `zoo` posts, watches and fetches it, and
`AutoModelForCausalLM.from_pretrained` loads the result. All memory is sampled from /proc; `anonymous` is what the machine must hold,
`resident` counts pages of files too, which the system gives up when others need them. Once all is verified, the chain's clock is put
forward past the windows. It needs the machine for itself, 60 GB of disk, and at its end, where the result is fetched beside all operators,
8 GB more memory than they hold: on 24 GB the system may end that command (large_job.json was fetched from the same chain and stores after it).

  memory_mb   the most of every process, and of all operators at once
  held_mb     what a worker must hold: parameters, state (with moments), and the least values of a step
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from repops.plan.fit import Fitting
from repops.profile import profile
from zoo_compute.chain.events import scan
from zoo_compute.chain.explorations import read_disputes
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobState
from zoo_compute.client.results import manifest_of
from zoo_compute.models.presets import MODELS
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore
from zoo_compute.training.memory import kept_bytes

MB = 1e6
CONTEXT, EXAMPLES, BUDGET = 64, 64, 400
SLOTS, AGGREGATORS, ROUNDS, STEPS = 2, 6, 2, 2
LIAR, LIE_IN_SHARE, LIE_IN_ROUND = "gamma", 4, 1  # the dearest bid has the last two shares
TIME_MARGIN = 6.0  # a step was measured while nobody verified, combined or downloaded on these two cores
LONGEST_S = 3 * 3_600
LOADS = """
import json, sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
tokens = torch.arange(3, 3 + int(sys.argv[2]))[None]
loss = model(input_ids=tokens, labels=tokens).loss.item()
print(json.dumps({"class": type(model).__name__, "parameters": model.num_parameters(), "loss": loss}))
"""


def plans(memory_gb: float, states: Path) -> tuple[OperatorPlan, ...]:
    """states: where the states of steps lie in files."""
    settings = {
        "memory_gb": memory_gb,
        "state_folder": str(states),
        "aggregator_capacity": 2,
        "time_margin": TIME_MARGIN,
    }
    usual: dict[str, Any] = {"roles": ("provider", "aggregator", "custodian"), "capacity": 1, "settings": settings}
    where = ("--round", str(LIE_IN_ROUND), "--share", str(LIE_IN_SHARE))
    lies = (sys.executable, "-m", "tests.support.liars.lying_aggregator", *where)
    checks = {**usual, "roles": ("aggregator", "custodian", "verifier"), "sample_rate": 1.0, "ask_zen": 50 * ZEN}
    return (
        OperatorPlan("alpha", aggregator_price="0.50", **checks),
        OperatorPlan("beta", price="0.90", aggregator_price="0.60", **usual),
        # Its keeper would take its seat back, and post the false share again, which it has.
        OperatorPlan(
            LIAR,
            price="1.00",
            aggregator_price="0.70",
            worker_command=lies,
            **{**usual, "settings": settings | {"standby": False}},
        ),
    )


class Memory(threading.Thread):
    """Samples every process of the operators, with what they start, until `stop`."""

    def __init__(self, network: LocalNetwork, every_s: float = 0.5) -> None:
        super().__init__(daemon=True)
        self.network, self.every_s, self.stopped = network, every_s, threading.Event()
        self.most: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.machine = 0.0

    def run(self) -> None:
        while not self.stopped.wait(self.every_s):
            roots = {
                child.process.pid: f"{name}/{child.name}"
                for name, daemon in self.network.daemons.items()
                for child in list(daemon.children.values())
                if child.process is not None
            }
            self._sample(roots)

    def _sample(self, roots: Mapping[int, str]) -> None:
        parents, sizes = dict[int, int](), dict[int, dict[str, float]]()
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
                except OSError:
                    continue
                if "VmRSS" in lines:
                    parents[int(folder.name)] = int(lines["PPid"])
                    anonymous, resident = (1024 * int(lines[key].split()[0]) / MB for key in ("RssAnon", "VmRSS"))
                    sizes[int(folder.name)] = {"anonymous": anonymous, "resident": resident}
        total = 0.0
        for pid, size in sizes.items():
            at = pid
            while at in parents and at not in roots:
                at = parents[at]
            if at in roots:
                total += size["anonymous"]
                most = self.most[roots[at] if at == pid else f"{roots[at]}/child"]
                for key, value in size.items():
                    most[key] = max(most[key], value)
        self.machine = max(self.machine, total)

    def stop(self) -> dict[str, Any]:
        self.stopped.set()
        self.join()
        return self.figures()

    def figures(self) -> dict[str, Any]:
        return {"of_all_at_once": round(self.machine), "processes": {
            name: {key: round(value) for key, value in sizes.items()} for name, sizes in sorted(dict(self.most).items())
        }}  # fmt: skip


def write_model(folder: Path, name: str) -> None:
    """A `config.json` as `transformers` writes it, without weights."""
    from transformers import LlamaConfig

    sizes = MODELS[name].sizes
    LlamaConfig(
        vocab_size=sizes.get("vocab", 32_000), hidden_size=sizes["width"], intermediate_size=sizes["hidden"],
        num_hidden_layers=sizes["layers"], num_attention_heads=sizes["heads"], num_key_value_heads=sizes.get("kv_heads", sizes["heads"]),
        max_position_embeddings=sizes["context"], rope_theta=sizes.get("theta", 10_000.0), tie_word_embeddings=sizes.get("tied", False),
        architectures=["LlamaForCausalLM"],
    ).save_pretrained(folder)  # fmt: skip


def job_file(folder: Path, model: str, clocks: Mapping[str, int]) -> Path:
    write_model(folder / "model", model)
    tokens = np.random.default_rng(0).integers(3, 250, (EXAMPLES, CONTEXT + 1), dtype=np.int32)
    np.savez(folder / "tokens.npz", tokens=tokens)
    job = {
        "model": {"transformers": "model"},
        "data": {"path": "tokens.npz", "heldout": 4},
        "training": {"batch_size": 1, "inner_steps": STEPS, "segment_steps": 1, "rounds": ROUNDS, "slots": SLOTS, "learning_rate": 3e-4},
        "compression": {"keep": 1230, "bits": 1},
        "aggregation": {"rule": "mean", "aggregators": AGGREGATORS},
        "checkpoint": {"redundancy": 3},
        "market": {"reserve": "1", "max_price": "1.25", "aggregator_reserve": "1", "aggregator_max_price": "1.25"},
        "limits": {**clocks, "depth": 16},  # what is done again waits for no window
    }  # fmt: skip
    path = folder / "job.json"
    path.write_text(json.dumps(job, indent=1))
    return path


class Submitter:
    """Who runs `zoo` against the network."""

    def __init__(self, network: LocalNetwork, folder: Path) -> None:
        network.devnet.account("submitter", zen=2 * BUDGET * ZEN)
        self.network, self.folder = network, folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ZOO_", "HF_"))},
            "ZOO_HOME": str(folder / "home"),
            "ZOO_NETWORK": str(network.network_path),
            "ZOO_ACCOUNT": str(network.devnet.key_file("submitter")),
            "ZOO_PASSPHRASE_FILE": str(network.devnet.passphrase_file),
            "ZOO_STORE": str(network.submitter_store),
            "HF_HUB_OFFLINE": "1",
        }

    def run(self, *command: str) -> dict[str, Any]:
        """The object that a command prints. Operators' processes are kept running meanwhile."""
        with (self.folder / "printed").open("w+") as printed:
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=printed)
            while process.poll() is None:
                self.network.poll()
                time.sleep(1)
            printed.seek(0)
            text = printed.read()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        result: dict[str, Any] = json.loads(text[text.index("{") :])
        return result

    def zoo(self, *arguments: str) -> dict[str, Any]:
        return self.run(sys.executable, "-m", "zoo_compute.cli.main", *arguments, "--json")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def follow(network: LocalNetwork, job: int, memory: Memory) -> None:
    """Until every claim is paid or convicted; says what happens, and at each turn's end what memory was taken."""
    chain, seen, end = network.devnet.chain, network.devnet.network.first_block, time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        network.poll()
        view = read_job(chain, job)
        for event in scan(chain, seen, view.block) if seen <= view.block else ():
            say(f"{event.name} {({k: v for k, v in event.args.items() if k in ('operator', 'seat', 'round', 'slot', 'amount')})}")  # fmt: skip
            if event.name in ("TurnClosed", "ClaimConvicted"):
                say(json.dumps(memory.figures()))
        seen = view.block + 1
        if view.settled:
            return
        agrees = {report["root"]: report.get("agrees") for report in network.verification_reports()}
        # A claim found false is asked about at its challenger's next look, which the windows must not pass.
        is_clean = all(agrees.get(claim.root.hex()) for claim in (*view.commits, *view.checkpoints))
        disputes = read_disputes(chain, chain.head(), job=job)
        if view.state == JobState.ENDED and is_clean and not any(each.is_open for each in disputes) and view.run:
            say("everything is verified; the clock goes forward past the windows")
            network.devnet.warp(view.run.window_s)
        time.sleep(2)
    raise TimeoutError(f"not settled after {LONGEST_S} s; logs in {network.folder}")


def measure(folder: Path, model: str, memory_gb: float, clocks: Mapping[str, int]) -> dict[str, Any]:
    states = folder / "states"
    states.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with LocalNetwork(folder / "net", plans(memory_gb, states)) as network:
        submitter = Submitter(network, folder)
        path = job_file(folder, model, clocks)
        memory = Memory(network)
        memory.start()
        number = int(submitter.zoo("train", str(path), "--max-budget", str(BUDGET), "--no-watch")["job"])
        follow(network, number, memory)
        used = memory.stop()
        result = submitter.zoo("job", "result", str(number), "--format", "hf", "--out", "trained")
        loaded = submitter.run(sys.executable, "-c", LOADS, str(folder / "trained"), str(CONTEXT))
        chain = network.devnet.chain
        view = read_job(chain, number)
        manifest = manifest_of(view, BlockStore(network.submitter_store))
        events = list(scan(chain, network.devnet.network.first_block, view.block))
        names = network.operators
        shares = {
            str(turn): {made.seat: names[made.operator] for made in view.checkpoints if made.turn == turn}
            for turn in sorted({made.turn for made in view.checkpoints})
        }
        return {
        "wall_s": round(time.monotonic() - began),
        "model": model,
        "parameters": loaded["parameters"],
        "shares": shares,
        "convicted": [
            {"operator": names.get(event.args.get("operator", 0), ""), **{k: v for k, v in event.args.items() if isinstance(v, int)}}
            for event in events
            if event.name == "ClaimConvicted"
        ],
        "memory_mb": used,
        "held_mb": held(manifest, BlockStore(network.submitter_store)),
        "result": {key: result[key] for key in ("round", "rounds", "final") if key in result},
        "loaded": loaded,
    }  # fmt: skip


def held(manifest: Any, store: BlockStore) -> dict[str, float]:
    """What a worker must hold while it trains: parameters, moments, and the least values of a step, in MB."""
    from repops import encoding

    graph = encoding.decode(store.read(manifest.program.cid, max_bytes=encoding.MAX_BYTES))
    measured, least = profile(graph), Fitting(graph).least
    return {
        "parameters": 4 * measured.parameters / MB,
        "state": measured.state_bytes / MB,
        "least_values": least.size / MB,
        "kept": kept_bytes(graph, measured) / MB,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="llama-500m", choices=sorted(name for name in MODELS if "llama" in name))
    parser.add_argument("--memory-gb", type=float, default=5.6, help="of each worker")
    parser.add_argument("--slot-s", type=int, default=3_600)
    parser.add_argument("--aggregate-s", type=int, default=1_800)
    parser.add_argument("--reexecute-s", type=int, default=900)
    parser.add_argument("--folder", type=Path, help="by default a temporary one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    clocks = {name: getattr(options, name) for name in ("slot_s", "aggregate_s", "reexecute_s")}
    with tempfile.TemporaryDirectory(prefix="zoo-large-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        measured = measure(folder.resolve(), options.model, options.memory_gb, clocks)
    print(json.dumps({"parameters_of_run": parameters_of(options), **measured}, indent=None if options.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
