"""A custodian that signed and then serves nothing loses its reserve, on a network of real processes; the job goes on."""

from __future__ import annotations

from typing import Any

import pytest

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.local_jobs import TINY, submit
from tests.support.withholding_jobs import until
from zoo_compute.chain.custody import CustodyView, read_custody
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, JobView
from zoo_compute.spec.custodians import Role
from zoo_compute.spec.custody import reserve_after_help
from zoo_compute.spec.params import STRANGERS_LANE

pytestmark = [pytest.mark.integration, pytest.mark.network]

PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    *(OperatorPlan(name, roles=("custodian",)) for name in ("epsilon", "zeta", "eta")),
)
# Claims stand open to demands for a minute.
JOB: dict[str, Any] = TINY | {
    "checkpoint": {"redundancy": 3},
    "limits": {"slot_s": 30, "aggregate_s": 30, "reexecute_s": 20},
}


def test_a_custodian_that_serves_nothing__is_demanded_of_and_loses_its_reserve(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with LocalNetwork(tmp_path_factory.mktemp("signers"), PLANS) as network:
        chain = network.devnet.chain
        job = submit(network, JOB)

        def custody(view: JobView) -> CustodyView:
            read = read_custody(chain, view)
            assert read is not None
            return read

        view = until(
            network, job, "a checkpoint", lambda v: v.checkpoints and custody(v).signers_of(0, AGGREGATOR_SEAT)
        )
        silent = next(iter(custody(view).signers_of(0, AGGREGATOR_SEAT).values()))
        for part in ("gateway", "keeper"):
            network.daemons[network.operators[silent]].kill(part, hold=True)
        view = until(
            network,
            job,
            "the end of a demand",
            lambda v: any(d.operator == silent and not d.is_open for d in v.demands),
        )
        demand = next(d for d in view.demands if d.operator == silent)
        assert (demand.end, demand.lane, demand.holds) == ("forfeited", STRANGERS_LANE, False)
        assert not any(claim.state == ClaimState.CONVICTED for claim in view.claims)
        # Another custodian that has the data may show it in the last part of the time: then the silent one keeps a part.
        reserve = custody(view).request.reserve
        left = reserve_after_help(reserve) if demand.help_tx else 0
        assert custody(view).roles[silent].reserve == left < reserve
        assert chain.custody.burned(chain.zen.address) == reserve - left
        until(network, job, "the place of the silent one", lambda v: custody(v).place_of(silent) is None)

        view = until(network, job, "the end of the job", lambda v: v.settled)
        assert view.completed_rounds == view.terms.rounds
        others = [operator for operator in custody(view).roles if operator != silent]
        until(
            network,
            job,
            "others' reserves",
            lambda v: all(custody(v).roles.get(n, Role()).reserve == 0 for n in others),
        )
        for operator in others:
            assert chain.custody.funds(chain.zen.address, operator) >= PLANS[-1].custody_deposit
