"""The chain rolls back what a test did; where walks begin is therefore built by a fixture of the session."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def where_walks_begin() -> None:
    from tests.stateful.walk import prepared

    prepared()
