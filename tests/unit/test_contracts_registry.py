"""NodeRegistry: who may register, who may move what, and that whoever is in can leave."""

import boa
import pytest

from tests.contract_kit import DEVNET, UNLIMITED, ZEN, Offer

ZERO = "0x" + 40 * "0"


@pytest.fixture
def ada(play):
    return play.register("ada")


@pytest.fixture
def newcomer(kit, play):
    """An account with ZEN for a stake."""
    account = boa.env.generate_address("newcomer")
    play.fund(account, 10_000 * ZEN, kit.registry)
    return account


@pytest.fixture
def as_protocol(kit):
    """Calls the registry as a protocol contract does."""

    def call(function, *args, by=None):
        return getattr(kit.registry, function)(*args, sender=(by or kit.settlement).address)

    return call


# --- register


def register(kit, sender, *, hot=None, gpu_class=1, vram_gb=8, stake=DEVNET.min_stake):
    hot = boa.env.generate_address("hot") if hot is None else hot
    return kit.registry.register(hot, gpu_class, vram_gb, stake, "http://here", sender=sender)


def test_register__least_of_everything__is_stored(kit, newcomer):
    hot = boa.env.generate_address("hot")
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


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("registry: zero hot key", {"hot": ZERO}),
        ("registry: unknown class", {"gpu_class": 0}),
        ("registry: unknown class", {"gpu_class": 5}),
        ("registry: too little VRAM for the class", {"gpu_class": 1, "vram_gb": 7}),
        ("registry: too little VRAM for the class", {"gpu_class": 2, "vram_gb": 15}),
        ("registry: too little VRAM for the class", {"gpu_class": 3, "vram_gb": 39}),
        ("registry: too little VRAM for the class", {"gpu_class": 4, "vram_gb": 7}),
        ("registry: VRAM out of range", {"vram_gb": 65_536}),
        ("registry: stake below the minimum", {"stake": DEVNET.min_stake - 1}),
        # Several causes: the first in the order of the text.
        ("registry: zero hot key", {"hot": ZERO, "gpu_class": 9, "stake": 0}),
        ("registry: unknown class", {"gpu_class": 9, "vram_gb": 0, "stake": 0}),
    ],
)
def test_register__out_of_range__is_refused(kit, play, newcomer, reason, changes):
    with play.refused(reason):
        register(kit, newcomer, **changes)


@pytest.mark.parametrize(("gpu_class", "vram_gb", "percent"), [(1, 8, 100), (2, 16, 150), (3, 40, 300), (4, 8, 80)])
def test_register__least_vram_of_each_class__is_accepted(kit, newcomer, gpu_class, vram_gb, percent):
    operator = register(kit, newcomer, gpu_class=gpu_class, vram_gb=vram_gb)
    assert kit.registry.multiplier(gpu_class) == percent == kit.registry.multiplier_of(operator)


def test_register__most_vram__keeps_the_neighbouring_fields(kit, newcomer):
    operator = register(kit, newcomer, gpu_class=4, vram_gb=65_535)
    record = kit.registry.operators(operator)
    assert (record.gpu_class, record.vram_gb, record.reputation, record.locks, record.exit_at) == (4, 65_535, 0, 0, 0)


def test_register__without_allowance__is_refused_by_the_token(kit, play):
    with play.refused("erc20: insufficient allowance"):
        register(kit, boa.env.generate_address("pauper"))


def test_multiplier__unknown_class__is_zero(kit):
    assert kit.registry.multiplier(0) == kit.registry.multiplier(5) == 0


# --- keys


def test_announce__by_owner_or_hot_key__is_accepted(kit, play, ada):
    for sender in (ada.owner, ada.hot):
        kit.registry.announce(ada.id, "http://there", sender=sender)
    with play.refused("registry: not the operator"):
        kit.registry.announce(ada.id, "http://there", sender=play.anyone)


def test_set_hot__by_the_owner__takes_the_old_key_its_rights(kit, play, ada):
    new = boa.env.generate_address("new hot")
    with play.refused("registry: not the owner"):
        kit.registry.set_hot(ada.id, new, sender=ada.hot)
    with play.refused("registry: zero hot key"):
        kit.registry.set_hot(ada.id, ZERO, sender=ada.owner)
    kit.registry.set_hot(ada.id, new, sender=ada.owner)
    assert kit.registry.hot_key(ada.id) == new
    assert not kit.registry.is_eligible(ada.id, ada.hot)
    assert kit.registry.is_eligible(ada.id, new)


def test_owner_functions__of_an_operator_that_does_not_exist__are_refused(kit, play):
    hot = boa.env.generate_address("hot")
    for call in (
        lambda: kit.registry.set_hot(99, hot, sender=play.anyone),
        lambda: kit.registry.request_exit(99, sender=play.anyone),
        lambda: kit.registry.withdraw_stake(99, sender=play.anyone),
        lambda: kit.registry.withdraw(99, kit.zen, 1, sender=play.anyone),
    ):
        with play.refused("registry: not the owner"):
            call()
    assert not kit.registry.is_eligible(99, ZERO)


# --- stake and exit


def test_add_stake__by_anyone__adds(kit, play, ada, newcomer):
    kit.registry.add_stake(ada.id, 7, sender=newcomer)
    assert kit.registry.operators(ada.id).stake == DEVNET.min_stake + 7
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


def test_withdraw_stake__while_a_bid_stands__is_refused(kit, play, ada):
    job = play.post()
    play.bid(job, 0, ada, Offer(10))
    kit.registry.request_exit(ada.id, sender=ada.owner)
    play.to(play.now + DEVNET.exit_delay_s)
    with play.refused("registry: collateral is locked"):
        kit.registry.withdraw_stake(ada.id, sender=ada.owner)
    kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)
    kit.registry.withdraw_stake(ada.id, sender=ada.owner)


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


def test_unlock__last__takes_one_lock(kit, ada, as_protocol):
    as_protocol("lock", ada.id, kit.zen, 100, True, by=kit.auction)
    as_protocol("lock", ada.id, kit.zen, 50, False)
    as_protocol("unlock", ada.id, kit.zen, 120, False)
    assert kit.registry.operators(ada.id).locks == 1
    as_protocol("unlock", ada.id, kit.zen, 30, True, by=kit.auction)
    assert kit.registry.operators(ada.id).locks == 0
    assert kit.registry.collateral(ada.id, kit.zen).locked == 0


def test_slash_credit_burn__move_the_pot_and_nothing_else(kit, ada, as_protocol):
    registry, zen = kit.registry, kit.zen
    held = zen.balanceOf(registry)
    as_protocol("lock", ada.id, zen, 1_000, True)
    as_protocol("slash", ada.id, zen, 300)
    assert tuple(registry.collateral(ada.id, zen)) == (10**9 - 300, 700)
    assert (registry.pot(zen), registry.burned(zen)) == (300, 0)
    as_protocol("credit", ada.id, zen, 100)
    assert tuple(registry.collateral(ada.id, zen)) == (10**9 - 200, 700)
    as_protocol("burn", zen, 200)
    assert (registry.pot(zen), registry.burned(zen)) == (0, 200)
    assert zen.balanceOf(registry) == held


def test_reputation__grows_to_its_most_and_halves_with_a_slash(kit, ada, as_protocol):
    assert as_protocol("reward_outcome", ada.id, 999) == ada.owner
    assert kit.registry.discount_bps(ada.id) == 999
    as_protocol("reward_outcome", ada.id, 256)
    assert kit.registry.discount_bps(ada.id) == 1_000
    as_protocol("lock", ada.id, kit.zen, 10, True)
    as_protocol("slash", ada.id, kit.zen, 1)
    assert kit.registry.discount_bps(ada.id) == 500
    as_protocol("slash", ada.id, kit.zen, 0)
    assert kit.registry.discount_bps(ada.id) == 250


@pytest.mark.parametrize("function", ["lock", "unlock", "slash", "burn"])
def test_protocol_functions__by_anyone_else__are_refused(kit, play, ada, function):
    args = {"lock": (ada.id, kit.zen, 0, False), "unlock": (ada.id, kit.zen, 0, False), "slash": (ada.id, kit.zen, 0)}
    with play.refused("registry: not a protocol contract"):
        getattr(kit.registry, function)(*args.get(function, (kit.zen, 0)), sender=kit.deployer)


@pytest.mark.parametrize("function", ["credit", "reward_outcome"])
def test_settlement_functions__by_the_auction__are_refused(kit, play, ada, function):
    args = {"credit": (ada.id, kit.zen, 0), "reward_outcome": (ada.id, 0)}[function]
    with play.refused("registry: not a protocol contract"):
        getattr(kit.registry, function)(*args, sender=kit.auction.address)


# --- guardian and wiring


def test_pause__closes_registration_and_nothing_else(kit, play, ada, newcomer):
    registry = kit.registry
    with play.refused("registry: not the guardian"):
        registry.set_paused(True, sender=kit.deployer)
    registry.set_paused(True, sender=kit.guardian)
    assert registry.paused()
    with play.refused("registry: intake paused"):
        register(kit, newcomer, hot=ZERO)
    registry.deposit(ada.id, kit.zen, 1, sender=newcomer)
    registry.withdraw(ada.id, kit.zen, 10**9 + 1, sender=ada.owner)
    registry.request_exit(ada.id, sender=ada.owner)
    play.to(play.now + DEVNET.exit_delay_s)
    registry.withdraw_stake(ada.id, sender=ada.owner)
    registry.set_paused(False, sender=kit.guardian)
    register(kit, newcomer)


def test_wire__twice_or_by_another__is_refused(kit, play):
    for name, contract in (("registry", kit.registry), ("tasks", kit.tasks)):
        with play.refused(f"{name}: not the deployer"):
            contract.wire(play.anyone, play.anyone, sender=play.anyone)
        with play.refused(f"{name}: already wired"):
            contract.wire(play.anyone, play.anyone, sender=kit.deployer)
    for name, contract in (("auction", kit.auction), ("rewards", kit.rewards)):
        with play.refused(f"{name}: not the deployer"):
            contract.wire(play.anyone, sender=play.anyone)
        with play.refused(f"{name}: already wired"):
            contract.wire(play.anyone, sender=kit.deployer)


def test_stake__beyond_its_field__is_refused(kit, play, newcomer):
    kit.zen.approve(kit.registry, UNLIMITED, sender=newcomer)
    with boa.reverts():
        register(kit, newcomer, stake=2**96)
