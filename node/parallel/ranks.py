"""The ranks of one program, seen from the worker. If one dies, hangs or refuses, all are ended, and the error names it.

Ranks are processes in sessions of their own, so that Ctrl-C reaches the worker alone; each ends when its socket to the worker does.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from node.errors import RankLost
from node.parallel.setup import RankSetup
from repops.parallel.rank import RankPart

START_S = 120.0  # to start, import torch, meet and prepare kernels
ANSWER_S = 600.0  # to one request: a step, or the roots of the state
FINAL_OUTPUT_S = 2.0  # for which the others are heard when one has failed: the first to speak is seldom the cause
END_S = 5.0


class Ranks:
    """Not for several threads. After RankLost it is of no further use."""

    def __init__(self, parts: Sequence[RankPart], *, threads: int = 1, timeout_s: float = ANSWER_S) -> None:
        self._timeout_s, patience_s = timeout_s, max(START_S, timeout_s)
        self._folder = tempfile.mkdtemp(prefix="zoo-ranks-")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._sockets: list[Connection] = []
        self.alive = True
        try:
            for _ in parts:
                self._start()
            meeting = str(Path(self._folder) / "meeting")
            for rank, part in enumerate(parts):
                self._send(rank, RankSetup(part, len(parts), meeting, patience_s, threads))
            self._answers(range(len(parts)), patience_s)
        except BaseException:
            self._end(0)
            raise

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "node.parallel.rank", str(theirs.fileno())]
            self._sockets.append(Connection(ours.detach()))
            self._processes.append(
                subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True)
            )

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """The answer of every rank, in order. Raises RankLost."""
        return self.ask_each(name, {rank: arguments for rank in range(len(self._sockets))})

    def ask_each(self, name: str, arguments: Mapping[int, Sequence[Any]]) -> list[Any]:
        """The answers of some ranks, each asked with its own arguments."""
        if not self.alive:
            raise RankLost("its ranks have ended", hint="start the work again")
        try:
            for rank, values in arguments.items():
                self._send(rank, (name, *values))
            return self._answers(arguments, self._timeout_s)
        except BaseException:
            self._end(0)
            raise

    def _send(self, rank: int, message: object) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is found dead where its answer is read
            self._sockets[rank].send(message)

    def _answers(self, ranks: Collection[int], limit_s: float) -> list[Any]:
        answers: dict[int, Any] = {}
        failed: dict[int, str | None] = {}
        number = {id(self._sockets[rank]): rank for rank in ranks}
        deadline = time.monotonic() + limit_s
        while len(answers) + len(failed) < len(ranks):
            waiting = [self._sockets[rank] for rank in ranks if rank not in answers and rank not in failed]
            ready = wait(waiting, max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for each in ready:
                assert isinstance(each, Connection)
                rank = number[id(each)]
                sound, answer = self._heard(each)
                if sound:
                    answers[rank] = answer
                else:
                    failed[rank] = answer
            if failed:
                deadline = min(deadline, time.monotonic() + FINAL_OUTPUT_S)
        if failed or len(answers) < len(ranks):
            raise self._lost(failed, [rank for rank in ranks if rank not in answers], limit_s)
        return [answers[rank] for rank in ranks]

    def _heard(self, connection: Connection) -> tuple[bool, Any]:
        try:
            sound, answer = connection.recv()
        except (EOFError, ConnectionResetError):
            return False, None
        return sound, answer

    def _lost(self, failed: dict[int, str | None], silent: Sequence[int], limit_s: float) -> RankLost:
        hint = "the work is tried again; see that the machine has memory for all ranks"
        for rank in (rank for rank, message in failed.items() if message is None):  # dead without a word: the cause
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._processes[rank].wait(FINAL_OUTPUT_S)
            return RankLost(f"rank {rank} died ({_ending(self._processes[rank].returncode)})", hint=hint)
        for rank, message in failed.items():
            return RankLost(f"rank {rank}: {message}", hint=hint)
        return RankLost(f"ranks {', '.join(map(str, silent))} did not answer within {limit_s:g} s", hint=hint)

    def close(self) -> None:
        """End every rank, and wait for it. More than once does no harm."""
        self._end(END_S)

    def _end(self, patience_s: float) -> None:
        self.alive = False
        for connection in self._sockets:
            connection.close()
        deadline = time.monotonic() + patience_s
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._end(0)


def _ending(code: int | None) -> str:
    if code is None:
        return "no exit status"
    return f"signal {-code}" if code < 0 else f"exit status {code}"
