"""State roots, step after step. Tensors that no step changes are hashed once."""

from __future__ import annotations

from collections.abc import Mapping

from repops.commitments import Array, state_root_of, tensor_roots
from repops.graph import Graph


class StateHasher:
    """Hashes the states that one program goes through.

    The program says which tensors never change. Their roots are cached for the arrays that were hashed, and those arrays
    become read-only: writing into one raises ValueError, so a cached root cannot go stale. `release` makes them writable
    again, to load another state.
    """

    def __init__(self, graph: Graph) -> None:
        self._steady = {entry.name for entry in graph.state if entry.after == entry.before}
        self._known: dict[str, tuple[Array, bytes]] = {}

    def root(self, state: Mapping[str, Array], *, threads: int = 1) -> bytes:
        return state_root_of(self.tensor_roots(state, threads=threads))

    def tensor_roots(self, state: Mapping[str, Array], *, threads: int = 1) -> dict[str, bytes]:
        """The root of each tensor of the state, by name."""
        known = {name: root for name, (array, root) in self._known.items() if _still(array, state.get(name))}
        sealed = {name: array for name, array in state.items() if name in self._steady - known.keys() and _seal(array)}
        fresh = tensor_roots({name: array for name, array in state.items() if name not in known}, threads=threads)
        self._known |= {name: (array, fresh[name]) for name, array in sealed.items()}
        return known | fresh

    def release(self) -> None:
        """Forget everything, and make the arrays writable again."""
        for array, _ in self._known.values():
            array.flags.writeable = True
        self._known.clear()


def _still(hashed: Array, original: Array | None) -> bool:
    """Whether this is the array that was hashed, and it has been read-only since."""
    return hashed is original and not hashed.flags.writeable


def _seal(array: Array) -> bool:
    """Make the array read-only. False if it already was: then another view of it may be writable."""
    if not array.flags.writeable:
        return False
    array.flags.writeable = False
    return True
