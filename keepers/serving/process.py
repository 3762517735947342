"""The process of a serving seat: checks the seat, loads its model, and answers until a signal."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import uvicorn
from eth_account import Account

from keepers.config import OperatorConfig
from keepers.services.answered_questions import AnsweredQuestions
from keepers.serving.application import Network, ServedSeat
from keepers.serving.engine import Engine
from keepers.serving.seat import ReceiptSigner, SeatWatch
from node.device import computes_on, pick_device, runner
from repops.fields import BadField
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.network import load as load_network
from zoo_compute.errors import ConfigError, UserError
from zoo_compute.inference.books import operator_book
from zoo_compute.inference.seats import Seat, read_seat
from zoo_compute.operators.hot_key import receipt_key
from zoo_compute.paths import QUESTIONS, VOUCHERS
from zoo_compute.serving.execution import Execution
from zoo_compute.serving.files import TIMEOUT_S, BadService, StoredService
from zoo_compute.serving.receipts import domain_of
from zoo_compute.serving.service import BYTES, Service
from zoo_compute.serving.texts import open_texts
from zoo_compute.store import Store, open_store

log = logging.getLogger("zoo.serving")

MOST_CONNECTIONS = 512
Load = Callable[[StoredService], dict[str, Execution]]
Say = Callable[[str], None]


def load_executions(stored: StoredService, device: str, threads: int, say: Say) -> dict[str, Execution]:
    """The service's programs by root, with the model's weights. Raises BadService where the files are not the service's, NoDevice."""
    chosen, service = computes_on(pick_device(device or None)), stored.service
    executions, weights = {}, None
    for program in service.programs:
        graph = stored.graph(program)
        weights = stored.weights(graph) if weights is None else weights
        try:
            executions[program.root] = Execution(
                service, graph, weights, runner(graph, chosen), threads or os.cpu_count() or 1
            )
        except BadField as error:
            raise BadService(f"the files of {stored.cid} are not what it says: {error}") from error
        say(f"{service.model} answers {program.rows} text{'s' if program.rows > 1 else ''} together on {chosen}")
    return executions


def check_seat(seat: Seat, operator: int, signer: str) -> None:
    """That the seat is this operator's, serves, and has this signer. Raises ConfigError."""
    if seat.operator != operator:
        raise ConfigError(
            f"seat {seat.number} is operator {seat.operator}'s, and this folder is operator {operator}'s",
            hint="`zoo serving list` shows yours; choose the folder with --home",
        )
    if seat.left_at is not None or not seat.lock:
        raise ConfigError(
            f"seat {seat.number} was left, or nothing is locked in it", hint="take another one: `zoo serving take`"
        )
    if seat.signer.lower() != signer.lower():
        raise ConfigError(
            f"the receipts of seat {seat.number} are signed by {seat.signer}, and this folder's key is {signer}",
            hint=f"start it in the folder that has that key, or take a seat with `zoo serving take --signer {signer}`",
        )


def pin_files(store: Store, cid: str, service: Service) -> None:
    """All that a worker needs to answer for a receipt: fetched, and kept until you unpin it."""
    files = [cid, service.weights, *(program.cid for program in service.programs)]
    for each in files if service.tokenizer == BYTES else [*files, service.tokenizer]:
        store.pin(each, timeout_s=TIMEOUT_S)


@contextmanager
def opened_seat(
    config: OperatorConfig, number: int, waiting: int, say: Say, *, chain: Chain | None = None, load: Load | None = None
) -> Iterator[ServedSeat]:
    """All that answers a seat's requests, checked and started. At the end it answers what was paid for.

    waiting: the most requests at once. load: makes what runs the programs. Raises ConfigError, BadService, and
    the chain's and the store's errors.
    """
    with ExitStack() as stack:
        chain = chain or connect(load_network(config.network_path))
        chain.follow()
        seen, seat, key = chain.head().number, read_seat(chain, number), receipt_key(config.folder)
        check_seat(seat, config.operator, str(Account.from_key(key).address))
        store = open_store(config.store_location, tuple(chain.network.storage))
        say(f"fetching {seat.service}")
        stored = StoredService.fetch(store, seat.service)
        pin_files(store, seat.service, stored.service)
        texts = open_texts(stored.service, store)
        executions = load(stored) if load else load_executions(stored, config.device, config.threads, say)
        questions = AnsweredQuestions(config.folder / QUESTIONS)
        stack.callback(questions.close)
        book = operator_book(config.folder / VOUCHERS, chain, config.operator)
        stack.callback(book.close)
        watch, at = SeatWatch(chain, seat, seen), chain.network
        domain = domain_of(at.chain_id, at.contracts["serving"])
        engine = Engine(executions, ReceiptSigner(seat, seat.service, key, domain, questions, watch.now), waiting)
        stack.callback(watch.stop)
        stack.callback(engine.stop)
        watch.start()
        engine.start()
        network = Network(at.chain_id, at.contracts["serving"], at.contracts["channels"])
        yield ServedSeat(watch, stored.service, texts, engine, book, network)


class _Server(uvicorn.Server):
    """Refuses new requests at the first signal, and ends once what was paid for is answered; at the second one at once."""

    def __init__(self, config: uvicorn.Config, engine: Engine) -> None:
        super().__init__(config)
        self._engine = engine

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but the signals are not raised again: what follows the server must still run."""
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        # Not here: a signal may come while this thread has the engine's lock.
        threading.Thread(target=self._engine.stop_taking, daemon=True).start()


def configured(seat: ServedSeat) -> uvicorn.Config:
    return uvicorn.Config(
        seat.application(),
        log_level="warning",
        server_header=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
    )


def listening(host: str, port: int) -> socket.socket:
    """port: 0 takes a free one. Raises UserError."""
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(
            f"port {port} on {host} cannot be used: {error.strerror or error}", hint="choose another --port or --host"
        ) from error
    # asyncio sets it on sockets that it makes itself alone; without it each piece of an answer waits for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def serve(
    config: OperatorConfig,
    number: int,
    host: str,
    port: int,
    waiting: int,
    say: Say,
    started: Callable[[dict[str, Any]], None],
) -> None:
    """Until a signal. started: called once requests are answered, with where. Raises what `opened_seat` and `listening` raise."""
    with listening(host, port) as listener, opened_seat(config, number, waiting, say) as seat:
        where = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        started({"seat": number, "model": seat.service.model, "url": where, "signer": seat.watch.seat.signer})
        _Server(configured(seat), seat.engine).run(sockets=[listener])
        say("stopped; what was paid for is answered")
