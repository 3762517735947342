"""What pages and the API read: one view per question, from the index and from looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from zoo_compute.dashboard import read_dispute, read_job, read_network, read_operator
from zoo_compute.dashboard.views import (
    ChainView,
    DisputeDetail,
    DisputeList,
    DisputeLook,
    JobDetail,
    JobList,
    JobLook,
    NetworkView,
    NodeLook,
    OperatorDetail,
    OperatorList,
    OperatorLook,
    TokenView,
)

if TYPE_CHECKING:
    from zoo_compute.dashboard.index import Index

T = TypeVar("T")


class LooksAt(Protocol):
    """`looking.Looks`; `NoLooks` where there is no chain to read."""

    needs: list[str]

    def want(self, name: str, type_: type[T]) -> T | None: ...

    def picture(self, job: int) -> bytes: ...


class NoLooks:
    """Of a benchmark or a test: the index alone."""

    needs: list[str] = []  # noqa: RUF012 - never changed

    def want(self, name: str, type_: type[T]) -> T | None:
        return None

    def picture(self, job: int) -> bytes:
        return b""


@dataclass(frozen=True)
class Network:
    """What of the network file pages show."""

    name: str
    chain_id: int
    preset: str


class Reader:
    """Threads share it. home: the operator's folder on this machine; trouble: why the chain cannot be read, if it cannot."""

    def __init__(
        self,
        index: Index,
        network: Network,
        looks: LooksAt | None = None,
        home: Path | None = None,
        trouble: Callable[[], str] = str,
    ) -> None:
        self.index, self._network, self._looks, self._home = index, network, looks or NoLooks(), home
        self._trouble = trouble

    @property
    def changes(self) -> int:
        return self.index.changes

    def chain(self) -> ChainView:
        newest, network = self.index.newest, self._network
        number, at = (newest.number, newest.at) if newest else (0, 0)
        return ChainView(network.name, network.chain_id, network.preset, number, at, self._trouble())

    def network(self) -> NetworkView:
        return read_network.network(self.index.db, self.chain(), self._now())

    def jobs(self, state: str, before: int | None, limit: int) -> JobList:
        return read_network.jobs(self.index.db, state=state, before=before, limit=limit)

    def job(self, number: int) -> JobDetail | None:
        return read_job.job(self.index.db, number, self._now(), self._looks.want(f"job {number}", JobLook))

    def picture(self, job: int) -> bytes | None:
        """Of a rendering, as PNG; None where there is none, or not yet."""
        return self._looks.picture(job) or None

    def operators(self, after: int, limit: int) -> OperatorList:
        return read_network.operators(self.index.db, after=after, limit=limit)

    def operator(self, number: int) -> OperatorDetail | None:
        node = self.node()
        look = self._looks.want(f"operator {number}", OperatorLook)
        return read_operator.operator(
            self.index.db, number, self._now(), look, node if node and node.operator == number else None
        )

    def node(self) -> NodeLook | None:
        """Of the operator whose folder is on this machine."""
        return read_operator.node_in(self._home, self._looks.needs)

    def disputes(self, only_open: bool, limit: int) -> DisputeList:
        return read_dispute.disputes(self.index.db, only_open=only_open, limit=limit)

    def dispute(self, name: str) -> DisputeDetail | None:
        return read_dispute.dispute(self.index.db, name, self._looks.want(f"dispute {name}", DisputeLook))

    def tokens(self) -> list[TokenView]:
        return read_network.tokens(self.index.db)

    def _now(self) -> int:
        """The protocol's time at the newest block."""
        newest = self.index.newest
        return (newest.at if newest else 0) - read_network.stopped_s(self.index.db)
