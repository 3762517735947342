"""A network of real processes in which one worker lies about one bit, and a verifier's keeper checks everything."""

from __future__ import annotations

from keepers.processes.local_network import OperatorPlan
from tests.support.liars.commands import lying_worker
from tests.support.local_jobs import TINY
from zoo_compute.spec.params import ZEN

ROUND, SLOT, STEP = 1, 0, 5  # of the lie
CONFIG = TINY | {
    "training": TINY["training"] | {"rounds": 2},
    "limits": TINY["limits"] | {"policy": "roll back", "reexecute_s": 5},
}
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3, worker_command=lying_worker(round=ROUND, slot=SLOT, step=STEP)),
    OperatorPlan("beta", price="0.90", capacity=3),
    OperatorPlan("gamma", price="1.00", capacity=3),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    OperatorPlan("epsilon", roles=("verifier",), sample_rate=1.0, ask_zen=100 * ZEN),
)
