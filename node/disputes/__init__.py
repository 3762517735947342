"""The two players of a dispute game (docs/referee.md), without keys or chain.

A `Computation` is what one side computed of a slot-round, an update or an aggregation; `Trees` are the trees over it; a
`Prover` answers for the committer, a `Challenger` finds where the committer went wrong and shows it. A `Board` follows
one game, by the specification's own moves.
"""
