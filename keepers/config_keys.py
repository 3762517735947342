"""Every key of operator.json: what it means, and the values that it takes.

`keepers.config` checks values against this table; `zoo node schema` and docs/reference/operator-json.md are made from it.
"""

from __future__ import annotations

from zoo_compute.config_keys import Key, Keys
from zoo_compute.gpus import PERIODS
from zoo_compute.spec.params import MAX_AGGREGATORS

MAX_SLOTS = 512  # of a seat: their results must fit a bundle of one block
ROLES = ("provider", "aggregator", "verifier", "custodian")
LOG_FORMATS = ("text", "json")

KEYS: Keys = {
    "name": Key(
        "for logs, and for its workers and lease where folders [share a broker](guides/several-machines.md); another one in each folder"
    ),
    "network": Key("the network file; paths here are relative to the folder"),
    "operator": Key("the number that `zoo node register` printed; 0 for a verifier that is not registered", 0, 2**63),
    "keystore": Key("the hot key's file"),
    "passphrase_file": Key("the file with its passphrase"),
    "signer": Key(
        "instead of the key file: where web3signer (`http://127.0.0.1:9000`, `https://HOST`) or clef (`clef:/PATH/clef.ipc`, "
        "`clef:http://127.0.0.1:8550`) answers, which has the hot key ([signer](guides/separation.md#the-hot-key-in-a-signer))",
        default="none",
    ),
    "store": Key("a folder, or `kubo:http://127.0.0.1:5001`"),
    "gateway_host": Key("where the gateway listens; 0.0.0.0 is all addresses"),
    "gateway_port": Key("the port on which the gateway listens; 0 is any free one", 0, 65_535),
    "endpoint": Key("the URL that the keeper announces for the gateway", default="none"),
    "broker": Key(
        "or `redis://` on loopback, elsewhere `rediss://` with password and certificate ([why](guides/separation.md)); Redis 6.2 or later"
    ),
    "lease_s": Key(
        "of keepers that share a broker: seconds for which the one that sends may be silent before another one takes its place, which then "
        "waits as long once more ([two keepers](guides/runbooks.md#two-keepers-for-one-operator)). The same in all of them. An embedded "
        "broker is not shared and needs none",
        1,
        300,
    ),
    "broker_max_mb": Key(
        "memory of the embedded broker; 0 is a sixteenth of what this machine or container has, 64 to 1,024 MB "
        "([Redis](guides/disk.md#redis))",
        0,
        1_000_000,
    ),
    "roles": Key(
        "any of provider, aggregator, verifier, custodian; `register` writes provider, and aggregator if the machine has 8 GB of main "
        "memory, enough for a checkpoint and all updates of a round",
        words=ROLES,
    ),
    "price": Key("in ZEN: the least you accept per slot-round. Bid your cost: you are paid the critical price"),
    "aggregator_price": Key("in ZEN: the least you accept per aggregation"),
    "custody_price": Key(
        "the least you accept as a custodian, in ZEN per GiB and round ([holding data](guides/operating.md#holding-data-for-pay))"
    ),
    "prices": Key(
        'by the address of another payment token `{"price": "0.8", "aggregator_price": "0.1", "custody_price": "0.01"}`, or some of them, '
        "in whole tokens; the node never bids on jobs in a token without a price. `zoo node configure --price 0.8 --token 0x...` writes "
        "one, without a price removes it. Collateral must be there in that token: `zoo node deposit N --token 0x...`"
    ),
    "allow": Key(
        "addresses of the only submitters whose jobs the node serves; empty: anybody's ([whom to serve](guides/money.md#whom-to-serve))"
    ),
    "deny": Key("addresses of submitters whose jobs the node never serves"),
    "price_script": Key(
        "a program that is asked for the price of each job, instead of `price` and `aggregator_price`; it is asked only for jobs in ZEN "
        "and in tokens of `prices` ([a price for each job](guides/money.md#a-price-for-each-job))",
        default="none",
    ),
    "power_watts": Key("watts of a worker that computes; 0: measured, where the GPU's driver says it", 0, 1e6),
    "power_price": Key("what a kWh costs you in ZEN"),
    "capacity": Key(
        "slots of one job you can train in its round time; at most the results that one commitment file can list",
        1,
        MAX_SLOTS,
    ),
    "aggregator_capacity": Key(
        "shares of one job's model that you combine in a round, where several aggregators divide it: each is a seat with its own lock and "
        "price, and your worker combines one after another",
        1,
        MAX_AGGREGATORS,
    ),
    "branch_networks": Key(
        "network files of other chains on which jobs' branches may have trained: a custodian computes where a merged job begins before it "
        "holds it, and leaves alone what it cannot compute ([a partition](guides/operating.md#a-partition))"
    ),
    "keep_days": Key(
        "days after a job is closed for which its files and records stay; 0 keeps them for good ([what is kept](guides/disk.md))",
        0,
        36_500,
    ),
    "free_space_gb": Key(
        "free space of the disk below which the node takes no new work; near it, files that nothing needs go first "
        "([a disk that is nearly full](guides/disk.md#a-disk-that-is-nearly-full))",
        0,
        1_000_000,
    ),
    "store_max_gb": Key("size of the store beyond which the node takes no new work; 0: no limit", 0, 1_000_000),
    "longest_job_days": Key("jobs that could lock collateral for longer are left alone", 1, 3_650),
    "standby": Key("take over seats that others lose, in any job, once they pay your own price"),
    "workers": Key("worker processes on this machine, beside those for disputes", 1, 256),
    "dispute_workers": Key(
        "processes that compute answers and asks of disputes; one job's disputes never take the last one "
        "([disputes](guides/operating.md#disputes))",
        1,
        64,
    ),
    "spares": Key(
        "processes with their imports done that replace a worker that died; with 0 a new worker first loads torch, which takes seconds",
        0,
        16,
    ),
    "threads": Key(
        "CPU threads of each worker; 0 uses torch's default. Results depend neither on it nor on the device", 0, 1_024
    ),
    "device": Key(
        "of the workers: `cuda:1`; `pipeline:2`, `data:2` or `tensor:2` for that many processes that share a step on the CPU "
        "([parallel](design/parallel.md)). A second card needs a folder of its own ([several cards](guides/operating.md#several-cards)). "
        "Cards may be unequal: the node measures each, leaves the last slots of a round to the faster ones, and bids what all of them can "
        "train in time",
        default="the best there is",
    ),
    "memory_gb": Key(
        "main memory that each worker counts on, if the machine has other work too; 0: all of it. A job that needs more is declined, or "
        "fitted in with recomputation and `state_folder` ([memory](guides/hardware.md#memory))",
        0,
        1_000_000,
    ),
    "time_margin": Key(
        "times what was measured, the seconds that you promise for a slot: twice as much is your deadline. Give more if the machine has other "
        "work at times",
        1,
        100,
    ),
    "state_folder": Key(
        "a folder on a fast disk, where the state of a job that does not fit in memory lies in files without names, twice its size while a "
        "program is measured ([memory](guides/hardware.md#memory)); nothing is left there",
        default="none: memory only",
    ),
    "availability_hours": Key(
        f"periods of an epoch, 0 to {PERIODS - 1} (hours, in production), in which the keeper sends a heartbeat; "
        "`zoo node declare --hours 8-22` writes them and promises them on chain. If set, the node skips jobs that may run outside them; "
        "if empty, it bids at any time"
    ),
    "sample_rate": Key("share of slot-rounds, aggregations and others' trials that a verifier re-executes", 0, 1),
    "poll_s": Key(
        "seconds between the keeper's looks at what is due. It asks the RPC for a new block as often as the chain makes blocks "
        "([keepers](guides/keepers.md#what-it-knows-of-the-chain))",
        0.1,
        3_600,
    ),
    "demand_after_s": Key(
        "seconds that data may be missing before the node demands it on chain; a restarted store is back sooner, and a demand that was not "
        "needed costs its deposit",
        0,
        86_400,
    ),
    "private_peers": Key(
        "ask peers in private networks and on this machine for blocks too; on a devnet they always are ([peers](guides/separation.md#peers))"
    ),
    "metrics_port": Key(
        "the port on loopback where the daemon serves `/metrics` and `/health`; 0 serves neither ([watch a node](guides/monitoring.md))",
        0,
        65_535,
    ),
    "hung_after_s": Key(
        "seconds without progress after which a keeper is ended and started again; 0 never does that", 0, 86_400
    ),
    "log_format": Key(
        "with `json` each line of a log is an object ([logs](guides/monitoring.md#logs))", words=LOG_FORMATS
    ),
    "task_events": Key("workers tell the broker what they begin and finish, for [Flower](guides/monitoring.md#flower)"),
    "log_max_mb": Key("the log of a process that is longer is rotated", 0.01, 100_000),
    "log_files": Key("rotated logs of each process that are kept", 0, 1_000),
    "coin_price": Key(
        "what one coin of the chain is worth to you, in ZEN. Bandwidth receipts are redeemed, broken promises shown and operators recalled "
        "if that brings more than its gas ([bandwidth](guides/keepers.md#bandwidth), [watching](guides/watching.md))"
    ),
    "max_fee_gwei": Key(
        "the most a transaction may cost per gas that can wait (withdrawals, heartbeats, announcements). Beyond it the keeper waits and "
        "tries again",
        1e-9,
        1e6,
    ),
    "max_urgent_fee_gwei": Key(
        "the most a transaction may cost per gas that has a deadline, which would cost a lock", 1e-9, 1e6
    ),
    "max_priority_fee_gwei": Key(
        "the most of it that is a tip. The RPC proposes the tip, and you pay it whatever the block's base fee is",
        0,
        1e6,
    ),
    "deposits_per_job": Key(
        "the most coin that demands in one job may cost, about eight demands at a base fee of 10 gwei; `0` demands nothing"
    ),
}
