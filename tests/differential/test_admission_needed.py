"""A network that needs admission: contracts and specification, in lockstep."""

from tests.support.job_driver import Offer
from tests.support.lockstep.contract_mirror import fresh_mirror
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.admissions import admit
from tests.support.scenarios.auctions import bid_args
from tests.support.scenarios.requirements import NOT_MET
from zoo_compute.spec.requirements import ADMITTED, Requirements


def test_where_admission_is_needed__only_shown_machines_bid_whatever_the_terms_say() -> None:
    with fresh_mirror("devnet", needs_admission=True) as mirror:
        s = Stage(Coverage(), mirror)
        assert mirror.contracts["tasks"].needs_admission()
        s.register_all("alice", "bob")
        plain = s.post()
        assert s.world.terms[plain].requirements == ADMITTED
        memory = Requirements(vram_gb=48)
        job = s.post(requirements=memory.word)
        assert s.world.terms[job].requirements == memory.word | ADMITTED
        assert mirror.contracts["auction"].requirements(job) == memory.word | ADMITTED
        (posted,) = [
            log for log in mirror.contracts["tasks"].get_logs(mirror.last) if type(log).__name__ == "JobPosted"
        ]
        assert posted.terms.requirements == memory.word | ADMITTED
        for kind in (0, 1):
            s.no(NOT_MET, "auction", "bid", "alice hot", *bid_args(s, job, kind, "alice"))
        admit(s, "alice")
        job = s.post(requirements=memory.word)
        s.bid(job, 0, "alice", Offer(50))
        s.no(NOT_MET, "auction", "bid", "bob hot", *bid_args(s, job, 0, "bob"))
        too_much = s.terms(requirements=2**80)
        s.no("tasks: unknown requirements", "tasks", "post", "submitter", too_much)
        mirror.compare(s.world)


def test_where_no_admission_is_needed__any_machine_bids() -> None:
    with fresh_mirror("devnet") as mirror:
        s = Stage(Coverage(), mirror)
        assert not mirror.contracts["tasks"].needs_admission()
        s.register_all("alice")
        s.bid(s.post(), 0, "alice", Offer(50))
