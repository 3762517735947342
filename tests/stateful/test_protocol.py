"""Random walks over contracts and specification; `ZOO_CAMPAIGN=long` walks further and elsewhere each time."""

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import COVERAGE, ProtocolMachine

IS_LONG = os.environ.get("ZOO_CAMPAIGN") == "long"
WALKS = settings(
    max_examples=3_000 if IS_LONG else 50,
    stateful_step_count=120 if IS_LONG else 80,
    derandomize=not IS_LONG,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink] if IS_LONG else [Phase.generate],
    print_blob=True,
)

# What walks must find by themselves; the directed sequences reach the rest (tests/differential).
MUST_ACCEPT = {
    *(f"auction.{name}" for name in ("bid", "reveal", "reopen", "clear", "award")),
    *(f"settlement.{name}" for name in ("ready", "decline", "commit", "time_out", "take_over", "post_checkpoint")),
    *(f"settlement.{name}" for name in ("abandon", "finalise", "release")),
    *(f"settlement.{name}" for name in ("open_dispute", "close_dispute", "void", "hold", "resume")),
    *(f"tasks.{name}" for name in ("post", "cancel", "withdraw")),
    *(f"registry.{name}" for name in ("deposit", "withdraw", "request_exit", "declare", "heartbeat")),
}


def test_random_walks__contracts_and_specification_agree_and_money_is_conserved() -> None:
    run_state_machine_as_test(ProtocolMachine, settings=WALKS)
    print(COVERAGE.summary())
    assert set(COVERAGE.accepts) >= MUST_ACCEPT, MUST_ACCEPT - set(COVERAGE.accepts)
    assert not {"job states", "unlisted reasons"} & set(COVERAGE.missing())
