"""The command line and the SDK against a real chain: submission, its interruptions, a hosted chain, and `zoo devnet`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_network import ESCROW, CliNetwork, Zoo, jobs, zoo_fixture  # noqa: F401
from tests.support.waiting import HANG_S
from zoo_compute import Client, ComputeJob, DistributedTrainer, Network
from zoo_compute.chain import keystore, permits
from zoo_compute.chain.network import load
from zoo_compute.chain.sender import Sender
from zoo_compute.errors import Retryable, Unreachable
from zoo_compute.jobs.data_source import Say
from zoo_compute.jobs.submission import AlreadyPosted, _Record
from zoo_compute.spec.params import ZEN
from zoo_compute.subprocesses import tied_to_parent

pytestmark = pytest.mark.integration


@pytest.fixture
def client(zoo: Zoo, place: CliNetwork) -> Client:
    return Client(say=print)


# -- a job's way


def test_train__posts_once_and_cancel_returns_every_wei(zoo: Zoo, place: CliNetwork) -> None:
    me = zoo.json("account", "show")
    config = place.config()
    posted = zoo.json("train", config, "--data", place.text, "--max-budget", "14", "--no-watch")
    zen = {"symbol": "ZEN", "decimals": 18, "address": place.devnet.network.contracts["zen"]}
    assert posted == {"job": jobs(place), "escrow": str(ESCROW), "token": zen}
    assert int(me["zen"]) - int(zoo.json("account", "show")["zen"]) == ESCROW

    answer = zoo.refused("train", config, "--data", place.text, "--max-budget", "14", "--no-watch")
    assert f"as job {posted['job']}" in answer
    assert jobs(place) == posted["job"]

    job_view = zoo.json("job", "show", str(posted["job"]))
    assert (job_view["state"], job_view["escrow"], job_view["account"]["escrowed"]) == (
        "open",
        str(ESCROW),
        str(ESCROW),
    )
    assert job_view["submitter"] == me["address"]
    assert posted["job"] in [job["job"] for job in zoo.json("job", "list", "--mine")["jobs"]]

    cancelled = zoo.json("job", "cancel", str(posted["job"]))
    assert cancelled["refunded"] == str(ESCROW)
    assert zoo.json("account", "show")["zen"] == me["zen"]
    account = zoo.json("job", "show", str(posted["job"]))["account"]
    assert (account["refunded"], account["held"]) == (str(ESCROW), "0")
    assert "already cancelled" in zoo.refused("job", "cancel", str(posted["job"]))
    # what was cancelled may be posted anew
    assert (
        zoo.json("train", config, "--data", place.text, "--max-budget", "14", "--no-watch")["job"] == posted["job"] + 1
    )


def test_train__killed_after_post_before_it_was_recorded__finds_its_job(
    client: Client, place: CliNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, before = place.config(), jobs(place)
    write = _Record.write

    def dies_with_the_number(self: _Record, record: dict[str, Any]) -> None:
        if "job" in record:
            raise KeyboardInterrupt
        write(self, record)

    monkeypatch.setattr(_Record, "write", dies_with_the_number)
    with pytest.raises(KeyboardInterrupt):
        client.train(config, 14, place.text)
    assert jobs(place) == before + 1
    monkeypatch.setattr(_Record, "write", write)
    assert client.train(config, 14, place.text).id == before + 1
    with pytest.raises(AlreadyPosted) as refused:
        client.train(config, 14, place.text)
    assert f"zoo job watch {before + 1}" in refused.value.hint
    assert client.train(config, 14, place.text, again=True).id == before + 2
    assert jobs(place) == before + 2


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are sent, in order."""
    send, functions = Sender.send, []

    def noted(self: Sender, call: Any, **options: Any) -> Any:
        functions.append(call.function)
        return send(self, call, **options)

    monkeypatch.setattr(Sender, "send", noted)
    return functions


def allowance(client: Client) -> int:
    chain = client.chain
    return chain.zen.allowance(client.signer.address, chain.network.contracts["tasks"])


class SignsTransactions:
    """An account that signs nothing else, as a hosted signer does."""

    def __init__(self, account: Any) -> None:
        self.address, self.sign_transaction = account.address, account.sign_transaction


def test_train__by_a_key_that_signs_permits__is_one_transaction(
    client: Client, place: CliNetwork, sent: list[str]
) -> None:
    before = jobs(place)
    assert client.train(place.config(), 14, place.text).id == before + 1
    assert sent == ["post_permitted"]
    assert allowance(client) == 0


def test_train__by_a_signer_of_transactions_alone__approves_and_posts(
    client: Client, place: CliNetwork, sent: list[str]
) -> None:
    hosted = Client(account=SignsTransactions(client.signer), say=print)
    hosted.train(place.config(), 14, place.text)
    assert sent == ["approve", "post"]
    assert allowance(client) == 0


@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize("when", ["before it is sent", "before it is mined"])
def test_train__killed_at_its_last_transaction__posts_once_when_run_again(
    client: Client, place: CliNetwork, monkeypatch: pytest.MonkeyPatch, signs: bool, when: str
) -> None:
    by = client if signs else Client(account=SignsTransactions(client.signer), say=print)
    config, before, last = place.config(), jobs(place), "post_permitted" if signs else "post"
    send, wait = Sender.send, Sender._wait

    def dies_before_it_is_sent(self: Sender, call: Any, **options: Any) -> Any:
        if call.function == last:
            raise KeyboardInterrupt
        return send(self, call, **options)

    def dies_before_it_is_mined(self: Sender, entry: Any, *how: Any) -> Any:
        if entry.operation == f"TaskRegistry.{last}":
            entry.leave()
            with self._outbox.locked() as box:
                box.put(entry)
            raise KeyboardInterrupt
        return wait(self, entry, *how)

    with monkeypatch.context() as dying:
        if when == "before it is sent":
            dying.setattr(Sender, "send", dies_before_it_is_sent)
        else:
            dying.setattr(Sender, "_wait", dies_before_it_is_mined)
        with pytest.raises(KeyboardInterrupt):
            by.train(config, 14, place.text)
    assert by.train(config, 14, place.text).id == before + 1
    assert (jobs(place), allowance(client)) == (before + 1, 0)


def test_train__run_again_before_its_first_try_is_mined__posts_nothing_else(
    client: Client, place: CliNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try is under way and unknown to the outbox: an approval now would let a second one be paid."""
    config, before = place.config(), jobs(place)
    rpc = client.chain.w3.provider.make_request
    wait = Sender._wait

    def dies(self: Sender, *_: Any) -> Any:
        raise KeyboardInterrupt  # and the outbox still holds it for this process, so that it is not recognised

    rpc("evm_setAutomine", [False])  # type: ignore[arg-type]
    rpc("evm_setIntervalMining", [0])  # type: ignore[arg-type]
    try:
        monkeypatch.setattr(Sender, "_wait", dies)
        with pytest.raises(KeyboardInterrupt):
            client.train(config, 14, place.text)
        for _ in range(2):
            with pytest.raises(Retryable, match="is not mined yet"):
                client.train(config, 14, place.text)
    finally:
        monkeypatch.setattr(Sender, "_wait", wait)
        rpc("evm_mine", [])  # type: ignore[arg-type]
        rpc("evm_setAutomine", [True])  # type: ignore[arg-type]
        rpc("evm_setIntervalMining", [1])  # type: ignore[arg-type]
    assert client.train(config, 14, place.text).id == before + 1
    assert (jobs(place), allowance(client)) == (before + 1, 0)


def test_train__whose_permit_a_stranger_used__posts_all_the_same(
    client: Client, place: CliNetwork, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, chain = jobs(place), client.chain
    stranger = Sender(chain, keystore.unlock(place.account("stranger"), place.devnet.passphrase_file.read_text()))
    sign_permit = permits.sign_permit

    def used(sender: Sender, token: str, spender: str, value: int, terms: permits.PermitTerms, say: Say) -> Any:
        made = sign_permit(sender, token, spender, value, terms, say)
        assert made is not None
        Sender.send(stranger, chain.zen.permit(sender.address, spender, value, *made))
        return made

    monkeypatch.setattr(permits, "sign_permit", used)
    assert client.train(place.config(), 14, place.text).id == before + 1
    assert sent[-2:] == ["permit", "post_permitted"]
    assert allowance(client) == 0


def test_train__whose_permit_is_too_late__approves_and_posts(
    client: Client, place: CliNetwork, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "VALID_S", -1)
    before = jobs(place)
    assert client.train(place.config(), 14, place.text).id == before + 1
    assert sent == ["post_permitted", "approve", "post"]


def test_network_submit_and_wait__can_be_left_and_taken_up_again(client: Client, place: CliNetwork) -> None:
    async def story() -> str:
        sections = json.loads(place.config().read_text())
        sections["data"]["path"] = str(place.text)
        number = await client.network.submit(ComputeJob.from_dict({**sections, "budget_max": 14}))
        waiting = asyncio.create_task(client.job(number).wait(poll_s=0.1))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        waiting.cancel()  # the client goes away; the job does not
        again = Network(store=client.store).job(number)
        resumed = asyncio.create_task(again.wait(poll_s=0.1))
        await asyncio.to_thread(client.job(number).cancel)
        return (await asyncio.wait_for(resumed, 30)).state

    assert asyncio.run(story()) == "cancelled"


def test_distributed_trainer__submits_in_the_seeds_shape(client: Client, place: CliNetwork) -> None:
    trainer = DistributedTrainer(
        model={"layers": 1, "heads": 2, "width": 16, "context": 16},
        dataset=str(place.text),
        nodes=2,
        budget_tokens=500,
        max_budget=30,
        training={"inner_steps": 4, "batch_size": 4, "seed": 4711},
        limits={"slot_s": 40, "aggregate_s": 30, "reexecute_s": 2},
        client=client,
    )
    assert trainer.quote().rounds == 1
    job = trainer.submit()
    assert trainer.submit() is job
    assert (job.progress().state, job.progress().slots) == ("open", 2)
    job.cancel()


def test_watch__interrupted__leaves_the_job_and_says_how_to_return(zoo: Zoo, place: CliNetwork) -> None:
    job = zoo.json("train", place.config(), "--data", place.text, "--max-budget", "14", "--no-watch")["job"]
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo_compute.cli.main", "job", "watch", str(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    assert f"job {job} open" in first
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert f"zoo job watch {job}" in err
    assert "Traceback" not in err
    assert zoo.json("job", "show", str(job))["state"] == "open"


# -- hosted


def test_api_key__authenticates_to_the_hosted_rpc_and_signer(
    zoo: Zoo, place: CliNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tests.integration.hosted_rpc import hosted

    account = place.devnet.account("hosted", zen=100 * ZEN)
    monkeypatch.delenv("ZOO_ACCOUNT")
    with hosted(place.devnet.url, account, key="sesame") as url:
        other = tmp_path / "hosted.json"
        dataclasses.replace(load(place.devnet.network_file), rpcs=(url,), signer=url).save(other)
        with pytest.raises(Unreachable, match="401"):
            _ = Client(network=other).chain
        client = Client(network=other, api_key="sesame")
        assert client.signer.address == account.address
        job = client.train(place.config(), 14, place.text)
        assert job.view().submitter == account.address
        monkeypatch.setenv("ZOO_API_KEY", "sesame")
        assert zoo.json("job", "cancel", str(job.id), "--network", other)["cancelled"]


# -- `zoo devnet`


def test_devnet__prints_what_it_started_ends_with_ctrl_c_and_resumes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "zoo_compute.cli.main", "devnet", "--dir", str(tmp_path / "dev"), "--json"]

    def start() -> tuple[subprocess.Popen[str], dict[str, Any]]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=tied_to_parent()
        )
        assert process.stdout is not None
        return process, json.loads(process.stdout.readline())

    process, answer = start()
    network = load(Path(answer["network"]))
    assert network.storage == (answer["storage"],)
    assert (
        Client(network=network, account=Path(answer["accounts"]["me"]["keystore"])).chain.zen.balanceOf(
            answer["accounts"]["me"]["address"]
        )
        >= 100_000 * ZEN
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_S)
    assert (process.returncode, "Traceback" in err) == (0, False)
    process, again = start()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert again["accounts"] == answer["accounts"]
    assert load(Path(again["network"])).contracts == network.contracts
