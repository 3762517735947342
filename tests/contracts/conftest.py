"""Fixtures of the contract tests: one deployment a module, and a way to play on it. Other unit tests do without a chain."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def kit():
    from tests.support.evm import chain
    from tests.support.protocol_driver import START, deploy_all

    chain.timestamp = START
    return deploy_all()


@pytest.fixture
def play(kit):
    from tests.support.protocol_driver import Play

    return Play(kit)
