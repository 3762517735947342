"""Bandwidth receipts: who may redeem what, what counts of it, and what a signature beyond the link costs."""

import pytest

from tests.support.evm import chain
from tests.support.protocol_driver import load
from tests.support.rewards_driver import DEVNET, GBPS, ZEN, deployed_fixture, stage_fixture  # noqa: F401

EMISSION = DEVNET.emission_per_epoch
RICH = 10_000 * ZEN  # a fee that caps nothing
PAIR, SERVER = 2**40, 2**43  # bytes that count at most


@pytest.fixture
def gold(s):
    """Ten operators whose links carry 400 Gbps: what a server and its clients need to reach the caps."""
    nodes = [s.register(gpu_class=3) for _ in range(10)]
    for node in nodes:
        s.registry.declare(node.id, 3, 1, sender=node.owner)
    s.next_epoch()
    return nodes


def test_redeem__refusals__in_their_order(s):
    ada, bob = s.register(), s.register()
    with s.refused("rewards: not the hot key"):
        s.redeem(ada, bob, 5, sender=ada.owner, epoch=s.epoch + 1)
    for epoch in (s.epoch - 1, s.epoch + 1):
        with s.refused("rewards: not the current epoch"):
            s.redeem(ada, ada, 5, epoch=epoch)
    with s.refused("rewards: own receipt"):
        s.redeem(ada, ada, 5, signature=b"x" * 65)
    with s.refused("rewards: receipt not signed"):
        s.redeem(ada, bob, 0, signature=s.sign(ada, ada, s.epoch, 0))
    with s.refused("rewards: nothing new"):
        s.redeem(ada, bob, 0)
    with s.refused("rewards: beyond the server's link"):
        s.redeem(ada, bob, GBPS + 1)


def test_redeem__a_signature_for_anything_else__is_refused(s):
    ada, bob, carol = s.register(), s.register(), s.register()
    epoch = s.epoch
    wrong = {
        "another signer": s.sign(carol, ada, epoch, 5),
        "another server": s.sign(bob, carol, epoch, 5),
        "another epoch": s.sign(bob, ada, epoch + 1, 5),
        "another total": s.sign(bob, ada, epoch, 6),
        "another chain": s.sign(bob, ada, epoch, 5, chainId=5),
        "another contract": s.sign(bob, ada, epoch, 5, verifyingContract=str(s.zen.address)),
        "another name": s.sign(bob, ada, epoch, 5, name="Zoo"),
        "too short": s.sign(bob, ada, epoch, 5)[:64],
        "nonsense": bytes(65),
        "none": b"\0",
    }
    for what, signature in wrong.items():
        with s.refused("rewards: receipt not signed"):
            assert s.redeem(ada, bob, 5, signature=signature) is None, what
    nobody = type(bob)(99, bob.owner, bob.hot)
    with s.refused("rewards: receipt not signed"):
        s.redeem(ada, nobody, 5, signature=bytes(65))
    assert s.redeem(ada, bob, 5) == 5


def test_redeem__totals_are_cumulative__and_only_the_difference_counts(s):
    ada, bob, carol = s.register(), s.register(), s.register()
    assert s.redeem(ada, bob, 100) == 100
    with s.refused("rewards: nothing new"):
        s.redeem(ada, bob, 100)
    with s.refused("rewards: nothing new"):
        s.redeem(ada, bob, 99)
    assert s.redeem(ada, bob, 130) == 30
    assert s.redeem(carol, bob, 7) == 7
    assert tuple(s.rewards.pairs(ada.id, bob.id, s.epoch)) == (130, 130)
    assert tuple(s.rewards.served(ada.id, s.epoch)) == (130, 130)
    assert tuple(s.rewards.signed(bob.id, s.epoch)) == (137, False)
    assert s.rewards.total_bytes(s.epoch) == 137


def test_redeem__next_epoch__starts_from_nothing(s):
    ada, bob = s.register(), s.register()
    s.redeem(ada, bob, 100)
    epoch = s.next_epoch()
    with s.refused("rewards: not the current epoch"):
        s.redeem(ada, bob, 200, epoch=epoch)
    assert s.redeem(ada, bob, 40) == 40


def test_redeem__of_a_pair__counts_up_to_its_cap(s, gold):
    ada, bob = gold[:2]
    assert s.redeem(ada, bob, PAIR - 1) == PAIR - 1
    assert s.redeem(ada, bob, PAIR + 5) == 1
    assert s.redeem(ada, bob, PAIR + 6) == 0
    assert tuple(s.rewards.pairs(ada.id, bob.id, s.epoch)) == (PAIR + 6, PAIR)


def test_redeem__of_a_server__is_bounded_by_its_link(s):
    ada, bob, carol = s.register(), s.register(), s.register()
    assert s.redeem(ada, bob, GBPS) == GBPS
    with s.refused("rewards: beyond the server's link"):
        s.redeem(ada, carol, 1)
    with s.refused("rewards: beyond the server's link"):
        s.redeem(ada, carol, 2**256 - 1)


def test_redeem__signer_beyond_its_link__voids_the_pair_and_slashes_the_signer(s, gold):
    ada, bob = gold[0], s.register()
    carol, dave = s.register(), gold[1]
    assert s.redeem(carol, bob, 10) == 10
    assert s.redeem(ada, bob, GBPS - 10) == GBPS - 10
    # ada's own receipts from bob stay within bob's link; the sum of all does not.
    assert s.redeem(ada, bob, GBPS - 9) == 0
    assert tuple(s.rewards.signed(bob.id, s.epoch)) == (GBPS + 1, True)
    assert tuple(s.rewards.pairs(ada.id, bob.id, s.epoch)) == (GBPS - 9, 0)
    assert tuple(s.rewards.served(ada.id, s.epoch)) == (GBPS - 9, 0)
    assert s.rewards.total_bytes(s.epoch) == 10  # carol's stay
    assert s.registry.stake_of(bob.id) == DEVNET.min_stake * 99 // 100
    assert s.registry.stake_of(ada.id) == DEVNET.min_stake
    for server in (ada, carol, dave):
        with s.refused("rewards: signer has violated"):
            s.redeem(server, bob, GBPS)
    s.next_epoch()
    assert s.redeem(carol, bob, 10) == 10


def test_redeem__more_from_one_client_than_its_link_carries__slashes_who_redeems_too(s, gold):
    ada, bob = gold[0], s.register()
    assert s.redeem(ada, bob, GBPS + 1) == 0
    assert s.registry.stake_of(bob.id) == DEVNET.min_stake * 99 // 100
    assert s.registry.stake_of(ada.id) == DEVNET.min_stake * 99 // 100


def test_claim__bandwidth__is_shared_by_bytes_within_the_room_of_compute(s):
    ada, bob, carol = s.register(), s.register(), s.register()
    s.fund(EMISSION)
    s.record(1, ada, 1, RICH)
    s.record(1, bob, 1, 100)
    s.redeem(ada, carol, 300)
    s.redeem(bob, carol, 100)
    s.redeem(carol, ada, 400)
    epoch = s.next_epoch()
    assert s.claim(ada, epoch, 1) == EMISSION // 4 + EMISSION // 10 * 3 // 8
    assert s.claim(bob, epoch, 1) == 70
    with s.refused("rewards: nothing to claim"):
        s.claim(carol, epoch, 1)  # served the most, and computed nothing


def test_redeem__of_a_server__counts_up_to_its_cap(s, monkeypatch):
    """An epoch of a day, in which 1 Gbps carries more than counts: eight clients at the pair's cap fill the server's."""
    with chain.prank(s.deployer):
        monkeypatch.setattr(s, "rewards", load("Rewards").deploy(s.zen, s.registry, s.governor, 86_400, EMISSION, 1))
    epoch = chain.timestamp // 86_400
    ada, *clients = (s.register() for _ in range(10))
    counted = [s.redeem(ada, client, PAIR, epoch=epoch) for client in clients[:7]]
    counted.append(s.redeem(ada, clients[7], PAIR - 5, epoch=epoch))
    counted.append(s.redeem(ada, clients[8], 100, epoch=epoch))
    assert counted == [PAIR] * 7 + [PAIR - 5, 5]
    assert tuple(s.rewards.served(ada.id, epoch)) == (SERVER + 95, SERVER)
