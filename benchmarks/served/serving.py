"""A GPT that a seat serves for vouchers, beside the same model in eager torch in this process.

The seat is `zoo serving start` in a process of its own, on a devnet; the client is the SDK's, in this process. Each request is paid by a
voucher and its receipt is checked; its answer is computed again with a chance of one in a thousand million, so never while this measures.
`eager` has a cache of keys and values of its own, and is the faster of two ways to write attention (benchmarks/served/decoding.py).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.served.decoding import BATCHES, CONTEXT, HEADS, LAYERS, WIDTH, Eager, Run, interleaved, model
from repops.commitments import canonical, tensor_roots
from tests.support.serving_market import SeatPlan, ServingMarket
from zoo_compute.chain.sender import Sender
from zoo_compute.inference.client import Inference, Terms, inference, scope_of
from zoo_compute.models import gpt
from zoo_compute.serving.service import Service
from zoo_compute.spec.params import ZEN

CHECK = 1e-9
# For 1,000 tokens, in wei of ZEN: small, so that the lock behind so rare a check stays payable.
PRICE, LOCK, DEPOSIT = 10**6, 100 * ZEN, ZEN
ASCII = 128  # bytes below are characters, which a stream says at once
SERVICE = """\
model: {{architecture: gpt, layers: {layers}, heads: {heads}, width: {width}, context: {context}}}
serve: {{kind: completions, model: gpt, context: {context}, rows: {rows}}}
"""


@dataclass(frozen=True)
class Size:
    """new_tokens: of each text, which begins with one token."""

    layers: int = LAYERS
    heads: int = HEADS
    width: int = WIDTH
    context: int = CONTEXT
    batches: tuple[int, ...] = BATCHES

    @property
    def new_tokens(self) -> int:
        return self.context - 1

    def model(self) -> gpt.GPT:
        return model(self.layers, self.heads, self.width, self.context)


@contextmanager
def served(folder: Path, size: Size, threads: int) -> Iterator[Inference]:
    """A client of a seat that answers. threads: of the seat."""
    file = folder / "service.yaml"
    rows = list(size.batches)
    file.write_text(
        SERVICE.format(layers=size.layers, heads=size.heads, width=size.width, context=size.context, rows=rows)
    )
    with ServingMarket(folder, file, [SeatPlan("operator", PRICE, LOCK)], threads) as market:
        sender = Sender(market.chain, market.devnet.account("client", zen=10 * ZEN), folder=folder)
        terms = Terms(PRICE, DEPOSIT, CHECK, scope=scope_of(market.devnet.preset))
        client = inference(
            market.chain,
            sender,
            market.store,
            market.service.cid,
            terms=terms,
            say=lambda _: None,
            home=folder / "client",
        )
        try:
            yield client
        finally:
            client.close()


def check_same(module: gpt.GPT, service: Service) -> None:
    """Raises AssertionError unless the service has the module's weights, bit by bit."""
    weights = {name: canonical(tensor.numpy()) for name, tensor in module.state_dict().items()}
    roots = {name: root.hex() for name, root in tensor_roots(weights).items()}
    assert {name: roots.get(name) for name in service.roots} == service.roots, "the service serves another model"


@dataclass
class Streamed:
    """Asks for a stream. first_s: seconds to the first piece, of each time."""

    client: Inference
    prompts: Sequence[Sequence[int]]
    new_tokens: int
    first_s: list[float] = field(default_factory=list)

    def __call__(self) -> list[list[int]]:
        began = time.perf_counter()
        pieces = self.client.stream(self.prompts, self.new_tokens)
        next(pieces)
        self.first_s.append(time.perf_counter() - began)
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                return [list(tokens) for tokens in end.value.tokens]


def first_tokens(module: gpt.GPT, count: int) -> list[int]:
    """Tokens to begin texts with: those whose next one is a character, so that a stream's first token is its first piece."""
    with torch.inference_mode():
        following = module(torch.arange(module.tokens.num_embeddings).unsqueeze(1))[:, 0].argmax(-1).tolist()
    return [token for token, after in enumerate(following) if after < ASCII][:count]


def measured(client: Inference, size: Size, batch: int, rounds: int) -> dict[str, float]:
    """The figures of a batch; ratios are medians over interleaved rounds."""
    module, new = size.model(), size.new_tokens
    check_same(module, client.service)
    first = first_tokens(module, batch)
    assert len(first) == batch, "too few tokens are followed by a character"
    prompts = [[token] for token in first]
    streamed = Streamed(client, prompts, new)
    peers: dict[str, Run] = {name: Eager(module, first, fused=name == "sdpa", steps=new) for name in ("plain", "sdpa")}
    starts: dict[str, Run] = {f"{name}_first": Eager(module, first, fused=name == "sdpa", steps=1) for name in peers}

    def asked() -> list[list[int]]:
        return [list(tokens) for tokens in client.complete(prompts, new).tokens]

    seconds = interleaved({"served": asked, "streamed": streamed, **peers, **starts}, rounds)
    fastest = min(peers, key=lambda name: statistics.median(seconds[name]))
    tokens = batch * new
    return {
        "ratio": _ratio(seconds[fastest], seconds["served"]),
        "served": tokens / statistics.median(seconds["served"]),
        "eager": tokens / statistics.median(seconds[fastest]),
        "streamed_ratio": _ratio(seconds[fastest], seconds["streamed"]),
        "streamed": tokens / statistics.median(seconds["streamed"]),
        "first_token_s": statistics.median(streamed.first_s[1:]),  # the first time warms up
        "eager_first_token_s": statistics.median(seconds[f"{fastest}_first"]),
        "equal": float((np.array(asked()) == np.array(peers[fastest]())).mean()),
    }


def _ratio(eager_s: Sequence[float], served_s: Sequence[float]) -> float:
    return statistics.median(eager / ours for eager, ours in zip(eager_s, served_s, strict=True))


def figures(folder: Path, size: Size, rounds: int, threads: int) -> dict[str, Any]:
    """serving_ratio, and batch_N of each. threads: of the seat and of torch here, alike."""
    torch.set_num_threads(threads)
    with served(folder, size, threads) as client:
        batches = {f"batch_{batch}": measured(client, size, batch, rounds) for batch in size.batches}
    return {"serving_ratio": min(each["ratio"] for each in batches.values()), **batches}
