"""Directed sequences about who decides: pauses, the guardian, an operator's owner; see `auctions`."""

from dataclasses import replace

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, bid_args, scenario
from zoo_compute.spec import node_registry
from zoo_compute.spec.state import ZERO_ADDRESS


def intakes_of(s: Stage) -> dict[str, str]:
    """What a guardian may pause: the contracts' addresses by their names."""
    return {name: getattr(s.world.config, name) for name in ("registry", "tasks", "auction")}


@scenario
def an_operator_is_handed_over_in_two_steps_with_all_that_it_is_paid_from_then_on(s: Stage) -> None:
    s.register_all()
    alice, new, zen = s.ids["alice"], s.accounts["stranger"], s.tokens["zen"]
    job = s.running({"alice": Offer(60, 4)}, AGGREGATORS, rounds=1)
    for sender in ("alice hot", "stranger", "bob owner"):
        s.no("registry: not the owner", "registry", "offer_owner", sender, alice, new)
    for operator in (0, 99):
        s.no("registry: not the owner", "registry", "offer_owner", "alice owner", operator, new)
    for operator in (alice, 0, 99):
        s.no("registry: not the offered owner", "registry", "accept_owner", "stranger", operator)
    s.ok("registry", "offer_owner", "alice owner", alice, s.accounts["bob owner"])
    s.ok("registry", "offer_owner", "alice owner", alice, ZERO_ADDRESS)
    s.no("registry: not the offered owner", "registry", "accept_owner", "bob owner", alice)
    s.ok("registry", "offer_owner", "alice owner", alice, new)
    s.no("registry: not the offered owner", "registry", "accept_owner", "alice owner", alice)
    s.ok("registry", "withdraw", "alice owner", alice, zen, 1)  # an offer changes nothing
    s.ok("registry", "allow_answers", "alice owner", alice, s.accounts["carol hot"], True)
    before = s.world.operator(alice)
    s.ok("registry", "accept_owner", "stranger", alice)
    assert not node_registry.may_answer(s.world, alice, s.accounts["carol hot"])
    assert s.world.operator(alice) == replace(before, owner=new)
    s.no("registry: not the offered owner", "registry", "accept_owner", "stranger", alice)
    s.no("registry: not the owner", "registry", "withdraw", "alice owner", alice, zen, 1)
    s.no("registry: not the owner", "registry", "offer_owner", "alice owner", alice, s.accounts["alice owner"])
    s.ok("registry", "withdraw", "stranger", alice, zen, 1)
    s.play_round(job)
    s.finalise(job)
    assert s.world.owed[zen, new] > 0
    assert s.world.owed.get((zen, s.accounts["alice owner"]), 0) == 0


@scenario
def the_guardian_pauses_intake_and_nothing_else(s: Stage) -> None:
    s.register_all()
    intakes = intakes_of(s)
    s.no("guardian: not paused", "guardian", "resume", "guardian", intakes["tasks"])
    job = s.post()
    for contract in ("registry", "tasks", "auction"):
        for sender in ("deployer", "stranger", "timelock"):
            s.no("guardian: not the guardian", "guardian", "pause", sender, intakes[contract])
        s.ok("guardian", "pause", "guardian", intakes[contract])
    s.no("registry: intake paused", "registry", "register", "alice owner", ZERO_ADDRESS, 0, 0, 0, "")
    s.no("tasks: intake paused", "tasks", "post", "submitter", s.terms(rounds=0))
    for sender in ("stranger", "alice hot"):
        s.no("auction: intake paused", "auction", "bid", sender, *bid_args(s, job, 0, "alice"))
    s.no("auction: capacity out of range", "auction", "bid", "stranger", *bid_args(s, job, 0, "alice", 0))
    s.ok("registry", "deposit", "stranger", s.ids["alice"], s.tokens["zen"], 1)
    s.ok("registry", "withdraw", "alice owner", s.ids["alice"], s.tokens["zen"], 1)
    s.to(s.world.lot(job, 0).reveal_end)
    reserve = s.world.lot(job, 0).reserve
    s.ok("auction", "reopen", "stranger", job, 0)
    assert s.world.lot(job, 0).reserve == reserve
    s.ok("tasks", "cancel", "submitter", job)
    for contract in ("registry", "tasks", "auction"):
        s.no("guardian: not the guardian", "guardian", "resume", "timelock", intakes[contract])
        s.ok("guardian", "resume", "guardian", intakes[contract])
        s.no("guardian: not paused", "guardian", "resume", "guardian", intakes[contract])
    s.bid(s.post(), 0, "alice", Offer(60))


@scenario
def a_pause_ends_by_itself_and_another_must_wait_as_long(s: Stage) -> None:
    s.register_all()
    job, start = s.post(), s.now
    for intake in intakes_of(s).values():
        s.ok("guardian", "pause", "guardian", intake)
        s.no("guardian: paused too recently", "guardian", "pause", "guardian", intake)
    s.to(start + s.preset.pause_s - 1)
    s.no("registry: intake paused", "registry", "register", "alice owner", ZERO_ADDRESS, 0, 0, 0, "")
    s.no("tasks: intake paused", "tasks", "post", "submitter", s.terms())
    s.to(start + s.preset.pause_s)
    s.no("registry: zero hot key", "registry", "register", "alice owner", ZERO_ADDRESS, 0, 0, 0, "")
    job = s.post()
    s.bid(job, 0, "alice", Offer(60))
    s.to(start + 2 * s.preset.pause_s - 1)
    for intake in intakes_of(s).values():
        s.no("guardian: paused too recently", "guardian", "pause", "guardian", intake)
        s.no("guardian: not paused", "guardian", "resume", "guardian", intake)
    s.to(start + 2 * s.preset.pause_s)
    s.ok("guardian", "pause", "guardian", s.world.config.tasks)
    s.ok("guardian", "resume", "guardian", s.world.config.tasks)
    s.post()
    s.wait(2 * s.preset.pause_s - 1)  # ending a pause early does not let the next begin earlier
    s.no("guardian: paused too recently", "guardian", "pause", "guardian", s.world.config.tasks)


@scenario
def governors_replace_the_guardian_and_close_an_intake(s: Stage) -> None:
    s.register_all()
    tasks, forever = s.world.config.tasks, 2**40 - 1
    for sender in ("deployer", "guardian", "stranger"):
        s.no("guardian: not the governor", "guardian", "govern", sender, tasks, 2**40)
        s.no("guardian: not the governor", "guardian", "appoint", sender, s.accounts["stranger"])
    s.no("guardian: end out of range", "guardian", "govern", "timelock", tasks, 2**40)
    s.ok("guardian", "govern", "timelock", tasks, forever)
    for function in ("pause", "resume"):
        s.no("guardian: the governor paused it", "guardian", function, "guardian", tasks)
    s.wait(10 * s.preset.pause_s)
    s.no("tasks: intake paused", "tasks", "post", "submitter", s.terms())
    s.ok("guardian", "govern", "timelock", tasks, s.now)
    s.no("guardian: not paused", "guardian", "resume", "guardian", tasks)
    s.post()
    s.ok("guardian", "pause", "guardian", tasks)
    s.ok("guardian", "appoint", "timelock", s.accounts["stranger"])
    for function in ("pause", "resume"):
        s.no("guardian: not the guardian", "guardian", function, "guardian", tasks)
    s.no("tasks: intake paused", "tasks", "post", "submitter", s.terms())
    s.ok("guardian", "govern", "timelock", tasks, s.now)  # what a guardian that is replaced leaves behind
    s.post()
    s.no("guardian: paused too recently", "guardian", "pause", "stranger", tasks)
    s.wait(2 * s.preset.pause_s)
    s.ok("guardian", "pause", "stranger", tasks)
    s.ok("guardian", "resume", "stranger", tasks)
