"""The Celery application of one operator. Built from a configuration, never from the environment at import."""

from __future__ import annotations

import logging
import os
from typing import Any

from celery import Celery

from keepers.config import OperatorConfig
from keepers.queue.broker import celery_url_of

KEEPER_QUEUE = "keeper"  # watches and decides; its process holds the hot key
WORK_QUEUE = "work"  # trains, re-executes, aggregates; its processes hold no keys
DISPUTE_QUEUE = "disputes"  # their clocks are short: workers of their own serve them
WATCH_TASK = "keeper.watch"  # the keeper's task: one look at the chain, and what is due
RESULT_TTL_S = 7 * 86_400


log = logging.getLogger("zoo.process")


def print_ready(**_: Any) -> None:
    """One line that a supervisor can wait for."""
    log.info("ready as process %d", os.getpid())


def make_app(config: OperatorConfig) -> Celery:
    """A Celery application on the operator's own broker. Only JSON crosses it.

    It keeps no results: outcomes are recorded, sealed, under the work's name (keepers/queue/worker_leases.py).
    """
    url = celery_url_of(config.broker, config.folder)
    app = Celery(f"zoo-{config.name}", broker=url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        # A message is taken once. A shard lost with its worker is found by its missing lease and sent again
        # (keepers/queue/work_queue.py), which is quicker than the broker's visibility timeout and never doubles long work.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        worker_send_task_events=config.task_events,
        beat_schedule_filename=str(config.folder / "redis" / "beat"),
        task_default_queue=KEEPER_QUEUE,
        timezone="UTC",
    )
    return app
