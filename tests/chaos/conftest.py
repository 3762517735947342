"""No process that a file of tests starts outlives it, whether its tests pass or fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.started_processes import none_outlives


@pytest.fixture(scope="module", autouse=True)
def _no_process_outlives_the_file(request: pytest.FixtureRequest) -> Iterator[None]:
    with none_outlives(request.node.nodeid):
        yield
