"""A small service that generates, beside what makes it: for tests of those who answer, check and judge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch

import repops
from node.compute.programs import Programs
from repops import encoding
from repops.commitments import Array, canonical, tensor_roots
from repops.files import state_bytes
from repops.graph import OPTIMIZER, Graph
from zoo_compute.models.asked import STEP, Asked
from zoo_compute.models.decoding_inputs import ASKED
from zoo_compute.models.generation import Generator, decoding_of
from zoo_compute.models.gpt import GPT
from zoo_compute.models.sampling import Sampling
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import BYTES, COMPLETIONS, ServedProgram, Service
from zoo_compute.store.cid import cid_of
from zoo_compute.store.interface import Store

CONTEXT, ROWS, VOCABULARY = 12, 2, 256


@dataclass(frozen=True)
class ServedModel:
    """service, and what its CIDs name."""

    service: Service
    graph: Graph
    weights: dict[str, Array]
    model: torch.nn.Module

    def programs(self) -> Programs:
        return Programs(self.graph)

    def question(self, *prompts: bytes, new_tokens: int = 4, nonce: bytes = b"n" * 32) -> Question:
        return Question(self.service, tuple(map(tuple, prompts or (b"ab", b"cde"))), new_tokens, nonce)


@cache
def served_model(temperature: float = 0.0, rows: int = ROWS) -> ServedModel:
    torch.manual_seed(0)
    model = GPT(1, 2, 16, CONTEXT, VOCABULARY, True).eval()
    generator = Generator(model, *decoding_of(model, CONTEXT), rows, Sampling(temperature))
    asked = Asked(generator, (CONTEXT, rows)).eval()
    zeros = torch.zeros(rows, dtype=torch.int64)
    graph = repops.trace_map(asked, zeros, CONTEXT, fresh=(*generator.fresh, STEP)).graph
    tensors = asked.state_dict()
    names = [entry.name for entry in graph.state if entry.kind != OPTIMIZER and entry.name != ASKED]
    weights = {name: canonical(tensors[name].numpy()) for name in names}
    program = ServedProgram(rows, cid_of(encoding.encode(graph)), encoding.root(graph).hex())
    roots = {name: root.hex() for name, root in tensor_roots(weights).items()}
    cid = cid_of(b"weights")
    service = Service(COMPLETIONS, "tiny", CONTEXT, VOCABULARY, None, BYTES, cid, roots, (program,))
    return ServedModel(service, graph, weights, model)


def stored(model: ServedModel, store: Store) -> str:
    """The files of a service in a store; the service's CID."""
    store.add(encoding.encode(model.graph))
    weights = store.add(state_bytes(model.weights))
    return store.add(replace(model.service, weights=weights).to_bytes())
