"""The keeper's process: the hot key, the chain and the queue."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

import redis
from celery import Celery
from celery.signals import worker_ready
from kombu.exceptions import OperationalError
from web3.exceptions import Web3Exception

from keepers.config import OperatorConfig
from keepers.keeper import Keeper
from keepers.queue import broker
from keepers.queue.app import KEEPER_QUEUE, WATCH_TASK, make_app, print_ready
from keepers.queue.received_bytes import ReceivedBytes, open_counted
from keepers.queue.work_queue import WorkQueue
from keepers.services.demand_responder import DemandResponder
from zoo_compute.atomic import write_atomically
from zoo_compute.chain import keystore
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.fees import GWEI, FeeLimits
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.provider import FailoverProvider, redacted
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.wiring import check_wiring
from zoo_compute.errors import Unreachable, ZooError
from zoo_compute.paths import STATUS

log = logging.getLogger("zoo.process")
EVENTS = "events.sqlite3"
CLAIM_EVENTS = ("ResultsCommitted", "CheckpointPosted")
PEERS_EVERY_TICKS = 10
QUIET_LOOK_S = 3.0  # between looks while no block comes
# In the time between two looks: whether something was committed or posted, which is worth a look at once.
CLAIM_POLLS_PER_TICK = 4


def run_keeper(config: OperatorConfig) -> None:
    """The keeper: the hot key, the chain and the queue; no torch work of its own."""
    client = broker.wait_ready(config.broker, config.folder)
    app = make_app(config)
    keeper = make_keeper(config, app, client)
    ticks = 0

    @app.task(name=WATCH_TASK, ignore_result=True)
    def watch() -> None:
        nonlocal ticks
        ticks += 1
        try:
            if ticks % PEERS_EVERY_TICKS == 1:
                keeper.peers.refresh()
        except (ZooError, ValueError) as error:  # the old list of peers still works
            log.warning("the announced endpoints could not be read: %s", error)
        try:
            write_status(config, {**keeper.tick(), "rpcs": rpc_health(keeper.chain)})
        except Unreachable as error:
            log.warning("%s; will try again", error)
        except ZooError as error:
            log.error("%s (%s)", error, error.hint)
        except redis.RedisError as error:
            log.warning("the broker does not answer: %s", error)

    def schedule(**_: Any) -> None:
        looks = Looks()

        def beat() -> None:
            while True:
                try:
                    if client.llen(KEEPER_QUEUE) == 0 and looks.is_due(keeper.chain):
                        watch.apply_async(expires=60, queue=KEEPER_QUEUE)
                except (redis.RedisError, OperationalError) as error:
                    log.warning("the broker does not answer: %s", error)
                time.sleep(config.poll_s)

        threading.Thread(target=beat, name="beat", daemon=True).start()
        threading.Thread(target=wake_on_claims, args=(keeper, config.poll_s), name="glance", daemon=True).start()
        if config.operator:
            answering = DemandResponder(config.operator, keeper.chain, keeper.sender, keeper.store)
            threading.Thread(target=answering.run, name="answering", daemon=True).start()
        threading.Thread(target=keeper.retention.run, name="retention", daemon=True).start()
        if config.operator:
            threading.Thread(target=keeper.statements.run, name="statements", daemon=True).start()
            threading.Thread(target=keeper.signer_checks.run, name="checks", daemon=True).start()
        if keeper.receipts is not None:
            threading.Thread(target=keeper.receipts.run, name="receipts", daemon=True).start()
        threading.Thread(target=keeper.disputing.run, args=(config.poll_s,), name="disputing", daemon=True).start()

    worker_ready.connect(schedule, weak=False)
    worker_ready.connect(print_ready, weak=False)
    app.Worker(
        pool="solo",
        queues=[KEEPER_QUEUE],
        hostname=f"keeper@{config.name}",
        loglevel="INFO",
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
    ).start()


class Looks:
    """When the keeper looks: at each new block, and now and then in between, in case work was lost. A worker that is done wakes it anyway."""

    def __init__(self) -> None:
        self._block, self._last = b"", 0.0

    def is_due(self, chain: Chain) -> bool:
        now = time.monotonic()
        try:
            block = chain.head().hash
        except (ZooError, Web3Exception):
            block = b""  # the look reports it
        if block and block == self._block and now - self._last < QUIET_LOOK_S:
            return False
        self._block, self._last = block, now
        return True


def wake_on_claims(keeper: Keeper, poll_s: float) -> None:
    """Wake the keeper when the chain has a new claim: its next look may be most of a second away."""
    seen = 0
    while True:
        time.sleep(poll_s / CLAIM_POLLS_PER_TICK)
        try:
            head = keeper.chain.head()
            newest = keeper.events.last_block_of(CLAIM_EVENTS, head)
            if seen and newest > seen:
                keeper.work.wake()
            seen = head.number
        except (ZooError, Web3Exception, redis.RedisError, OperationalError) as error:
            log.warning("%s; will try again", error)
        except Exception:  # without this thread claims are seen later, and nobody would notice
            log.exception("unexpected")


def make_keeper(config: OperatorConfig, app: Celery, client: redis.Redis) -> Keeper:
    """Connect everything a keeper needs; waits for a chain that is not up yet."""
    network = load_network(config.network_path)
    account = keystore.unlock(config.path(config.keystore), config.path(config.passphrase_file).read_text().strip())
    while True:
        try:
            chain = connect(network)
            check_wiring(chain)
            if isinstance(chain.w3.provider, FailoverProvider):
                chain.w3.provider.look()  # before anything is decided
            break
        except Unreachable as error:
            log.warning("%s; will try again", error)
            time.sleep(max(1.0, config.poll_s))
    limits = FeeLimits(
        routine=round(config.max_fee_gwei * GWEI),
        urgent=round(max(config.max_fee_gwei, config.max_urgent_fee_gwei) * GWEI),
        priority=round(config.max_priority_fee_gwei * GWEI),
    )
    ledger = config.folder / "transactions.jsonl"
    sender = Sender(chain, account, ledger=ledger, folder=config.folder, limits=limits)
    use_store(chain, config.folder / EVENTS, config.operator)
    chain.follow()
    store = open_counted(config, client)
    return Keeper(config, chain, account, sender, store, WorkQueue(app, client), ReceivedBytes(client))


def rpc_health(chain: Chain) -> list[dict[str, Any]]:
    """What the status file says of each RPC, without its path, which may contain a key."""
    endpoints = getattr(chain.w3.provider, "endpoints", ())
    return [
        {"rpc": redacted(each.url), "well": each.is_well(), "head": each.head, "lag": each.lag, "trouble": each.trouble}
        for each in endpoints
    ]


def write_status(config: OperatorConfig, status: dict[str, Any]) -> None:
    """Write the result of the last tick, for `zoo keeper status`."""
    write_atomically(config.folder / STATUS, (json.dumps(status, indent=2) + "\n").encode(), mode=0o644)
