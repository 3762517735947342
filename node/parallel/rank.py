"""One rank: a process that runs its part of a program when the worker asks, and ends when the worker does.

Run by `ranks.py` with a socket to the worker as its only argument. Ranks reach each other by gloo on the loopback interface.
"""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from node.parallel.setup import RankSetup
from repops.commitments import Array, tensor_root
from repops.parallel.placement import Piece
from repops.parallel.rank import PendingMessage, RankRunner, Words
from repops.parallel.roots import Leaves, leaves_of


class Gloo:
    """Messages by torch.distributed."""

    def send(self, words: Words, target: int, tag: int) -> PendingMessage:
        return _started(dist.isend(torch.from_numpy(words), target, tag=tag)) if words.size else _NOTHING

    def receive(self, words: Words, source: int, tag: int) -> PendingMessage:
        return _started(dist.irecv(torch.from_numpy(words), source, tag=tag)) if words.size else _NOTHING


class _Nothing:
    def wait(self) -> None:
        """There is nothing to wait for."""


_NOTHING = _Nothing()


def _started(work: Any) -> PendingMessage:
    assert work is not None, "this process is no member of the group"
    done: PendingMessage = work
    return done


class RankServer:
    """Answers one request after another: each method of a request's name takes its arguments and gives the answer."""

    def __init__(self, opening: RankSetup) -> None:
        self._part, self._threads = opening.part, opening.threads
        self._runner = RankRunner(opening.part, Gloo())

    def batch_names(self) -> set[str]:
        return self._runner.batch_names()

    def memory(self) -> dict[str, int]:
        return self._runner.memory

    def step(self, batch: dict[str, Array]) -> float | None:
        return self._runner.step(batch, threads=self._threads)

    def loss(self, batch: dict[str, Array]) -> float | None:
        return self._runner.loss(batch, threads=self._threads)

    def write(self, name: str, pieces: list[Array]) -> None:
        """A tensor's pieces; an array of one element fills its piece."""
        for piece, array in zip(self._part.pieces[name], pieces, strict=True):
            self._runner.state[piece.entry][...] = array

    def read(self, name: str) -> list[tuple[int, Array]]:
        """The pieces of a tensor that are here, with the row at which each starts."""
        return [(piece.start, self._runner.state[piece.entry]) for piece in self._part.pieces[name]]

    def roots(self, whole: set[str]) -> dict[str, bytes | list[tuple[int, Leaves]]]:
        """Of each tensor that is `whole` here its root, of the others what their roots are joined from."""
        out: dict[str, bytes | list[tuple[int, Leaves]]] = {}
        for name, pieces in self._part.pieces.items():
            if name in whole:
                out[name] = tensor_root(self._runner.state[pieces[0].entry], threads=self._threads)
            else:
                out[name] = [self._leaves(piece) for piece in pieces]
        return out

    def _leaves(self, piece: Piece) -> tuple[int, Leaves]:
        array = self._runner.state[piece.entry]
        row = array.nbytes // max(1, piece.stop - piece.start)
        return piece.start, leaves_of(array, piece.start * row)


def serve(worker: Connection) -> None:
    """Answers until the worker is gone, or has no more use for its ranks."""
    opening: RankSetup = worker.recv()
    torch.set_num_threads(opening.threads)
    _meet(opening)
    server = RankServer(opening)
    worker.send((True, None))
    while True:
        try:
            name, *arguments = worker.recv()
        except EOFError:
            return
        worker.send((True, getattr(server, name)(*arguments)))


def _meet(opening: RankSetup) -> None:
    loopback = "lo" if sys.platform == "linux" else "lo0"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{opening.rendezvous_file}",
        rank=opening.part.rank,
        world_size=opening.ranks,
        timeout=timedelta(seconds=opening.timeout_s),
    )


def main() -> None:
    """Ends at once, whatever gloo still waits for: peers may be gone."""
    with Connection(int(sys.argv[1])) as worker:
        try:
            serve(worker)
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            with contextlib.suppress(OSError):  # the worker may be gone too
                worker.send((False, f"{type(error).__name__}: {error}"))
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
