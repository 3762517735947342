"""The checks of `zoo keeper check`: those of `zoo doctor` that an operator's machine needs, and what its keeper would do now."""

from __future__ import annotations

from collections.abc import Iterator

import redis

from keepers import dry_run
from keepers.config import EMBEDDED, OperatorConfig
from keepers.queue import broker, seals
from keepers.queue.sender_lease import holder
from zoo_compute.amounts import format_amount
from zoo_compute.chain import keystore
from zoo_compute.chain.connection import Chain
from zoo_compute.cli.doctor_checks import Check, SystemChecks
from zoo_compute.cli.node.status import bid_words
from zoo_compute.errors import ZooError
from zoo_compute.store import open_store


class KeeperChecks(SystemChecks):
    """Of one operator's folder. Reads no key: a key file says its address."""

    def __init__(self, config: OperatorConfig) -> None:
        super().__init__(str(config.network_path), None, config.store_location, config.folder, node=True)
        self._config = config

    def _accounts(self, chain: Chain | None) -> Iterator[Check]:
        """The cold key need not be on this machine."""
        yield from ()

    def _plans(self, chain: Chain) -> Iterator[Check]:
        """Bids, seats and payments. Answers to asks and demands follow from what others ask, and custody and audits take a key."""
        if self._config.broker != EMBEDDED:
            yield self._attempt("sender", self._sender)[1]
        look, check = self._attempt("next look", lambda: (self._look(chain), ""))
        if look is None:
            yield check
            return
        for each in look.transactions:
            along = f", and {format_amount(each.value, '')} along" if each.value else ""
            yield Check(
                "would send", True, f"{each.operation}: {each.gas:,} gas, {format_amount(each.cost, '')} of coin{along}"
            )
        for name in look.work:
            yield Check("would compute", True, name)
        for job, bids in look.status["bids"].items():
            yield from (Check(f"job {job}", True, f"bid of {bid_words(bid)}") for bid in bids)
        for job, why in look.status["not_bidding"].items():
            yield Check(f"job {job}", False, f"cannot bid: {why}", needed=False)
        for trouble in look.status["trouble"]:
            yield Check("next look", False, trouble, "logs/keeper.log says more once the keeper runs")
        jobs = ", ".join(f"{job} {state}" for job, state in look.status["jobs"].items()) or "none"
        cost = format_amount(sum(each.cost for each in look.transactions), "")
        yield Check(
            "next look",
            True,
            f"block {look.status['block']}; jobs: {jobs}; {len(look.transactions)} transactions for {cost} of coin, "
            f"{len(look.work)} pieces of work",
        )

    def _sender(self) -> tuple[None, str]:
        """Which of the keepers that share the broker sends."""
        config = self._config
        try:
            name = holder(broker.connect(config.broker, config.folder), seals.load(config.folder))
        except redis.RedisError as error:
            raise ZooError(f"the broker does not answer: {error}", hint="start it") from None
        if not name:
            return None, "no keeper of this operator sends now; the next one that starts will"
        return None, "this keeper" if name == config.name else f"{name}; this keeper waits, or will once it runs"

    def _look(self, chain: Chain) -> dry_run.DryLook:
        config = self._config
        if not config.operator:
            raise ZooError("a verifier without an operator sends nothing by itself", hint="zoo node register")
        hot = (
            keystore.address_of(config.path(config.keystore))
            if not config.signer
            else chain.registry.hot_key(config.operator)
        )
        return dry_run.look(config, chain, hot, open_store(config.store_location))
