"""A training step as a program: a slot runs it, a verifier reruns it, the referee judges it. This is the library's API.

program = repops.trace(module, loss_fn, torch.optim.AdamW(module.parameters()), (inputs, targets))
state = program.initial_state(module)
state, loss = program.step(state, (inputs, targets))
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repops import words
from repops.backend import DTYPE, Runner, prepare
from repops.batches import named_arrays
from repops.commitments import Array
from repops.encoding import decode, encode, root
from repops.files import write_file
from repops.graph import OPTIMIZER, SEED, Graph
from repops.profile import Profile, profile

TORCH = {np.dtype(np.float32): torch.float32, np.dtype(np.int32): torch.int32}


class StateConsumed(RuntimeError):
    """A state was used after the step that consumed it."""


class State(Mapping[str, Tensor]):
    """Name -> tensor (float32 or int32, on the CPU): parameters, buffers and the optimiser's entries.

    A state that `Program.step` returned lives in the program's own memory. The next step updates it in place and
    consumes this object; call `clone` first to keep the old state.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors: dict[str, Tensor] | None = dict(tensors)

    def __getitem__(self, name: str) -> Tensor:
        return self._live()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._live())

    def __len__(self) -> int:
        return len(self._live())

    def __repr__(self) -> str:
        return "State(consumed)" if self._tensors is None else f"State({len(self._tensors)} tensors)"

    def clone(self) -> State:
        """A state with memory of its own."""
        return State({name: tensor.clone() for name, tensor in self.items()})

    def _live(self) -> dict[str, Tensor]:
        if self._tensors is None:
            raise StateConsumed(
                "this state was updated in place by a later step; use the state that step returned, "
                "or keep a copy with state.clone() before it"
            )
        return self._tensors


class Program:
    """A graph, its root, its profile, and the runner for this machine."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._resident: weakref.ref[State] | None = None

    @cached_property
    def root(self) -> bytes:
        """The 32 bytes that a job commits to on chain."""
        return root(self.graph)

    @cached_property
    def profile(self) -> Profile:
        return profile(self.graph)

    @property
    def exchanged(self) -> tuple[str, ...]:
        """Names of the tensors that nodes exchange: the module's float tensors that a step changes, or a map's outputs."""
        return self.graph.exchanged

    def to_bytes(self) -> bytes:
        return encode(self.graph)

    @classmethod
    def from_bytes(cls, data: bytes) -> Program:
        """Raises graph.BadProgram."""
        return cls(decode(data))

    def initial_state(self, module: torch.nn.Module, seed: int = 0) -> State:
        """The module's parameters and buffers with a fresh optimiser. seed: 32 bits, for the module's random draws."""
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return self.begin(
            {entry.name: tensors[entry.name] for entry in self.graph.state if entry.name in tensors}, seed
        )

    def begin(self, tensors: Mapping[str, Tensor], seed: int = 0) -> State:
        """A state from these parameters and buffers, with the optimiser's entries at zero. Raises ValueError."""
        state = {}
        for entry in self.graph.state:
            node = self.graph.nodes[entry.before]
            dtype = TORCH[DTYPE[node.dtype]]
            if entry.kind == OPTIMIZER:
                start = words.signed(seed & words.MASK) if entry.name == SEED else 0
                state[entry.name] = torch.full(node.shape, start, dtype=dtype)
                continue
            if entry.name not in tensors:
                raise ValueError(f"state: {entry.kind} {entry.name!r} is missing")
            tensor = tensors[entry.name].detach().to("cpu")
            _check(entry.name, tensor, node.shape, dtype)
            state[entry.name] = tensor.to(dtype, copy=True).contiguous()
        return State(state)

    def step(self, state: Mapping[str, Tensor], batch: Any) -> tuple[State, Tensor]:
        """Run one optimiser step. Returns the new state, and the loss before it as a float32 scalar.

        batch: (inputs, targets) of the traced shapes. A state that a step returned is consumed; any other is copied.
        A step whose loss or gradients are not finite, or whose indices are out of range, leaves the state as it was.
        Raises ValueError when a tensor does not fit the program.
        """
        arrays = named_arrays(batch)
        self._settle(state)
        loss = self.runner.step(arrays, threads=torch.get_num_threads())
        if isinstance(state, State) and self._resident is not None and self._resident() is state:
            state._tensors = None
        new = State({name: torch.from_numpy(array) for name, array in self.runner.state.items()})
        self._resident = weakref.ref(new)
        return new, torch.tensor(loss, dtype=torch.float32)

    def loss(self, state: Mapping[str, Tensor], batch: Any) -> Tensor:
        """The loss of a batch, computed as in a step. Leaves the state unchanged."""
        arrays = named_arrays(batch)
        self._settle(state)
        return torch.tensor(self.runner.loss(arrays, threads=torch.get_num_threads()), dtype=torch.float32)

    @cached_property
    def runner(self) -> Runner:
        return prepare(self.graph)

    def _settle(self, state: Mapping[str, Tensor]) -> None:
        """Copy `state` into the runner's memory; a state that lives there is moved out first."""
        resident = self._resident() if self._resident is not None else None
        if resident is state:
            return
        arrays = self._arrays(state)
        if resident is not None and resident._tensors is not None:
            resident._tensors = dict(resident.clone())
        self._resident = None
        for name, array in arrays.items():
            self.runner.state[name][...] = array

    def _arrays(self, state: Mapping[str, Tensor]) -> dict[str, Array]:
        arrays = {}
        for entry in self.graph.state:
            node = self.graph.nodes[entry.before]
            if entry.name not in state:
                raise ValueError(f"state: {entry.kind} {entry.name!r} is missing")
            _check(entry.name, state[entry.name], node.shape, TORCH[DTYPE[node.dtype]])
            arrays[entry.name] = state[entry.name].detach().cpu().numpy()
        if len(state) != len(arrays):
            raise ValueError(f"state: the program has no {sorted(set(state) - set(arrays))[0]!r}")
        return arrays


def _check(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    integers = dtype == torch.int32 and tensor.dtype in (torch.int32, torch.int64, torch.bool)
    if tuple(tensor.shape) != shape or not (tensor.dtype == dtype or integers):
        raise ValueError(f"state: {name!r} is {tensor.dtype} {tuple(tensor.shape)}, the program takes {dtype} {shape}")


def save(program: Program, path: str | Path) -> None:
    """Write the program file."""
    write_file(path, program.to_bytes())


def load(source: str | Path | bytes) -> Program:
    """Load a program from its file or its bytes. Raises graph.BadProgram."""
    return Program.from_bytes(source if isinstance(source, bytes) else Path(source).read_bytes())
