"""What a keeper's metrics say (keepers/monitoring/metrics.py): after each look at the chain, and of what a look does not read."""

from __future__ import annotations

import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import redis

from keepers.decisions.urgency import deadlines
from keepers.monitoring import metrics
from keepers.monitoring.slashes import SlashCounter
from keepers.queue.app import DISPUTE_QUEUE, KEEPER_QUEUE, WORK_QUEUE
from keepers.queue.broker_memory import memory_of
from keepers.queue.busy_time import BusyTime
from keepers.queue.presence import speeds_of
from zoo_compute import spending
from zoo_compute.amounts import Token
from zoo_compute.chain.fees import GWEI
from zoo_compute.chain.tokens import token_at
from zoo_compute.errors import ZooError
from zoo_compute.operators.readiness import LEAST_GAS

if TYPE_CHECKING:
    from keepers.config import OperatorConfig
    from keepers.monitoring.lanes import Lanes, Progressed
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.views import JobView, OperatorView

log = logging.getLogger("zoo.keeper")

PAUSE_S = 15.0
COIN = 10**18


@dataclass(frozen=True)
class Look:
    """What a tick saw. now: the protocol's time. asks_due: when the asks about this operator's claims are to be answered."""

    head: Head
    now: int
    operator: OperatorView | None
    views: Sequence[JobView]
    asks_due: Sequence[int]


class Observer:
    """Sets the metrics of one keeper. hot: the address that pays for gas. clock: seconds that only grow."""

    def __init__(
        self,
        config: OperatorConfig,
        chain: Chain,
        client: redis.Redis,
        lanes: Lanes,
        hot: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._chain = chain
        self._redis = client
        self._hot = hot
        self._clock = clock
        self._lanes = lanes
        self._newest = (0, clock())  # the newest block, and when it was seen
        self._slashes = SlashCounter(chain, config.operator, config.folder) if config.operator else None
        self._counted: dict[str, int] = {}  # slashes, in whole so far, by token; "": their number
        network = chain.network
        metrics.INFO.labels(
            config.name, str(config.operator), network.name, str(network.chain_id), _version()
        ).set(1)  # fmt: skip
        metrics.BLIND_S.set_function(lambda: self._clock() - self._newest[1])
        self._count_slashes()  # what was lost before this process began is in its counters from the start

    def run(self, progressed: Progressed) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            try:
                self.poll_once()
            except (ZooError, redis.RedisError, OSError) as error:
                log.warning("metrics: %s; will try again", error)
            progressed()
            time.sleep(PAUSE_S)

    def poll_once(self) -> None:
        """What a look at the chain does not read."""
        self._watch_lanes()
        self._disk()
        self._queue()
        spending.add(self._config.folder, BusyTime(self._redis).take())
        block = self._chain.w3.eth.get_block("latest")
        base_fee = int(block.get("baseFeePerGas", 0))
        metrics.BASE_FEE.set(base_fee / GWEI)
        metrics.HOT_COIN_LEAST.set(LEAST_GAS * base_fee / COIN)
        metrics.HOT_COIN.set(self._chain.coin(self._hot) / COIN)
        if self._slashes is not None:
            self._slashes.look(int(block["number"]))
        self._count_slashes()

    def after_look(self, look: Look, status: Mapping[str, Any], seconds: float) -> None:
        """status: as status.json has it."""
        metrics.LOOK_S.observe(seconds)
        if look.head.number > self._newest[0]:
            self._newest = look.head.number, self._clock()
        metrics.HEAD_BLOCK.set(look.head.number)
        metrics.HEAD_TIME.set(look.head.timestamp)
        metrics.JOBS.clear()
        for state, count in Counter(status["jobs"].values()).items():
            metrics.JOBS.labels(state).set(count)
        metrics.NOT_BIDDING.set(len(status["not_bidding"]))
        metrics.TROUBLES.set(len(status["trouble"]))
        for gauge in (metrics.RPC_WELL, metrics.RPC_LAG):
            gauge.clear()
        for rpc in status.get("rpcs", ()):
            # One that never answered is asked again now and then, and counts as well until it fails once more.
            metrics.RPC_WELL.labels(rpc["rpc"]).set(rpc["well"] and not rpc.get("trouble"))
            metrics.RPC_LAG.labels(rpc["rpc"]).set(rpc["lag"])
        self._duties(look)
        if look.operator is not None:
            self._money(look.operator)

    def _watch_lanes(self) -> None:
        for name in self._lanes.idle_s():
            metrics.LANE_IDLE_S.labels(name).set_function(partial(self._lanes.idle_of, name))
            metrics.LANE_FAILURES.labels(name).set(self._lanes.failures[name])

    def _duties(self, look: Look) -> None:
        mine, params = self._config.operator, self._chain.params
        claims = [c for view in look.views for c in view.claims if c.operator == mine and not c.final] if mine else []
        metrics.PENDING_CLAIMS.set(len(claims))
        demands = [d for view in look.views for d in view.demands if d.is_open and d.operator == mine]
        metrics.OPEN_DEMANDS.set(len(demands))
        metrics.OPEN_ASKS.set(len(look.asks_due))
        due = seconds_left(look.views, mine, params.ready_window_s, params.answer_s) if mine else {}
        if look.asks_due:
            due["ask"] = min(look.asks_due) - look.now
        metrics.DEADLINE_S.clear()
        for what, left in due.items():
            metrics.DEADLINE_S.labels(what).set_function(self._counting_down(left))

    def _counting_down(self, left: int) -> Callable[[], float]:
        end = self._clock() + left
        return lambda: end - self._clock()

    def _money(self, operator: OperatorView) -> None:
        metrics.STAKE.set(operator.stake / COIN)
        for gauge in (metrics.COLLATERAL, metrics.LOCKED, metrics.OWED):
            gauge.clear()
        for address, (balance, locked) in operator.collateral.items():
            token = self._token(address)
            metrics.COLLATERAL.labels(token.symbol).set(balance / 10**token.decimals)
            metrics.LOCKED.labels(token.symbol).set(locked / 10**token.decimals)
        for address, amount in operator.owed.items():
            token = self._token(address)
            metrics.OWED.labels(token.symbol).set(amount / 10**token.decimals)

    def _token(self, address: str) -> Token:
        return token_at(self._chain, address)

    def _disk(self) -> None:
        places = {"folder": self._config.folder}
        if not self._config.store.startswith("kubo:"):
            places["store"] = self._config.path(self._config.store)
        for name, path in places.items():
            if path.exists():
                usage = shutil.disk_usage(path)
                metrics.DISK_FREE.labels(name).set(usage.free)
                metrics.DISK_SIZE.labels(name).set(usage.total)

    def _queue(self) -> None:
        for queue in (KEEPER_QUEUE, WORK_QUEUE, DISPUTE_QUEUE):
            metrics.QUEUE.labels(queue).set(int(self._redis.llen(queue)))  # type: ignore[arg-type]
        metrics.WORKERS.set(len(speeds_of(self._redis)))
        used, most = memory_of(self._redis)
        metrics.BROKER_BYTES.set(used)
        metrics.BROKER_MAX_BYTES.set(most)

    def _count_slashes(self) -> None:
        if self._slashes is None:
            return
        total = self._slashes.total
        metrics.SLASHES.labels(str(self._config.operator)).inc(total.count - self._counted.get("", 0))
        for address, amount in total.amounts.items():
            token = self._token(address)
            metrics.SLASHED.labels(token.symbol).inc((amount - self._counted.get(address, 0)) / 10**token.decimals)
        self._counted = {"": total.count, **total.amounts}


def seconds_left(views: Sequence[JobView], operator: int, ready_window_s: int, answer_s: int) -> dict[str, int]:
    """To the first deadline of each kind (keepers/decisions/urgency.py). Negative: it passed."""
    left: dict[str, int] = {}
    for view in views:
        for kind, second in deadlines(view, operator, ready_window_s, answer_s):
            left[kind] = min(left.get(kind, second - view.now), second - view.now)
    return left


def _version() -> str:
    try:
        return version("zoo-compute")
    except PackageNotFoundError:
        return "unknown"
