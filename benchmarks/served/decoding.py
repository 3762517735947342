"""Tokens a second of the decoding step beside eager torch with its own cache of keys and values, interleaved in one process.

python -m benchmarks.served.decoding [--json] [--rounds N] [--threads N]

Prints a table, or one object with --json. A GPT of 6 layers, 384 wide, 6 heads, vocabulary 256 fills its context of 256 greedily, with so
many threads (by default one; with more, both suffer where other processes want the cores). `eager` is the faster of two: attention written out, and scaled_dot_product_attention, each on the
positions so far. `own` is the program that a worker runs, by its kernels. Ratios are medians over interleaved rounds.
  decoding_ratio        tokens/s of own over eager, the smaller one of batch 1 and batch 8 (higher is better)
  batch_N.ratio         the same at batch N; own, eager: their tokens/s
  batch_N.hashed_ratio  with the roots that a worker of a map commits to: of the state at each quarter, and before the first step
  batch_N.equal         the share of tokens on which both agree: sums in another order may turn a choice that is all but a tie
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import repops
from benchmarks.arithmetic.reproducible import cpu_name
from node.compute.programs import Programs
from repops.commitments import Array
from zoo_compute.models import gpt
from zoo_compute.models.decoding_inputs import inputs_of
from zoo_compute.models.generation import Generator, decoding_of

LAYERS, HEADS, WIDTH, CONTEXT = 6, 6, 384, 256
BATCHES = (1, 8)
STEPS = CONTEXT - 1
Run = Callable[[], list[list[int]]]  # texts, a list of tokens for each row


def model(layers: int = LAYERS, heads: int = HEADS, width: int = WIDTH, context: int = CONTEXT) -> gpt.GPT:
    torch.manual_seed(0)
    module = gpt.build(layers, heads, width, context)[0].eval()
    assert isinstance(module, gpt.GPT)
    return module


class Eager:
    """The model in eager torch, with a cache of its own in memory that is there from the start. fused: by torch's own attention.

    first: the token that each text begins with; steps: new tokens.
    """

    def __init__(self, module: gpt.GPT, first: Sequence[int], *, fused: bool, steps: int = STEPS) -> None:
        self.module, self.batch, self.fused = module, len(first), fused
        self.first, self.steps = torch.tensor(first), steps
        cache = module.cache_shape
        self.keys, self.values = (
            [torch.zeros(self.batch, heads, cache.context, width) for heads, width in cache.layers] for _ in "kv"
        )

    @torch.inference_mode()
    def __call__(self) -> list[list[int]]:
        tokens = self.first
        made = []
        for position in range(self.steps):
            tokens = self._step(tokens, position)
            made.append(tokens)
        return torch.stack(made, 1).tolist()

    def _step(self, tokens_B: Tensor, position: int) -> Tensor:
        module = self.module
        x_B1W = (module.tokens(tokens_B) + module.positions.weight[position]).unsqueeze(1)
        for layer, block in enumerate(module.blocks):
            assert isinstance(block, gpt.Block)
            x_B1W = x_B1W + self._attention(layer, block.attention, block.norm_1(x_B1W), position)
            wide = functional.gelu(block.expand(block.norm_2(x_B1W)), approximate="tanh")
            x_B1W = x_B1W + block.contract(wide)
        head = module.tokens.weight if module.head is None else module.head.weight
        return functional.linear(module.norm(x_B1W), head)[:, 0].argmax(-1)

    def _attention(self, layer: int, attention: gpt.Attention, x_B1W: Tensor, position: int) -> Tensor:
        q, k, v = attention.qkv(x_B1W).view(self.batch, 1, 3, attention.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys[layer][:, :, position : position + 1] = k
        self.values[layer][:, :, position : position + 1] = v
        keys, values = (each[layer][:, :, : position + 1] for each in (self.keys, self.values))
        if self.fused:
            y = functional.scaled_dot_product_attention(q, keys, values)
        else:
            y = torch.softmax((q * attention.scale) @ keys.transpose(-2, -1), dim=-1) @ values
        out: Tensor = attention.projection(y.transpose(1, 2).reshape(x_B1W.shape))
        return out


class Own:
    """The decoding step as a worker runs it."""

    def __init__(self, module: gpt.GPT, batch: int, threads: int) -> None:
        self.threads = threads
        generator = Generator(module, *decoding_of(module, CONTEXT), batch).eval()
        program = repops.trace_map(generator, torch.zeros(batch, dtype=torch.int64), STEPS, fresh=generator.fresh)
        self.programs = Programs(program.graph)
        self.start: dict[str, Array] = {name: t.numpy() for name, t in program.initial_state(generator).items()}
        self.inputs = inputs_of([[row] for row in range(batch)], STEPS)
        self.programs.begin(self.start)
        self.programs.state_root()  # of the weights, which a worker of several rounds hashes once

    def __call__(self) -> list[list[int]]:
        return self._run(hashed=False)

    def with_roots(self) -> list[list[int]]:
        """With the roots of the states that a worker commits to."""
        return self._run(hashed=True)

    def _run(self, *, hashed: bool) -> list[list[int]]:
        state = self.programs.step.state
        for name in (*self.programs.graph.outputs, "step"):
            state[name][...] = 0
        if hashed:
            self.programs.state_root()
        for step, row in enumerate(self.inputs, 1):
            self.programs.step.step({"inputs": row}, threads=self.threads)
            if hashed and step % -(-STEPS // 4) == 0:
                self.programs.state_root()
        if hashed:
            self.programs.state_root()
        texts: list[list[int]] = state["outputs"].T.astype(int).tolist()
        return texts


def interleaved(timed: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds of each in every round, interleaved, so that disturbances of the machine affect all alike."""
    for run in timed.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, run in timed.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def measured(batch: int, rounds: int, threads: int) -> dict[str, float]:
    """The figures of a batch."""
    module = model()
    own = Own(module, batch, threads)
    peers: dict[str, Run] = {
        f"eager_{name}": Eager(module, range(batch), fused=name == "sdpa") for name in ("plain", "sdpa")
    }
    seconds = interleaved({"own": own, "hashed": own.with_roots, **peers}, rounds)
    fastest = min(peers, key=lambda name: statistics.median(seconds[name]))
    pairs = {name: zip(seconds[fastest], seconds[name], strict=True) for name in ("own", "hashed")}
    texts, wanted = np.array(own()), np.array(peers[fastest]())
    return {
        "ratio": statistics.median(eager / ours for eager, ours in pairs["own"]),
        "hashed_ratio": statistics.median(eager / ours for eager, ours in pairs["hashed"]),
        **{name: batch * STEPS / statistics.median(each) for name, each in seconds.items()},
        "eager": batch * STEPS / statistics.median(seconds[fastest]),
        "equal": float((texts == wanted).mean()),
    }


def figures(rounds: int, threads: int) -> dict[str, Any]:
    batches = {f"batch_{batch}": measured(batch, rounds, threads) for batch in BATCHES}
    made: dict[str, Any] = {"decoding_ratio": min(each["ratio"] for each in batches.values()), **batches}
    versions = {"torch": torch.__version__, "machine": platform.machine(), "cpu": cpu_name(), "cores": os.cpu_count()}
    return {**made, "rounds": rounds, "threads": threads, **versions}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--threads", type=int, default=1, help="of each (default 1)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    made = figures(options.rounds, options.threads)
    if options.json:
        print(json.dumps(made))
        return 0
    for key, value in made.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for name, each in rows:
            print(f"{f'{key} {name}':<28} {each:.4g}" if isinstance(each, float) else f"{f'{key} {name}':<28} {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
