"""A keeper's way to become its operator's sender, where several share a broker: it follows the chain until its turn comes, and then begins
where the last sender ended.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import redis
from web3.exceptions import Web3Exception

from keepers.config import EMBEDDED, OperatorConfig
from keepers.monitoring import metrics
from keepers.monitoring.lanes import Lanes, Progressed
from keepers.queue import broker, seals
from keepers.queue.broker_memory import relieve
from keepers.queue.sender_lease import SenderLease, holder
from zoo_compute.atomic import write_atomically
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.pending_transactions import PendingTransactions
from zoo_compute.chain.sender import Sender
from zoo_compute.errors import ConfigError, ZooError
from zoo_compute.paths import STATUS

log = logging.getLogger("zoo.process")

TURN = "turn"  # the loop of a keeper that waits
ASK_S = 1.0  # between two tries to take the lease
ANSWER_PART = 0.1  # of the lease's time, for an answer of the broker: a renewal must not wait for a dead connection
UNKNOWN_S = 180.0  # how long transactions that nobody here knows are waited for


def await_turn(config: OperatorConfig, chain: Chain, address: str, lanes: Lanes) -> SenderLease | None:
    """Return once this keeper is the sender. None: it shares its broker with no other keeper. Raises BrokerUnreachable."""
    if config.broker == EMBEDDED:
        return None
    client = broker.connect(config.broker, config.folder, timeout_s=max(0.5, config.lease_s * ANSWER_PART))
    lease = SenderLease(
        client,
        seals.load(config.folder),
        name=config.name,
        account=f"{chain.network.chain_id}-{address.lower()}",
        lease_s=config.lease_s,
    )
    is_turn = threading.Event()
    progressed = lanes.begin(TURN)
    lanes.start("following", lambda stepped: follow(chain, is_turn, stepped))
    try:
        _wait_for_lease(config, chain, client, lease, address, progressed)
        lease.keep()
        log.info("this keeper takes over as the sender in %.0f s", lease.waits_s())
        while lease.waits_s() > 0:
            progressed()
            time.sleep(min(ASK_S, lease.waits_s()))
    finally:
        is_turn.set()
        lanes.end(TURN)
    return lease


def succeed(sender: Sender, progressed: Progressed, *, wait: Callable[[float], object] = time.sleep) -> None:
    """Take over the last sender's transactions. What it sent and nobody here knows is waited for, so that nothing is sent again."""
    deadline = time.monotonic() + UNKNOWN_S
    while unknown := sender.take_over():
        progressed()
        if time.monotonic() > deadline:
            log.error("%d transactions that nobody here knows are not mined; this keeper goes on all the same", unknown)
            return
        log.warning("%d transactions of the last sender are not mined, and nobody here knows what they are", unknown)
        wait(ASK_S)


def follow(chain: Chain, is_turn: threading.Event, progressed: Progressed) -> None:
    """Read the chain's events until then, so that the first look comes soon after."""
    assert chain.event_store is not None, "a keeper reads all jobs: event_log.use_store"
    newest, seen_at = 0, time.monotonic()
    metrics.BLIND_S.set_function(lambda: time.monotonic() - seen_at)
    while not is_turn.wait(ASK_S):
        progressed()
        try:
            head = chain.head()
            if head.number > newest:
                newest, seen_at = head.number, time.monotonic()
            with chain.event_store.at(head):
                pass
        except (ZooError, Web3Exception) as error:
            log.warning("%s; will try again", error)


def _wait_for_lease(
    config: OperatorConfig,
    chain: Chain,
    client: redis.Redis,
    lease: SenderLease,
    address: str,
    progressed: Progressed,
) -> None:
    """Take it as soon as nobody has it. Meanwhile the status file says who sends."""
    metrics.IS_SENDER.set(0)
    outbox, last = PendingTransactions(config.folder, chain.network.chain_id, address), ""
    while True:
        progressed()
        try:
            chain.head()  # who cannot see the chain is no sender
            if lease.take():
                return
            with outbox.locked() as box:  # the broker may have lost what this keeper sent when it was the sender
                lease.offer(box.entries)
            said = f"{holder(client, seals.load(config.folder)) or 'another keeper'} sends for this operator"
            _write(config, chain, said, [])
        except redis.RedisError as error:
            said = f"the broker does not answer: {error}"
            relieve(client)  # if it is full, it takes no lease either
        except ConfigError as error:
            said = f"{error} ({error.hint})"
            _write(config, chain, "", [said])
        except (ZooError, Web3Exception) as error:
            said = str(error)
        if said != last:
            log.info("waiting to be the sender: %s", said)
        last = said
        time.sleep(ASK_S)


def _write(config: OperatorConfig, chain: Chain, waits: str, trouble: list[str]) -> None:
    status: dict[str, Any] = {"block": chain.head().number, "jobs": {}, "trouble": trouble, "waits": waits}
    write_atomically(config.folder / STATUS, (json.dumps(status, indent=2) + "\n").encode(), mode=0o644)
