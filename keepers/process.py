"""The processes of an operator: `python -m keepers.process keeper|worker --home DIR`, normally run by the daemon."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from celery.signals import setup_logging, worker_ready
from kombu.exceptions import OperationalError

from keepers import broker, worker
from keepers.answering import Answering
from keepers.app import KEEPER_QUEUE, MOVE_QUEUE, WORK_QUEUE, make_app
from keepers.config import OperatorConfig, load
from keepers.keeper import Keeper, write_status
from keepers.presence import Presence
from keepers.work import WorkLog, WorkQueue
from keepers.worker import Body
from zoo_compute.chain import keystore
from zoo_compute.chain.connection import connect
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.sender import Sender
from zoo_compute.errors import Unreachable, ZooError
from zoo_compute.store import open_store

log = logging.getLogger("zoo.process")
PEERS_EVERY_TICKS = 10


def configure_logging() -> None:
    """One line an event, UTC, to stderr; Celery keeps its hands off."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)sZ %(levelname)-7s %(name)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    for noisy in ("urllib3", "web3", "celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    setup_logging.connect(lambda **_: None, weak=False)


def say_ready(**_: Any) -> None:
    """One line that a supervisor can wait for."""
    log.info("ready as process %d", os.getpid())


def run_worker(config: OperatorConfig, name: str, queue: str, tasks: Mapping[str, Body]) -> None:
    """A worker: the store and a queue; no keys, no chain. `tasks` replaces bodies (of a cheating worker, say)."""
    client = broker.wait_ready(config.broker, config.folder)
    app = make_app(config)
    worklog = WorkLog(client, f"{config.name}-{name}")
    worklog.start_afresh()
    bodies = {task: tasks.get(task, body) for task, body in worker.tasks_of(queue).items()}
    presence = Presence(client, f"{config.name}-{name}") if queue == WORK_QUEUE else None
    if presence:
        presence.start()
    store = open_store(config.store_location)
    worker.bind(app, worklog, store, bodies, presence=presence, device=config.device, threads=config.threads)
    worker_ready.connect(say_ready, weak=False)
    worker.start(app, f"{config.name}-{name}", queue)


def run_keeper(config: OperatorConfig) -> None:
    """The keeper: the hot key, the chain and the queue; no torch work of its own."""
    client = broker.wait_ready(config.broker, config.folder)
    app = make_app(config)
    keeper = make_keeper(config, app, client)
    ticks = 0

    @app.task(name="keeper.watch", ignore_result=True)
    def watch() -> None:
        nonlocal ticks
        ticks += 1
        try:
            if ticks % PEERS_EVERY_TICKS == 1:
                keeper.refresh_peers()
        except (ZooError, ValueError) as error:  # old peers serve as well
            log.warning("the announced endpoints could not be read: %s", error)
        try:
            write_status(config, keeper.tick())
        except Unreachable as error:
            log.warning("%s; will try again", error)
        except ZooError as error:
            log.error("%s (%s)", error, error.hint)
        except redis.RedisError as error:
            log.warning("the broker does not answer: %s", error)

    def schedule(**_: Any) -> None:
        def beat() -> None:
            while True:
                try:
                    if client.llen(KEEPER_QUEUE) == 0:
                        watch.apply_async(expires=60, queue=KEEPER_QUEUE)
                except (redis.RedisError, OperationalError) as error:
                    log.warning("the broker does not answer: %s", error)
                time.sleep(config.poll_s)

        threading.Thread(target=beat, name="beat", daemon=True).start()
        if config.operator:
            answering = Answering(config.operator, keeper.chain, keeper.sender, keeper.store)
            threading.Thread(target=answering.run, name="answering", daemon=True).start()
        disputing = keeper.disputing()
        threading.Thread(target=disputing.run, args=(config.poll_s,), name="disputing", daemon=True).start()

    worker_ready.connect(schedule, weak=False)
    worker_ready.connect(say_ready, weak=False)
    app.Worker(
        pool="solo",
        queues=[KEEPER_QUEUE],
        hostname=f"keeper@{config.name}",
        loglevel="INFO",
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
    ).start()


def make_keeper(config: OperatorConfig, app: Celery, client: redis.Redis) -> Keeper:
    """Connect everything a keeper needs; waits for a chain that is not up yet."""
    network = load_network(config.network_path)
    account = keystore.unlock(config.path(config.keystore), config.path(config.passphrase_file).read_text().strip())
    while True:
        try:
            chain = connect(network)
            break
        except Unreachable as error:
            log.warning("%s; will try again", error)
            time.sleep(max(1.0, config.poll_s))
    sender = Sender(chain, account, ledger=config.folder / "transactions.jsonl", folder=config.folder)
    store = open_store(config.store_location)
    return Keeper(config, chain, account, sender, store, WorkQueue(app, client))


def main(argv: list[str] | None = None, tasks: Mapping[str, Body] | None = None) -> int:
    """tasks: bodies instead of a worker's own."""
    parser = argparse.ArgumentParser(prog="keepers.process", description=__doc__)
    parser.add_argument("role", choices=("keeper", "worker"))
    parser.add_argument("--home", type=Path, required=True, help="the operator's folder")
    parser.add_argument("--role", dest="roles", action="append", help="instead of those that operator.json lists")
    parser.add_argument("--name", default="0", help="tells workers of one operator apart")
    parser.add_argument("--queue", default=WORK_QUEUE, choices=(WORK_QUEUE, MOVE_QUEUE), help="what a worker serves")
    arguments = parser.parse_args(argv)
    configure_logging()
    os.umask(0o077)  # the broker's file holds sealed prices, the logs say what was decided
    try:
        config = load(arguments.home)
        if arguments.roles:
            config = dataclasses.replace(config, roles=arguments.roles)
        if arguments.role == "keeper":
            run_keeper(config)
        else:
            run_worker(config, arguments.name, arguments.queue, tasks or {})
    except ZooError as error:
        log.error("%s (%s)", error, error.hint)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
