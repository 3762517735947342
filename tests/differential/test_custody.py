"""Custody: what a signature binds, and what the specification's names cannot say."""

from fractions import Fraction

import pytest
from eth_abi import encode
from eth_account import Account
from eth_utils import keccak

from tests.differential.custody_driver import custody_stage
from tests.support.consent import HALF_ORDER, ORDER
from tests.support.evm import chain, reverts
from tests.support.job_driver import Offer as Bid
from tests.support.lockstep.custody_records import committee_words, compact
from tests.support.scenarios.custody import AGGREGATORS, LARGE
from zoo_compute.spec.custodians import InputsSignature
from zoo_compute.spec.custody import capture_chance, escrow_of, fee_of, reserve_of
from zoo_compute.spec.params import SIGNED_BYTES

FORGED = "custody: not the custodian's signature"
PARITY = 1 << 255


@pytest.fixture(name="t")
def custody_fixture():
    with custody_stage() as scenario:
        scenario.ready()
        scenario.commit_all()
        yield scenario


class Signer:
    """Signs for the open turn as custodians do, or nearly so."""

    def __init__(self, t):
        self.t, self.contract = t, t.s.mirror.contracts["custody"]
        self.at = str(self.contract.address)

    def key(self, place):
        return keccak(text=f"{self.t.name(place)} hot")

    def signed(self, place, **changes):
        at, chain_id = changes.pop("at", self.at), changes.pop("chain_id", chain.chain_id)
        message = InputsSignature(place, "", self.t.job, self.t.turn, changes.pop("seats", 7))
        return (place, message.seats, *compact(self.key(place), at, message, chain_id))

    def hold(self, *signed):
        self.contract.hold_inputs(self.t.job, self.t.turn, committee_words(self.t.committee), list(signed))


def test_signatures__bind_the_contract_and_the_chain(t):
    signer = Signer(t)
    for changes in ({"at": str(t.s.mirror.contracts["audits"].address)}, {"chain_id": 2}):
        with reverts(FORGED):
            signer.hold(signer.signed(0), signer.signed(1, **changes))
    signer.hold(signer.signed(0), signer.signed(1))


def test_signatures__have_one_form(t):
    """INVARIANT once: of the two `s` that verify the higher is refused, and so is the other parity."""
    signer = Signer(t)
    place, seats, r, vs = signer.signed(1)
    s, parity = int.from_bytes(vs, "big") & PARITY - 1, int.from_bytes(vs, "big") & PARITY
    assert s <= HALF_ORDER
    high = (ORDER - s) | (parity ^ PARITY)
    for wrong in (high, s | (parity ^ PARITY), 0):
        with reverts(FORGED):
            signer.hold(signer.signed(0), (place, seats, r, wrong.to_bytes(32, "big")))
    with reverts(FORGED):
        signer.hold(signer.signed(0), (place, seats, bytes(32), vs))


def test_signatures__of_another_bitmap_than_is_passed_are_refused(t):
    signer = Signer(t)
    place, _, r, vs = signer.signed(1, seats=3)
    with reverts(FORGED):
        signer.hold(signer.signed(0), (place, 7, r, vs))
    with reverts(FORGED):
        signer.hold((place, 7, r, vs), signer.signed(0))
    signer.hold(signer.signed(0), (place, 3, r, vs))


def test_bits_beyond_the_seats__join_no_mask(t):
    """A seat is one of 128: bits above them say nothing."""
    signer = Signer(t)
    signer.hold(signer.signed(0, seats=2**256 - 1), signer.signed(1, seats=2**255 | 5))
    assert signer.contract.records(t.job, t.turn).mask == 5


def test_a_vacant_place__signs_nothing_whatever_recovers_to_zero(t):
    t.expelled(0)
    signer = Signer(t)
    nothing = (0, 7, bytes(32), bytes(32))
    assert t.committee[0].key == "0x" + 40 * "0"
    with reverts(FORGED):
        signer.hold(nothing, signer.signed(1))


def test_a_committee__is_its_members_and_their_order(t):
    words = committee_words(t.committee)
    kept = keccak(encode(["(uint256,uint256)[]"], [words]))
    contract = t.s.mirror.contracts["custody"]
    assert contract.committees(t.job, 1) == kept
    for wrong in (words[::-1], words[:2], [*words, (0, 0)], [(words[0][0] + 1, words[0][1]), *words[1:]]):
        with reverts("custody: committee differs"):
            contract.note_key(t.job, wrong, 0)


def test_typed_data__is_what_wallets_show():
    """The types of the page, in the words that eth_account signs."""
    account = Account.from_key(keccak(text="custodian"))
    r, vs = compact(bytes(account.key), "0x" + 40 * "1", InputsSignature(0, "", 1, 2, 3))
    domain = keccak(
        encode(
            ["bytes32", "bytes32", "bytes32", "uint256", "address"],
            [
                keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak(text="Zoo Custody"),
                keccak(text="1"),
                1,
                "0x" + 40 * "1",
            ],
        )
    )
    kind = keccak(text="Inputs(uint256 job,uint256 turn,uint256 seats)")
    digest = keccak(b"\x19\x01" + domain + keccak(encode(["bytes32"] + ["uint256"] * 3, [kind, 1, 2, 3])))
    word = int.from_bytes(vs, "big")
    vrs = (27 + (word >> 255), int.from_bytes(r, "big"), word & PARITY - 1)
    assert Account._recover_hash(digest, vrs=vrs) == account.address


def test_draws__are_in_proportion_to_stake(t):
    """Over many seeds; an offer with a seat only where no other is left."""
    from zoo_compute.spec.custodians import Offer
    from zoo_compute.spec.custody import picked

    world, job = t.s.world, t.job
    unseated = [Offer(t.s.ids["frank"], 1), Offer(t.s.ids["grace"], 3)]
    seated = Offer(t.s.ids["alice"], 1_000)
    drawn = [picked(world, job, [seated, *unseated], keccak(number.to_bytes(2, "big")), 0) for number in range(2_000)]
    assert seated not in drawn
    assert abs(drawn.count(unseated[1]) - 1_500) < 100
    assert picked(world, job, [seated], b"s" * 32, 0) == seated
    assert picked(world, job, [], b"s" * 32, 0) is None


def test_a_draw__sees_every_seat_of_a_job_that_has_all_128():
    """Dave, in the last of them, comes after those without a seat."""
    with custody_stage(slots=130) as t:
        s, job = t.s, t.job
        s.back("alice", 130)
        t.asked()
        t.offered("dave", *LARGE)
        lots = ({"alice": Bid(40, 130)}, AGGREGATORS)
        s.bid_all(job, *lots)
        s.reveal_all(job, *lots)
        s.award_all(job)
        for _ in range(127):
            s.ok("settlement", "decline", "alice hot", job, 0, 1)
        assert s.world.run(job).seats == 128
        t.drawn()
        assert {t.name(place) for place in range(3)} == set(LARGE)


def test_what_a_majority_puts_up__covers_what_it_may_cost():
    for custodians in (3, 5, 7, 9):
        for cost in (1, 7, 10**6 + 1):
            least = (custodians + 1) // 2
            assert least * reserve_of(cost, custodians) >= cost > least * (reserve_of(cost, custodians) - 1)
    assert fee_of(7, SIGNED_BYTES) == 7
    assert escrow_of(7, 3, 10) == 420


def test_the_chances_of_a_hostile_majority__are_those_of_the_decision():
    tenth, third = Fraction(1, 10), Fraction(33, 100)
    chances = {count: [float(capture_chance(count, share)) for share in (tenth, third)] for count in (3, 5, 7, 9)}
    assert chances[9] == pytest.approx([0.000891, 0.1398], rel=1e-3)
    assert chances[3] == pytest.approx([0.028, 0.2548], rel=1e-3)
    assert all(chances[a][0] > chances[b][0] for a, b in ((3, 5), (5, 7), (7, 9)))
