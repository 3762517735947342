"""The two players of a dispute game (docs/protocol/referee.md), without keys or chain.

    computed = SlotRound(manifest, Programs(graph), checkpoint, examples, round, slot, folder=folder)
    move = Prover(Trees(computed)).answer(game)             # the committer's, or None
    move = Challenger(Trees(computed)).next(game, shown)    # the challenger's, or None: nothing is wrong here
    referee.<move.name>(number, *move.args)

A `Computation` is what one side computed: of a slot-round, from the job's manifest, program and examples and the claim's checkpoint;
of an update or an aggregation, from their inputs. `Trees` are the trees over it. Both players make everything again from it when it
is asked for, and keep nothing else: `game` is the referee's record of a game (`zoo_compute.spec.frames.Game`, with its frame), `shown`
what the committer's moves revealed, from the chain's events. What took long lies in the computation's folder, one a claim's
slot and kind, so that a restart in mid-game goes on; whoever made the folder removes it when the last game is over.

A `Board` follows one game by the specification's own moves, and `play` lets two players play it.
"""
