"""Every metric of an operator's processes, by the process that has it. docs/reference/metrics.md lists them for readers.

A gauge that nothing has set yet is NaN, which no alert's comparison is true for.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]

KEEPER, GATEWAY, WORKER, DAEMON = (CollectorRegistry() for _ in range(4))
REGISTRIES = {"keeper": KEEPER, "gateway": GATEWAY, "worker": WORKER, "daemon": DAEMON}
for _registry in REGISTRIES.values():
    ProcessCollector(registry=_registry)


def _gauge(name: str, text: str, registry: CollectorRegistry, *labels: str) -> Gauge:
    gauge = Gauge(name, text, labels, registry=registry)
    if not labels:
        gauge.set(float("nan"))
    return gauge


# -- what the keeper sees of the chain
INFO = _gauge(
    "zoo_keeper_info", "1; labels say who this is", KEEPER, "name", "operator", "network", "chain_id", "version"
)
IS_SENDER = _gauge(
    "zoo_keeper_is_sender", "Whether this keeper sends; 0: it waits, and another one sends for its operator", KEEPER
)
HEAD_BLOCK = _gauge("zoo_head_block", "Number of the newest block that the keeper saw", KEEPER)
HEAD_TIME = _gauge("zoo_head_timestamp_seconds", "Timestamp of that block", KEEPER)
BLIND_S = _gauge("zoo_blind_seconds", "Seconds since the keeper saw a block that is newer than the one before", KEEPER)
LOOK_S = Histogram(
    "zoo_look_seconds", "Seconds that a look at the chain and its duties took", registry=KEEPER,
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600),
)  # fmt: skip
LOOKS_FAILED = Counter("zoo_looks_failed", "Looks that ended with an error", ["why"], registry=KEEPER)
BASE_FEE = _gauge("zoo_base_fee_gwei", "Base fee of the newest block", KEEPER)
RPC_WELL = _gauge("zoo_rpc_well", "Whether the keeper uses an RPC", KEEPER, "rpc")
RPC_LAG = _gauge("zoo_rpc_lag_blocks", "Blocks between an RPC's newest one and the others'", KEEPER, "rpc")

# -- its loops
LANE_IDLE_S = _gauge("zoo_lane_idle_seconds", "Seconds since a loop of the keeper made progress", KEEPER, "lane")
LANE_FAILURES = _gauge("zoo_lane_failures", "How often a loop ended with an error since the start", KEEPER, "lane")

# -- what it has to do
JOBS = _gauge("zoo_jobs", "Jobs that the keeper looks at, by state", KEEPER, "state")
NOT_BIDDING = _gauge("zoo_jobs_not_bidding", "Open jobs that this operator cannot bid for", KEEPER)
TROUBLES = _gauge("zoo_troubles", "Things that need a person, as `zoo node status` lists them", KEEPER)
PENDING_CLAIMS = _gauge("zoo_pending_claims", "Claims of this operator that are not final", KEEPER)
OPEN_DEMANDS = _gauge("zoo_open_demands", "Demands for data that this operator has to answer", KEEPER)
OPEN_ASKS = _gauge("zoo_open_asks", "Asks about this operator's claims without an answer", KEEPER)
DEADLINE_S = _gauge(
    "zoo_deadline_seconds", "Seconds until the next deadline of this operator, by what is due", KEEPER, "due"
)

# -- money, in whole tokens and coins
HOT_COIN = _gauge("zoo_hot_coin", "Coin of the hot key, for gas", KEEPER)
HOT_COIN_LEAST = _gauge(
    "zoo_hot_coin_least", "Coin that the answers of one defence cost at the present base fee", KEEPER
)
STAKE = _gauge("zoo_stake", "Stake in ZEN", KEEPER)
COLLATERAL = _gauge("zoo_collateral", "Collateral, locked or not", KEEPER, "token")
LOCKED = _gauge("zoo_collateral_locked", "Collateral that bids, seats and claims lock", KEEPER, "token")
OWED = _gauge("zoo_owed", "Payments to be withdrawn", KEEPER, "token")
# Without labels these would be 0 until the keeper has read what it counted before, which looks like new losses afterwards.
SLASHES = Counter(
    "zoo_slashes", "Losses of collateral or stake, also those while the keeper was down", ["operator"], registry=KEEPER
)
SLASHED = Counter("zoo_slashed", "Amount of these losses", ["token"], registry=KEEPER)

# -- this machine
DISK_FREE = _gauge("zoo_disk_free_bytes", "Free bytes of the disk that has the folder or the store", KEEPER, "place")
DISK_SIZE = _gauge("zoo_disk_size_bytes", "Size of that disk", KEEPER, "place")
DISK_FLOOR = _gauge("zoo_disk_floor_bytes", "Free space below which no new work is taken (`free_space_gb`)", KEEPER)
STORE_BYTES = _gauge("zoo_store_bytes", "Bytes of the store; only with a quota", KEEPER)
STORE_MAX = _gauge("zoo_store_max_bytes", "Quota of the store (`store_max_gb`); 0: none", KEEPER)
QUEUE = _gauge("zoo_queue_length", "Work that waits for a worker", KEEPER, "queue")
WORKERS = _gauge("zoo_workers_present", "Workers that reported within ten seconds", KEEPER)
BROKER_BYTES = _gauge("zoo_broker_memory_bytes", "Memory that the broker's data takes", KEEPER)
BROKER_MAX_BYTES = _gauge("zoo_broker_memory_max_bytes", "Memory that it may take; 0: it has no limit", KEEPER)
OUTCOMES_DELETED = Counter(
    "zoo_broker_outcomes_deleted",
    "Outcomes of work deleted because the broker's memory was nearly full",
    registry=KEEPER,
)

# -- a worker
WORK = Counter("zoo_work", "Pieces of work, by task and outcome", ["task", "outcome"], registry=WORKER)
WORK_S = Histogram(
    "zoo_work_seconds", "Seconds that a piece of work took", ["task"], registry=WORKER,
    buckets=(0.1, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400),
)  # fmt: skip
BUSY_S = Gauge("zoo_worker_busy_seconds", "Seconds since the worker began what it does; 0: it is idle", registry=WORKER)

# -- the gateway
ANSWERS = Counter("zoo_gateway_answers", "Answers of the gateway, by HTTP status", ["status"], registry=GATEWAY)
SENT = Counter("zoo_gateway_sent_bytes", "Bytes of these answers", registry=GATEWAY)

# -- the daemon
UP = _gauge("zoo_process_up", "Whether a process runs", DAEMON, "process")
RESPONDS = _gauge("zoo_process_responds", "Whether a process answers the daemon", DAEMON, "process")
RESTARTS = Counter("zoo_process_restarts", "Processes that were started again", ["process", "why"], registry=DAEMON)
ROTATIONS = Counter("zoo_log_rotations", "Logs that were rotated", ["process"], registry=DAEMON)
