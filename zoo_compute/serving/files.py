"""A service's files in a content store, checked against their roots; and a question as plain JSON, which names its service by CID."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from repops import encoding, files
from repops.commitments import Array
from repops.fields import BadField
from repops.graph import OPTIMIZER, BadProgram, Graph
from zoo_compute.errors import UserError
from zoo_compute.models.decoding_inputs import ASKED
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import MAX_SERVICE_BYTES, ServedProgram, Service
from zoo_compute.store.interface import Store
from zoo_compute.training.rounds import file_bytes

TIMEOUT_S = 120.0  # for one file


class BadService(UserError):
    """A service's file, or one that it names, is not what it should be."""


@dataclass(frozen=True)
class StoredService:
    """A service with its CID, and the store that has its files."""

    cid: str
    service: Service
    store: Store

    @classmethod
    def fetch(cls, store: Store, cid: str) -> StoredService:
        """Raises BadService and the store's errors."""
        data = store.read(cid, max_bytes=MAX_SERVICE_BYTES, timeout_s=TIMEOUT_S)
        try:
            return cls(cid, Service.from_bytes(data), store)
        except BadField as error:
            raise BadService(f"{cid} is no service: {error}") from error

    def graph(self, program: ServedProgram) -> Graph:
        """The program of a step."""
        data = self.store.read(program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=TIMEOUT_S)
        try:
            graph = encoding.decode(data)
        except BadProgram as error:
            raise BadService(f"the program {program.cid}: {error}") from error
        if encoding.root(graph).hex() != program.root:
            raise BadService(f"the program {program.cid} has another root than the service says")
        return graph

    def weights(self, graph: Graph) -> dict[str, Array]:
        """The model's tensors. Their roots are compared by who loads them."""
        nodes = {each.name: graph.nodes[each.before] for each in graph.state if each.kind != OPTIMIZER}
        del nodes[ASKED]
        cid, most = self.service.weights, file_bytes(nodes)
        with self.store.open(cid, timeout_s=TIMEOUT_S, max_bytes=most) as stream:
            try:
                tensors = dict(files.read_tensors(stream, max_bytes=most))
            except files.FileRefused as error:
                raise BadService(f"the weights {cid}: {error}") from error
        if {name: array.shape for name, array in tensors.items()} != {name: node.shape for name, node in nodes.items()}:
            raise BadService(f"the weights {cid} are not of the model that the program has")
        return tensors

    def question(self, raw: Mapping[str, Any]) -> Question:
        """From `plain`. Raises BadService."""
        try:
            prompts = tuple(tuple(int(token) for token in prompt) for prompt in raw["prompts"])
            return Question(self.service, prompts, int(raw["new_tokens"]), bytes.fromhex(raw["nonce"]))
        except (KeyError, TypeError, ValueError, BadField) as error:
            raise BadService(f"not a question to {self.service.model}: {error}") from error


def plain(cid: str, question: Question) -> dict[str, Any]:
    """cid: the service's."""
    return {
        "service": cid,
        "prompts": [list(prompt) for prompt in question.prompts],
        "new_tokens": question.new_tokens,
        "nonce": question.nonce.hex(),
    }
