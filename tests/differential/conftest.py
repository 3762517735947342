"""The chain rolls back what a test did; what all tests share is therefore deployed by a fixture of the session."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def deployments() -> None:
    from tests.support.lockstep.contract_mirror import deployed

    for preset in ("devnet", "production"):
        deployed(preset)
