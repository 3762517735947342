# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title How the dispute of a claim ends
@license Apache-2.0
"""


# Nobody showed a lie.
FINAL: constant(uint256) = 1
# A judgement convicted.
JUDGED: constant(uint256) = 2
# Silence did.
SILENT: constant(uint256) = 3
# The same, of an operator that was exhausted.
EXHAUSTED: constant(uint256) = 4
# Void by age: unpaid and unslashed.
AGED: constant(uint256) = 5
