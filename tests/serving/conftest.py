"""A service in a store, and three seats that serve it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.seat_clients import Market
from tests.support.seat_servers import PRICE, seats, stored_service
from zoo_compute.serving.files import StoredService


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredService:
    return stored_service(tmp_path_factory.mktemp("store"))


@pytest.fixture
def place(stored: StoredService, tmp_path: Path) -> Iterator[Market]:
    with seats(stored, tmp_path / "seats", [PRICE] * 3) as made:
        yield made
