"""Fixtures of the contract tests: one deployment a module, and a way to play on it. Other unit tests do without a chain."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def kit():
    from tests.contract_kit import START, deploy_all
    from tests.support.evm import chain

    chain.timestamp = START
    return deploy_all()


@pytest.fixture
def play(kit):
    from tests.contract_kit import Play

    return Play(kit)
