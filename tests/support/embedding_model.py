"""A small service that embeds texts, beside what makes it."""

from __future__ import annotations

from functools import cache

import torch

import repops
from repops import encoding
from repops.commitments import canonical, tensor_roots
from repops.graph import OPTIMIZER
from tests.support.served_model import CONTEXT, ROWS, VOCABULARY, ServedModel
from zoo_compute.models.asked import STEP, Asked
from zoo_compute.serving.service import ASKED, BYTES, EMBEDDINGS, ServedProgram, Service
from zoo_compute.store.cid import cid_of


@cache
def embedding_model() -> ServedModel:
    """A vector for each text: the mean of its tokens' vectors."""
    torch.manual_seed(1)
    asked = Asked(_Mean(), (1, ROWS, CONTEXT)).eval()
    graph = repops.trace_map(asked, torch.zeros(ROWS, CONTEXT, dtype=torch.int64), 1, fresh=(STEP,)).graph
    tensors = asked.state_dict()
    names = [entry.name for entry in graph.state if entry.kind != OPTIMIZER and entry.name != ASKED]
    weights = {name: canonical(tensors[name].numpy()) for name in names}
    program = ServedProgram(ROWS, cid_of(encoding.encode(graph)), encoding.root(graph).hex())
    roots = {name: root.hex() for name, root in tensor_roots(weights).items()}
    service = Service(EMBEDDINGS, "mean", CONTEXT, VOCABULARY, None, BYTES, cid_of(b"weights"), roots, (program,))
    return ServedModel(service, graph, weights, asked)


class _Mean(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embedding(tokens).mean(1)
