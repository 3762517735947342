"""NodeRegistry: who may register, who may move what, and that whoever is in can leave."""

import pytest

from tests.support.consent import HALF_ORDER, ORDER, Signer, signature_of
from tests.support.evm import chain, reverts
from tests.support.protocol_driver import DEVNET, UNLIMITED, ZEN, load
from zoo_compute.spec.clocks import NEVER_S
from zoo_compute.spec.params import STAKE_UNIT

ZERO = "0x" + 40 * "0"


@pytest.fixture
def ada(play):
    return play.register("ada")


@pytest.fixture
def newcomer(kit, play):
    """An account with ZEN for a stake."""
    account = chain.account("newcomer")
    play.fund(account, 10_000 * ZEN, kit.registry)
    return account


@pytest.fixture
def as_protocol(kit):
    """Calls the registry as a protocol contract does."""

    def call(function, *args, by=None):
        usual = kit.settlement if function == "reward_outcome" else kit.locks
        return getattr(kit.registry, function)(*args, sender=getattr(by or usual, "address", by))

    return call


# --- register


def register(kit, sender, *, hot=None, gpu_class=1, vram_gb=8, stake=DEVNET.min_stake):
    hot = chain.account("hot") if hot is None else hot
    return kit.registry.register(hot, gpu_class, vram_gb, stake, "http://here", sender=sender)


def test_register__least_of_everything__is_stored(kit, newcomer):
    hot = chain.account("hot")
    before = kit.zen.balanceOf(kit.registry)
    operator = register(kit, newcomer, hot=hot)
    assert operator == kit.registry.operator_count() == 1
    record = kit.registry.operators(operator)
    assert tuple(record) == (newcomer, DEVNET.min_stake, hot, 1, 8, 0, 0, 0)
    assert kit.zen.balanceOf(kit.registry) == before + DEVNET.min_stake
    assert kit.registry.is_eligible(operator, hot)
    assert not kit.registry.is_eligible(operator, newcomer)


def test_register__tells_all_in_its_event(kit, newcomer):
    operator = register(kit, newcomer, gpu_class=3, vram_gb=80)
    (event,) = [each for each in kit.registry.get_logs() if type(each).__name__ == "OperatorRegistered"]
    assert (event.operator, event.owner, event.gpu_class, event.vram_gb) == (operator, newcomer, 3, 80)
    assert (event.stake, event.endpoint) == (DEVNET.min_stake, "http://here")


@pytest.mark.parametrize(("gpu_class", "vram_gb", "percent"), [(1, 8, 100), (2, 16, 150), (3, 40, 300), (4, 8, 80)])
def test_register__least_vram_of_each_class__is_accepted(kit, newcomer, gpu_class, vram_gb, percent):
    operator = register(kit, newcomer, gpu_class=gpu_class, vram_gb=vram_gb)
    assert kit.registry.multiplier(gpu_class) == percent
    assert kit.registry.multiplier_of(operator) == min(percent, 100)
    kit.registry.set_admitted(operator, True, sender=kit.admissions)
    assert (kit.registry.multiplier_of(operator), kit.registry.is_admitted(operator)) == (percent, True)
    assert kit.registry.vram_of(operator) == vram_gb


def test_set_admitted__is_for_the_admissions_and_ends_with_the_stake(kit, play):
    ada = play.register("ada", gpu_class=2)
    for sender in (ada.owner, ada.hot, kit.deployer, kit.guardian, kit.settlement.address):
        with play.refused("registry: not a protocol contract"):
            kit.registry.set_admitted(ada.id, True, sender=sender)
    before = kit.registry.operators(ada.id)
    kit.registry.set_admitted(ada.id, True, sender=kit.admissions)
    assert kit.registry.operators(ada.id) == before
    kit.registry.request_exit(ada.id, sender=ada.owner)
    kit.registry.reward_outcome(ada.id, 5 * ZEN, sender=kit.settlement.address)
    assert kit.registry.multiplier_of(ada.id) == 150
    play.to(play.now + DEVNET.exit_delay_s)
    kit.registry.withdraw_stake(ada.id, sender=ada.owner)
    assert (kit.registry.is_admitted(ada.id), kit.registry.multiplier_of(ada.id)) == (False, 100)


def test_register__most_vram__keeps_the_neighbouring_fields(kit, newcomer):
    operator = register(kit, newcomer, gpu_class=4, vram_gb=65_535)
    record = kit.registry.operators(operator)
    assert (record.gpu_class, record.vram_gb, record.reputation, record.locks, record.exit_at) == (4, 65_535, 0, 0, 0)


def test_register__without_allowance__is_refused_by_the_token(kit, play):
    with play.refused("erc20: insufficient allowance"):
        register(kit, chain.account("pauper"))


def test_multiplier__unknown_class__is_zero(kit):
    assert kit.registry.multiplier(0) == kit.registry.multiplier(5) == 0


# --- register_for


@pytest.fixture
def owner():
    return Signer("owner with neither gas nor ZEN")


@pytest.fixture
def hot():
    return Signer("hot")


def consent(kit, owner, hot, **changes):
    """The fields both sign, as `register_for` takes them before the signatures, and the owner's nonce."""
    terms = {
        "owner": owner.address,
        "hot": hot.address,
        "gpu_class": 1,
        "vram_gb": 8,
        "stake": DEVNET.min_stake,
        "endpoint": "http://here",
        "nonce": kit.registry.nonces(owner.address),
        "deadline": chain.timestamp + 100,
    }
    return {**terms, **changes}


def register_for(kit, sponsor, terms, owner_signature, hot_signature):
    args = [value for name, value in terms.items() if name != "nonce"]
    return kit.registry.register_for(*args, owner_signature, hot_signature, sender=sponsor)


def test_register_for__both_keys_signed__is_the_owners_and_paid_by_the_sponsor(kit, newcomer, owner, hot):
    terms = consent(kit, owner, hot, gpu_class=3, vram_gb=80, stake=2 * DEVNET.min_stake)
    before = kit.zen.balanceOf(newcomer)
    operator = register_for(kit, newcomer, terms, owner.signs(kit, terms), hot.signs(kit, terms))
    record = kit.registry.operators(operator)
    assert tuple(record) == (owner.address, 2 * DEVNET.min_stake, hot.address, 3, 80, 0, 0, 0)
    assert kit.zen.balanceOf(newcomer) == before - 2 * DEVNET.min_stake
    assert kit.registry.nonces(owner.address) == 1
    # The stake leaves to the owner, never to the sponsor.
    kit.registry.request_exit(operator, sender=owner.address)
    chain.timestamp += DEVNET.exit_delay_s
    kit.registry.withdraw_stake(operator, sender=owner.address)
    assert kit.zen.balanceOf(owner.address) == 2 * DEVNET.min_stake


def test_register_for__the_digest__is_what_a_wallet_signs(kit, owner, hot):
    """eth_account hashes the typed data; the contract recovers its signer: so both agree on every field's place."""
    for name, value in (("endpoint", ""), ("endpoint", "x" * 128), ("vram_gb", 65_535), ("deadline", 2**256 - 1)):
        with chain.anchor():
            terms = consent(kit, owner, hot, **{name: value})
            sponsor = chain.account("sponsor")
            kit.zen.transfer(sponsor, terms["stake"], sender=kit.deployer)
            kit.zen.approve(kit.registry, UNLIMITED, sender=sponsor)
            register_for(kit, sponsor, terms, owner.signs(kit, terms), hot.signs(kit, terms))


def test_register_for__used_consent__is_refused(kit, play, newcomer, owner, hot):
    terms = consent(kit, owner, hot)
    signatures = owner.signs(kit, terms), hot.signs(kit, terms)
    register_for(kit, newcomer, terms, *signatures)
    with play.refused("registry: owner did not sign"):
        register_for(kit, newcomer, terms, *signatures)
    again = consent(kit, owner, hot)
    assert again["nonce"] == 1
    register_for(kit, newcomer, again, owner.signs(kit, again), hot.signs(kit, again))
    assert kit.registry.operator_count() == 2


@pytest.mark.parametrize(
    "change",
    [
        {"gpu_class": 2, "vram_gb": 16},
        {"vram_gb": 9},
        {"stake": 2 * DEVNET.min_stake},
        {"endpoint": "http://there"},
        {"deadline": 2**64},
        {"hot": "0x" + 20 * "22"},
    ],
)
def test_register_for__a_field_other_than_was_signed__is_refused(kit, play, newcomer, owner, hot, change):
    terms = consent(kit, owner, hot)
    signatures = owner.signs(kit, terms), hot.signs(kit, terms)
    with play.refused("registry: owner did not sign"):
        register_for(kit, newcomer, {**terms, **change}, *signatures)


def test_register_for__another_owner_or_hot_key__is_refused(kit, play, newcomer, owner, hot):
    terms, eve = consent(kit, owner, hot), Signer("eve")
    with play.refused("registry: owner did not sign"):
        register_for(kit, newcomer, terms, eve.signs(kit, terms), hot.signs(kit, terms))
    with play.refused("registry: owner did not sign"):
        register_for(kit, newcomer, terms, hot.signs(kit, terms), hot.signs(kit, terms))
    with play.refused("registry: hot key did not sign"):
        register_for(kit, newcomer, terms, owner.signs(kit, terms), owner.signs(kit, terms))
    with play.refused("registry: owner did not sign"):
        register_for(kit, newcomer, {**terms, "owner": ZERO}, owner.signs(kit, terms), hot.signs(kit, terms))
    # The zero address is what nonsense recovers to.
    with play.refused("registry: owner did not sign"):
        register_for(kit, newcomer, {**terms, "owner": ZERO}, bytes(65), hot.signs(kit, {**terms, "owner": ZERO}))
    with play.refused("registry: zero hot key"):
        register_for(kit, newcomer, {**terms, "hot": ZERO}, owner.signs(kit, terms), hot.signs(kit, terms))


def test_register_for__malformed_signatures__are_refused(kit, play, newcomer, owner, hot):
    terms = consent(kit, owner, hot)
    good, of_hot = owner.signs(kit, terms), hot.signs(kit, terms)
    r, s, v = good[:32], int.from_bytes(good[32:64], "big"), good[64]
    assert s <= HALF_ORDER
    twin = signature_of(r, ORDER - s, 55 - v)  # verifies as well, by mathematics
    for bad in (
        twin,
        good[:64],
        b"",
        signature_of(r, s, v - 27),
        signature_of(r, s, v + 27),
        signature_of(r, 0, v),
        bytes(65),
    ):
        with play.refused("registry: owner did not sign"):
            register_for(kit, newcomer, terms, bad, of_hot)
        with play.refused("registry: hot key did not sign"):
            register_for(kit, newcomer, terms, good, bad)
    with reverts():
        register_for(kit, newcomer, terms, good + b"\0", of_hot)
    register_for(kit, newcomer, terms, good, of_hot)


def test_register_for__of_another_contract_or_chain__is_refused(kit, play, newcomer, owner, hot):
    terms = consent(kit, owner, hot)
    for other in ({"verifyingContract": kit.auction.address}, {"chainId": 2}, {"version": "2"}, {"name": "Zoo"}):
        with play.refused("registry: owner did not sign"):
            register_for(kit, newcomer, terms, owner.signs(kit, terms, **other), hot.signs(kit, terms))


def test_register_for__at_the_deadline__is_accepted_and_refused_after(kit, play, newcomer, owner, hot):
    terms = consent(kit, owner, hot)
    signatures = owner.signs(kit, terms), hot.signs(kit, terms)
    play.to(terms["deadline"] + 1)
    with play.refused("registry: consent expired"):
        register_for(kit, newcomer, terms, *signatures)
    play.to(terms["deadline"])
    register_for(kit, newcomer, terms, *signatures)


def test_register_for__refuses_what_register_refuses(kit, play, newcomer, owner, hot):
    terms = consent(kit, owner, hot)
    nothing = b"", b""
    for reason, change in (
        ("registry: unknown class", {"gpu_class": 5}),
        ("registry: too little VRAM for the class", {"vram_gb": 7}),
        ("registry: VRAM out of range", {"vram_gb": 65_536}),
        ("registry: stake below the minimum", {"stake": 0}),
        ("registry: stake has dust", {"stake": DEVNET.min_stake + 1}),
        ("registry: consent expired", {"deadline": 0}),
    ):
        with play.refused(reason):
            register_for(kit, newcomer, {**terms, **change}, *nothing)
    kit.registry.pause(2**40 - 1, sender=kit.guardian)
    with play.refused("registry: intake paused"):
        register_for(kit, newcomer, {**terms, "hot": ZERO}, *nothing)


# --- keys


def test_set_hot__by_the_owner__takes_the_old_key_its_rights(kit, play, ada):
    new = chain.account("new hot")
    with play.refused("registry: not the owner"):
        kit.registry.set_hot(ada.id, new, sender=ada.hot)
    with play.refused("registry: zero hot key"):
        kit.registry.set_hot(ada.id, ZERO, sender=ada.owner)
    kit.registry.set_hot(ada.id, new, sender=ada.owner)
    assert kit.registry.hot_key(ada.id) == new
    assert not kit.registry.is_eligible(ada.id, ada.hot)
    assert kit.registry.is_eligible(ada.id, new)


def test_answer_key__until_its_owner_takes_it_back__may_answer_and_nothing_else(kit, play, ada):
    other = chain.account("other")
    assert kit.registry.may_answer(ada.id, ada.hot)
    assert not kit.registry.may_answer(ada.id, ada.owner)
    for sender in (ada.hot, play.anyone):
        with play.refused("registry: not the owner"):
            kit.registry.allow_answers(ada.id, other, True, sender=sender)
    kit.registry.allow_answers(ada.id, other, True, sender=ada.owner)
    assert kit.registry.may_answer(ada.id, other)
    assert kit.registry.hot_key(ada.id) == ada.hot
    assert not kit.registry.is_eligible(ada.id, other)
    assert not kit.registry.may_answer(ada.id + 1, other)
    kit.registry.allow_answers(ada.id, other, False, sender=ada.owner)
    assert not kit.registry.may_answer(ada.id, other)


def test_answer_key__of_an_owner_that_handed_over__may_answer_no_more(kit, play, ada):
    spy, buyer = chain.account("spy"), chain.account("buyer")
    kit.registry.allow_answers(ada.id, spy, True, sender=ada.owner)
    kit.registry.offer_owner(ada.id, buyer, sender=ada.owner)
    assert kit.registry.may_answer(ada.id, spy)
    kit.registry.accept_owner(ada.id, sender=buyer)
    assert not kit.registry.may_answer(ada.id, spy)


def test_owner_functions__of_an_operator_that_does_not_exist__are_refused(kit, play):
    hot = chain.account("hot")
    for call in (
        lambda: kit.registry.set_hot(99, hot, sender=play.anyone),
        lambda: kit.registry.request_exit(99, sender=play.anyone),
        lambda: kit.registry.withdraw_stake(99, sender=play.anyone),
        lambda: kit.registry.withdraw(99, kit.zen, 1, sender=play.anyone),
    ):
        with play.refused("registry: not the owner"):
            call()
    assert not kit.registry.is_eligible(99, ZERO)


def test_is_eligible__of_nobody_where_no_stake_is_needed__is_false(kit):
    registry = load("NodeRegistry").deploy(kit.zen, kit.guardian, 0, DEVNET.exit_delay_s, DEVNET.epoch_s, NEVER_S)
    assert not registry.is_eligible(99, ZERO)


# --- stake and exit


def test_add_stake__by_anyone__adds(kit, play, ada, newcomer):
    kit.registry.add_stake(ada.id, 7 * STAKE_UNIT, sender=newcomer)
    assert kit.registry.operators(ada.id).stake == DEVNET.min_stake + 7 * STAKE_UNIT == kit.registry.stake_of(ada.id)
    with play.refused("registry: stake has dust"):
        kit.registry.add_stake(ada.id, 7, sender=newcomer)
    with play.refused("registry: unknown operator"):
        kit.registry.add_stake(99, 0, sender=newcomer)
    with play.refused("registry: zero amount"):
        kit.registry.add_stake(ada.id, 0, sender=newcomer)


def test_exit__walks_to_the_last_second_and_lets_stake_again(kit, play, ada):
    registry = kit.registry
    with play.refused("registry: exit not requested"):
        registry.withdraw_stake(ada.id, sender=ada.owner)
    with play.refused("registry: not the owner"):
        registry.request_exit(ada.id, sender=ada.hot)
    registry.request_exit(ada.id, sender=ada.owner)
    exit_at = registry.operators(ada.id).exit_at
    assert exit_at == play.now + DEVNET.exit_delay_s
    assert not registry.is_eligible(ada.id, ada.hot)
    with play.refused("registry: exit already requested"):
        registry.request_exit(ada.id, sender=ada.owner)
    play.to(exit_at - 1)
    with play.refused("registry: exit delay runs"):
        registry.withdraw_stake(ada.id, sender=ada.owner)
    play.to(exit_at)
    before = kit.zen.balanceOf(ada.owner)
    registry.withdraw_stake(ada.id, sender=ada.owner)
    assert kit.zen.balanceOf(ada.owner) == before + DEVNET.min_stake
    record = registry.operators(ada.id)
    assert (record.stake, record.exit_at, record.owner) == (0, 0, ada.owner)
    assert not registry.is_eligible(ada.id, ada.hot)
    play.fund(ada.owner, DEVNET.min_stake, registry)
    registry.add_stake(ada.id, DEVNET.min_stake, sender=ada.owner)
    assert registry.is_eligible(ada.id, ada.hot)


def test_withdraw_stake__while_anything_is_locked_in_any_token__is_refused(kit, play, ada, as_protocol):
    registry, tokens = kit.registry, [chain.account(f"token {index}") for index in range(3)]
    for token in tokens:  # nothing locked of them, so nothing needs to be held
        as_protocol("lock", ada.id, token, 0, True)
    as_protocol("lock", ada.id, tokens[0], 0, True, by=kit.auction)
    assert registry.operators(ada.id).locks == 4
    registry.request_exit(ada.id, sender=ada.owner)
    play.to(play.now + DEVNET.exit_delay_s)
    for left, token in enumerate([tokens[0], *tokens], start=1):
        with play.refused("registry: collateral is locked"):
            registry.withdraw_stake(ada.id, sender=ada.owner)
        as_protocol("unlock", ada.id, token, 0, True)
        assert registry.operators(ada.id).locks == 4 - left
    registry.withdraw_stake(ada.id, sender=ada.owner)


# --- collateral


def test_deposit_and_withdraw__move_exactly_the_amount(kit, play, ada, newcomer):
    registry = kit.registry
    with play.refused("registry: unknown operator"):
        registry.deposit(99, kit.zen, 0, sender=newcomer)
    with play.refused("registry: zero amount"):
        registry.deposit(ada.id, kit.zen, 0, sender=newcomer)
    registry.deposit(ada.id, kit.zen, 5, sender=newcomer)
    assert tuple(registry.collateral(ada.id, kit.zen)) == (10**9 + 5, 0)
    before = kit.zen.balanceOf(ada.owner)
    registry.withdraw(ada.id, kit.zen, 10**9 + 5, sender=ada.owner)
    assert kit.zen.balanceOf(ada.owner) == before + 10**9 + 5
    assert tuple(registry.collateral(ada.id, kit.zen)) == (0, 0)


def test_withdraw__more_than_is_free__is_refused(kit, play, ada, as_protocol):
    as_protocol("lock", ada.id, kit.zen, 400, True)
    with play.refused("registry: not the owner"):
        kit.registry.withdraw(ada.id, kit.zen, 0, sender=ada.hot)
    with play.refused("registry: zero amount"):
        kit.registry.withdraw(ada.id, kit.zen, 0, sender=ada.owner)
    with play.refused("registry: amount exceeds free collateral"):
        kit.registry.withdraw(ada.id, kit.zen, 10**9 - 400 + 1, sender=ada.owner)
    kit.registry.withdraw(ada.id, kit.zen, 10**9 - 400, sender=ada.owner)
    assert tuple(kit.registry.collateral(ada.id, kit.zen)) == (400, 400)


def test_lock__more_than_is_free__is_refused(kit, play, ada, as_protocol):
    with play.refused("registry: amount exceeds free collateral"):
        as_protocol("lock", ada.id, kit.zen, 10**9 + 1, True)
    as_protocol("lock", ada.id, kit.zen, 10**9, True)
    with play.refused("registry: amount exceeds free collateral"):
        as_protocol("lock", ada.id, kit.zen, 1, False)
    assert kit.registry.operators(ada.id).locks == 1


def test_lock_bid__who_may_not_bid__locks_nothing(kit, play, ada, as_protocol):
    registry, zen = kit.registry, kit.zen

    def bids(operator, hot, amount=5):
        return as_protocol("lock_bid", operator, hot, zen, amount, 1, by=kit.auction)

    assert not bids(ada.id, ada.owner)
    assert not bids(99, ada.hot)
    assert not bids(99, ZERO)
    assert not bids(ada.id, ada.owner, 10**9 + 1)
    with play.refused("registry: amount exceeds free collateral"):
        bids(ada.id, ada.hot, 10**9 + 1)
    as_protocol("pause_bids", play.now + 1, by=kit.auction)
    assert not bids(ada.id, ada.hot)
    assert registry.auction() == kit.auction.address
    as_protocol("pause_bids", play.now, by=kit.auction)
    assert registry.operators(ada.id).locks == registry.collateral(ada.id, zen).locked == 0
    assert bids(ada.id, ada.hot)
    assert bids(ada.id, ada.hot, 10**9 - 5)
    assert registry.operators(ada.id).locks == 2
    assert tuple(registry.collateral(ada.id, zen)) == (10**9, 10**9)
    registry.request_exit(ada.id, sender=ada.owner)
    assert not bids(ada.id, ada.hot, 0)


def test_lock_bid__stake_just_below_the_minimum__is_not_eligible(kit, ada, as_protocol):
    as_protocol("slash_stake", ada.id, 1, by=kit.rewards)
    assert not as_protocol("lock_bid", ada.id, ada.hot, kit.zen, 0, 1, by=kit.auction)
    assert not kit.registry.is_eligible(ada.id, ada.hot)


def test_unlock__last__takes_one_lock(kit, ada, as_protocol):
    as_protocol("lock", ada.id, kit.zen, 100, True, by=kit.auction)
    as_protocol("lock", ada.id, kit.zen, 50, False)
    as_protocol("unlock", ada.id, kit.zen, 120, False)
    assert kit.registry.operators(ada.id).locks == 1
    as_protocol("unlock", ada.id, kit.zen, 30, True, by=kit.auction)
    assert kit.registry.operators(ada.id).locks == 0
    assert kit.registry.collateral(ada.id, kit.zen).locked == 0


def test_lock__in_as_many_tokens_as_are_counted__is_found_in_each_and_no_more_are_taken(kit, ada, as_protocol):
    tokens = [chain.account(f"token {index}") for index in range(256)]
    for token in tokens[:255]:
        as_protocol("lock", ada.id, token, 0, True)
    with reverts():
        as_protocol("lock", ada.id, tokens[255], 0, True)
    assert kit.registry.operators(ada.id).locks == 255
    as_protocol("unlock", ada.id, tokens[254], 0, True)
    assert kit.registry.operators(ada.id).locks == 254


def test_slash_and_burn__move_the_pot_and_nothing_else(kit, ada, as_protocol):
    registry, zen = kit.registry, kit.zen
    balance = zen.balanceOf(registry)
    as_protocol("lock", ada.id, zen, 1_000, True)
    as_protocol("slash", ada.id, zen, 300, False)
    assert tuple(registry.collateral(ada.id, zen)) == (10**9 - 300, 700)
    assert (registry.pot(zen), registry.burned(zen)) == (300, 0)
    as_protocol("burn", zen, 200)
    assert (registry.pot(zen), registry.burned(zen)) == (100, 200)
    assert zen.balanceOf(registry) == balance


def test_pay_out__sends_from_the_pot_to_the_task_registry(kit, ada, as_protocol):
    registry, zen = kit.registry, kit.zen
    as_protocol("lock", ada.id, zen, 1_000, True)
    as_protocol("slash", ada.id, zen, 300, True)
    before = zen.balanceOf(registry), zen.balanceOf(kit.tasks)
    as_protocol("pay_out", zen, 100)
    assert (zen.balanceOf(registry), zen.balanceOf(kit.tasks)) == (before[0] - 100, before[1] + 100)
    assert registry.pot(zen) == 200
    with reverts():
        as_protocol("pay_out", zen, 201)


@pytest.mark.parametrize(("bps", "part"), [(0, 0), (1, 10**16), (100, 10**18), (10_000, DEVNET.min_stake)])
def test_slash_stake__burns_its_part_and_leaves_reputation(kit, ada, as_protocol, bps, part):
    registry = kit.registry
    as_protocol("reward_outcome", ada.id, 10 * ZEN)
    balance = kit.zen.balanceOf(registry)
    assert as_protocol("slash_stake", ada.id, bps, by=kit.rewards) == part
    assert registry.stake_of(ada.id) == DEVNET.min_stake - part
    assert (registry.burned(kit.zen), registry.discount_bps(ada.id)) == (part, 10)
    assert kit.zen.balanceOf(registry) == balance


@pytest.mark.parametrize("bps", [0, 3, 10_000])
def test_slash_for__pays_a_share_at_once_or_keeps_it_in_the_pot(kit, ada, as_protocol, bps):
    registry, zen, anyone = kit.registry, kit.zen, chain.account("anyone")
    part = DEVNET.min_stake // 5
    share = part // STAKE_UNIT * bps // 10_000 * STAKE_UNIT
    assert tuple(as_protocol("slash_for", ada.id, 2_000, bps, anyone, by=kit.admissions)) == (part, share)
    assert (zen.balanceOf(anyone), registry.pot(zen), registry.burned(zen)) == (share, 0, part - share)
    left = registry.stake_of(ada.id)
    slashed, kept = as_protocol("slash_for", ada.id, 2_000, bps, ZERO, by=kit.admissions)
    assert (slashed, registry.stake_of(ada.id)) == (left // 5, left - left // 5)
    assert (registry.pot(zen), registry.burned(zen)) == (kept, part - share + slashed - kept)
    as_protocol("pay_share", anyone, kept // 2, by=kit.admissions)
    as_protocol("pay_share", ZERO, kept - kept // 2, by=kit.admissions)
    assert (zen.balanceOf(anyone), registry.pot(zen)) == (share + kept // 2, 0)
    assert registry.burned(zen) == part - share + slashed - kept // 2
    with reverts():
        as_protocol("pay_share", anyone, 1, by=kit.admissions)


def test_slash_stake__of_no_whole_units__rounds_down(kit, newcomer, as_protocol):
    operator = register(kit, newcomer, stake=DEVNET.min_stake + STAKE_UNIT)
    assert as_protocol("slash_stake", operator, 9_999, by=kit.rewards) == 99_990_000 * STAKE_UNIT
    assert kit.registry.stake_of(operator) == 10_001 * STAKE_UNIT


def test_reputation__grows_to_its_most_and_halves_with_a_slash(kit, ada, as_protocol):
    assert as_protocol("reward_outcome", ada.id, 999 * ZEN) == ada.owner
    assert kit.registry.discount_bps(ada.id) == 999
    as_protocol("reward_outcome", ada.id, 256 * ZEN)
    assert kit.registry.discount_bps(ada.id) == 1_000
    as_protocol("lock", ada.id, kit.zen, 10, True)
    as_protocol("slash", ada.id, kit.zen, 1, False)
    assert kit.registry.discount_bps(ada.id) == 500
    as_protocol("slash", ada.id, kit.zen, 0, False)
    assert kit.registry.discount_bps(ada.id) == 250
    as_protocol("slash", ada.id, kit.zen, 0, True)
    assert kit.registry.discount_bps(ada.id) == 0


def test_protocol_functions__by_anyone_else__are_refused(kit, play, ada):
    """Each function, and who may call it; the others, protocol contracts too, may not."""
    amount = (ada.id, kit.zen, 0)
    calls = {
        "lock": ((*amount, False), {"auction", "locks"}),
        "unlock": ((*amount, False), {"auction", "locks"}),
        "slash": ((*amount, False), {"auction", "locks"}),
        "burn": ((kit.zen, 0), {"auction", "locks"}),
        "lock_bid": ((ada.id, ada.hot, kit.zen, 0, 1), {"auction"}),
        "pause_bids": ((0,), {"auction"}),
        "pay_out": ((kit.zen, 0), {"locks"}),
        "reward_outcome": ((ada.id, 0), {"settlement"}),
        "slash_stake": ((ada.id, 0), {"rewards"}),
        "slash_for": ((ada.id, 0, 0, ada.owner), {"admissions"}),
        "pay_share": ((ada.owner, 0), {"admissions"}),
        "set_admitted": ((ada.id, True), {"admissions"}),
    }
    callers = {
        **{name: getattr(kit, name).address for name in ("auction", "settlement", "locks", "tasks", "rewards")},
        "admissions": kit.admissions,
        "guardian": kit.guardian,
        "owner": ada.owner,
    }
    for function, (args, allowed) in calls.items():
        for name, caller in callers.items():
            with chain.anchor():
                if name in allowed:
                    getattr(kit.registry, function)(*args, sender=caller)
                    continue
                with play.refused("registry: not a protocol contract"):
                    getattr(kit.registry, function)(*args, sender=caller)


# --- guardian


def test_pause__closes_registration_and_nothing_else(kit, play, ada, newcomer):
    registry = kit.registry
    with play.refused("registry: not the guardian"):
        registry.pause(2**40 - 1, sender=kit.deployer)
    registry.pause(2**40 - 1, sender=kit.guardian)
    assert registry.paused_until() == 2**40 - 1
    with play.refused("registry: intake paused"):
        register(kit, newcomer, hot=ZERO)
    registry.deposit(ada.id, kit.zen, 1, sender=newcomer)
    registry.withdraw(ada.id, kit.zen, 10**9 + 1, sender=ada.owner)
    registry.request_exit(ada.id, sender=ada.owner)
    play.to(play.now + DEVNET.exit_delay_s)
    registry.withdraw_stake(ada.id, sender=ada.owner)
    registry.pause(0, sender=kit.guardian)
    register(kit, newcomer)


def test_stake__beyond_its_field__is_refused(kit, play, newcomer):
    kit.zen.approve(kit.registry, UNLIMITED, sender=newcomer)
    with reverts():
        register(kit, newcomer, stake=2**64 * STAKE_UNIT)


def test_lock_bid__for_more_units_than_the_stake_covers__locks_nothing(kit, ada, as_protocol):
    def bids(units):
        return as_protocol("lock_bid", ada.id, ada.hot, kit.zen, 0, units, by=kit.auction)

    assert bids(16)
    assert not bids(17)
    kit.zen.approve(kit.registry, DEVNET.min_stake, sender=kit.deployer)
    kit.registry.add_stake(ada.id, DEVNET.min_stake // 16 - STAKE_UNIT, sender=kit.deployer)
    assert not bids(17)
    kit.registry.add_stake(ada.id, STAKE_UNIT, sender=kit.deployer)
    assert bids(17)


def test_reputation__of_dust__is_none(kit, ada, as_protocol):
    """M5: a thousand slot-rounds at one wei were worth a thousand points."""
    for fee in (0, 50, 10**15 - 1):
        as_protocol("reward_outcome", ada.id, fee)
    assert kit.registry.discount_bps(ada.id) == 0
    as_protocol("reward_outcome", ada.id, 10**15)
    as_protocol("reward_outcome", ada.id, ZEN - 10**15 - 1)
    assert kit.registry.discount_bps(ada.id) == 0
    as_protocol("reward_outcome", ada.id, 10**15)
    assert kit.registry.discount_bps(ada.id) == 1


def test_reputation__halves_every_90_epochs(kit, play, ada, as_protocol):
    span = 90 * DEVNET.epoch_s
    play.to((play.now // span + 1) * span)
    as_protocol("reward_outcome", ada.id, 800 * ZEN)
    play.to(play.now + span - 1)
    assert kit.registry.discount_bps(ada.id) == 800
    play.to(play.now + 1)
    assert (kit.registry.discount_bps(ada.id), kit.registry.operators(ada.id).reputation) == (400, 400)
    as_protocol("reward_outcome", ada.id, 100 * ZEN)
    assert kit.registry.discount_bps(ada.id) == 500
    play.to(play.now + span)
    as_protocol("lock", ada.id, kit.zen, 10, True)
    as_protocol("slash", ada.id, kit.zen, 1, False)
    assert kit.registry.discount_bps(ada.id) == 125
    for later, points in ((1, 62), (5, 3), (6, 1), (7, 0), (20, 0), (300, 0)):
        with chain.anchor():
            play.to(play.now + later * span)
            assert kit.registry.discount_bps(ada.id) == points
            assert kit.registry.operators(ada.id).owner == ada.owner
    kit.registry.request_exit(ada.id, sender=ada.owner)
    assert kit.registry.operators(ada.id).exit_at == play.now + DEVNET.exit_delay_s
