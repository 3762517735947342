"""The two sides of a dispute about a claim (docs/protocol/referee.md), without keys or chain.

    computed = SlotRound(manifest, Programs(graph), checkpoint, examples, round, slot, folder=folder)
    for call in Answerer(claim, lambda kind, slot: Trees(computed), preset, is_author=True).calls(picture, now): ...
    step = Asker(Trees(computed), disputed).next(picture, now)     # a Call, a Wait, or None: nothing is false

A `Computation` is what one side computed: of a slot-round, from the job's manifest, program and examples and the claim's checkpoint;
of an update or an aggregation, from their inputs. `Trees` are the trees over it. Both sides make everything again from it when it
is asked for, and keep nothing else: `picture` is the public exploration of the claim, from the chain's events
(`zoo_compute.disputes.exploration`). What took long lies in the computation's folder, one a claim's slot, so that a restart in the
middle goes on; whoever made the folder removes it when the dispute is over. `run_dispute` (player.py) is both sides from a request.
"""
