# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The constants of the protocol
@license Apache-2.0
@notice Equal in every deployment. docs/protocol/numbers.md gives their reasons.
"""


BPS: constant(uint256) = 10_000
FEE_BPS: constant(uint256) = 500
# Of a seat's lock, for leaving it; and of that, what a reputation has set aside at most, in thousandths: down to a hundredth.
SLASH_BPS: constant(uint256) = 1_000
MAX_SET_ASIDE: constant(uint256) = 900
# Of what a conviction leaves after restitution.
FINDER_BPS: constant(uint256) = 4_000
AUDITS_BPS: constant(uint256) = 1_000
RESERVE_GROWTH_BPS: constant(uint256) = 12_500
MAX_REPUTATION: constant(uint256) = 1_000
# Of a lot, that the least stake covers in a bid.
UNITS_PER_STAKE: constant(uint256) = 16

MAX_ROUNDS: constant(uint256) = 10_000
MAX_SLOTS: constant(uint256) = 16_384
MAX_DEPTH: constant(uint256) = 64
# Aggregators of a job, each of which has a seat: of the first MAX_SEATS, and then of these.
MAX_AGGREGATORS: constant(uint256) = 16
MIN_AUDIT_BPS: constant(uint256) = 200
MAX_SECONDS: constant(uint256) = 604_800
MAX_PRICE: constant(uint256) = 2**80 - 1
MAX_FLOPS: constant(uint256) = 2**96 - 1

# Policies of a job: what a worker's conviction does to the rounds after it. 0 is to tolerate it.
ROLL_BACK: constant(uint256) = 1
DELAYED: constant(uint256) = 2
# Slots carry private state from one round into the next: a claim is judged with the claim before it.
CARRIES: constant(uint256) = 4
# Above the policies: the number of custodians, of a job that has any.
CUSTODIANS_AT: constant(uint256) = 4
LEAST_CUSTODIANS: constant(uint256) = 3
MAX_CUSTODIANS: constant(uint256) = 9

# Kinds of lots.
SLOTS: constant(uint256) = 0
AGGREGATOR: constant(uint256) = 1

# States of a job; 0 is no job.
OPEN: constant(uint256) = 1
AWARDED: constant(uint256) = 2
RUNNING: constant(uint256) = 3
ENDED: constant(uint256) = 4
CANCELLED: constant(uint256) = 5
