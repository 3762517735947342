"""The keeper's process: the hot key, the chain and the queue."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import redis
from celery import Celery
from celery.signals import worker_ready
from kombu.exceptions import OperationalError
from web3.exceptions import Web3Exception

from keepers.config import OperatorConfig
from keepers.keeper import Keeper
from keepers.monitoring import metrics
from keepers.monitoring.lanes import Lanes, Progressed
from keepers.monitoring.server import serve_daemon
from keepers.processes.succession import await_turn, succeed
from keepers.queue import broker, seals
from keepers.queue.app import KEEPER_QUEUE, WATCH_TASK, make_app, print_ready
from keepers.queue.broker_memory import relieve
from keepers.queue.listening import Listening
from keepers.queue.received_bytes import ReceivedBytes, open_counted
from keepers.queue.sender_lease import SenderLease
from keepers.queue.work_queue import WorkQueue
from keepers.services.bid_seals import SECRET
from keepers.services.demand_responder import DemandResponder
from keepers.services.observing import Observer
from zoo_compute.atomic import write_atomically
from zoo_compute.chain import keystore
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.fees import GWEI, FeeLimits
from zoo_compute.chain.fence import FencedAccount
from zoo_compute.chain.hot_signer import check_repeats, open_signer
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.provider import FailoverProvider, redacted
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.signer import HotKey
from zoo_compute.chain.wiring import check_wiring
from zoo_compute.errors import Unreachable, ZooError
from zoo_compute.paths import STATUS, TRANSACTIONS

log = logging.getLogger("zoo.process")
EVENTS = "events.sqlite3"
LOOKS = "looks"  # the loop of a keeper that decides and sends
CLAIM_EVENTS = ("ResultsCommitted", "CheckpointPosted")
PEERS_EVERY_TICKS = 10
ROUTINE_S = 20.0  # of a look, for a transaction that can wait
QUIET_LOOK_S = 3.0  # between looks while no block comes
# In the time between two looks: whether something was committed or posted, which is worth a look at once.
CLAIM_POLLS_PER_TICK = 4


def run_keeper(config: OperatorConfig) -> None:
    """The keeper: the hot key, the chain and the queue; no torch work of its own."""
    client = broker.wait_ready(config.broker, config.folder)
    app = make_app(config)
    lanes = Lanes()
    began = time.monotonic()
    metrics.BLIND_S.set_function(
        lambda: time.monotonic() - began
    )  # no RPC may answer for long: the alert must not wait
    serve_daemon(metrics.KEEPER, lambda: health_of(lanes, config.hung_after_s))
    keeper, lease = make_keeper(config, app, client, lanes)
    metrics.IS_SENDER.set(1)
    observer = Observer(config, keeper.chain, client, lanes, keeper.sender.address)
    ticks = 0

    @app.task(name=WATCH_TASK, ignore_result=True)
    def watch() -> None:
        nonlocal ticks
        ticks += 1
        keeper.progressed()
        try:
            if ticks % PEERS_EVERY_TICKS == 1:
                keeper.peers.refresh()
        except (ZooError, ValueError) as error:  # the old list of peers still works
            log.warning("the announced endpoints could not be read: %s", error)
        look(config, keeper, observer, relieve(client))
        keeper.progressed()

    def beat(progressed: Progressed) -> None:
        looks = Looks()
        while True:
            try:
                if client.llen(KEEPER_QUEUE) == 0 and looks.is_due(keeper.chain):
                    watch.apply_async(expires=60, queue=KEEPER_QUEUE)
            except (redis.RedisError, OperationalError) as error:
                log.warning("the broker does not answer: %s", error)
                relieve(client)  # it refuses to queue a look when its memory is full
            progressed()
            time.sleep(config.poll_s)

    def schedule(**_: Any) -> None:
        keeper.progressed = lanes.begin(LOOKS)
        lanes.start("beat", beat)
        start_lanes(config, keeper, lanes)
        lanes.start("metrics", observer.run)

    Listening(client, KEEPER_QUEUE).start()
    worker_ready.connect(schedule, weak=False)
    worker_ready.connect(print_ready, weak=False)
    try:
        app.Worker(
            pool="solo",
            queues=[KEEPER_QUEUE],
            hostname=f"keeper@{config.name}",
            loglevel="INFO",
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
        ).start()
    finally:
        if lease is not None:
            lease.release()


def start_lanes(config: OperatorConfig, keeper: Keeper, lanes: Lanes) -> None:
    """What a keeper does beside its looks, each in a thread of its own."""
    lanes.start("glance", lambda progressed: wake_on_claims(keeper, config.poll_s, progressed))
    if keeper.pricing.script is not None:
        lanes.start("prices", keeper.pricing.script.run)
    lanes.start("retention", keeper.retention.run, pause_s=keeper.retention.pause_s)
    if config.operator:
        answering = DemandResponder(config.operator, keeper.chain, keeper.sender, keeper.store)
        lanes.start("answering", answering.run)
        lanes.start("statements", keeper.statements.run)
        lanes.start("checks", keeper.signer_checks.run)
        lanes.start("channels", keeper.served_channels.run, pause_s=keeper.served_channels.pause_s)
    if keeper.receipts is not None:
        lanes.start("receipts", keeper.receipts.run, pause_s=keeper.receipts.pause_s)
    lanes.start("disputing", lambda progressed: keeper.disputing.run(config.poll_s, progressed))


def look(config: OperatorConfig, keeper: Keeper, observer: Observer, trouble: Sequence[str] = ()) -> None:
    """One look at the chain; what goes wrong is logged and counted. trouble: what needs a person besides."""
    began = time.monotonic()
    try:
        status = {**keeper.tick(), "rpcs": rpc_health(keeper.chain), "workers": keeper.work.workers()}
        status["trouble"] += trouble
        write_status(config, status)
        if keeper.last_look is not None:
            observer.after_look(keeper.last_look, status, time.monotonic() - began)
    except Unreachable as error:
        metrics.LOOKS_FAILED.labels("unreachable").inc()
        log.warning("%s; will try again", error)
    except ZooError as error:
        metrics.LOOKS_FAILED.labels("error").inc()
        log.error("%s (%s)", error, error.hint)
    except redis.RedisError as error:
        metrics.LOOKS_FAILED.labels("broker").inc()
        log.warning("the broker does not answer: %s", error)
    except Exception:
        metrics.LOOKS_FAILED.labels("error").inc()
        raise


def health_of(lanes: Lanes, hung_after_s: float) -> dict[str, Any]:
    """Whether every loop makes progress; which one does not; whether this keeper sends. hung_after_s: 0 never minds."""
    hung, idle_s = lanes.hung(hung_after_s) if hung_after_s else [], lanes.idle_s()
    return {
        "ok": not hung,
        "hung": hung,
        "sends": LOOKS in idle_s,
        "idle_s": {name: round(s, 1) for name, s in idle_s.items()},
    }


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


def wake_on_claims(keeper: Keeper, poll_s: float, progressed: Progressed = lambda: None) -> None:
    """Wake the keeper when the chain has a new claim: its next look may be most of a second away."""
    seen = 0
    while True:
        progressed()
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


def make_keeper(
    config: OperatorConfig, app: Celery, client: redis.Redis, lanes: Lanes
) -> tuple[Keeper, SenderLease | None]:
    """Connect everything a keeper needs; waits for a chain that is not up yet, and until this keeper is its operator's sender."""
    network = load_network(config.network_path)
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
    use_store(chain, config.folder / EVENTS, config.operator)
    chain.follow()
    account = open_hot_key(config, chain)
    lease = await_turn(config, chain, account.address, lanes)
    with ExitStack() as unless_made:
        if lease is not None:
            unless_made.callback(lease.release)  # at once, for the next start of this keeper or for another one
        signer = account if lease is None else FencedAccount(account, lease)
        ledger, limits = config.folder / TRANSACTIONS, fee_limits(config)
        sender = Sender(
            chain, signer, ledger=ledger, folder=config.folder, routine_s=ROUTINE_S, limits=limits, fence=lease
        )
        if lease is not None:
            succeed(sender, lanes.begin("succession"))
            lanes.end("succession")
        store = open_counted(config, client)
        queue = WorkQueue(app, client, seals.load(config.folder))
        keeper = Keeper(config, chain, signer, sender, store, queue, ReceivedBytes(client))
        unless_made.pop_all()
    return keeper, lease


def open_hot_key(config: OperatorConfig, chain: Chain) -> HotKey:
    """What the keeper signs with; waits for a signer that does not answer yet. Raises KeystoreError, SignerRefuses."""
    if not config.signer:
        passphrase = keystore.read_passphrase(config.path(config.passphrase_file))
        return keystore.unlock(config.path(config.keystore), passphrase)
    signer = open_signer(config.signer)
    while True:
        try:
            signer.use(chain.registry.hot_key(config.operator) if config.operator else "")
            check_repeats(signer, SECRET)
            return signer
        except Unreachable as error:
            log.warning("%s; will try again", error)
            time.sleep(max(1.0, config.poll_s))


def fee_limits(config: OperatorConfig) -> FeeLimits:
    return FeeLimits(
        routine=round(config.max_fee_gwei * GWEI),
        urgent=round(max(config.max_fee_gwei, config.max_urgent_fee_gwei) * GWEI),
        priority=round(config.max_priority_fee_gwei * GWEI),
    )


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
