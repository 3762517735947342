"""A contract's functions as Python's: arguments in, structs and events as named tuples out."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eth_abi.decoding import ContextFramesBytesIO
from eth_abi.registry import registry
from eth_utils.crypto import keccak

from tests.support.abi_codec import NotPlain, checksummed, struct_type, values_codec
from tests.support.sources import Compiled

if TYPE_CHECKING:
    from tests.support.evm import Chain, Result


@dataclass(frozen=True)
class Log:
    """As the EVM has it."""

    address: str
    topics: list[bytes]
    data: bytes


class Contract:
    """At an address. `last` is the result of the last call that went through it."""

    def __init__(self, chain: Chain, compiled: Compiled, address: str) -> None:
        self.chain, self.compiled, self.address = chain, compiled, address
        self.last: Result | None = None
        self._interface = interface(compiled)

    def __getattr__(self, name: str) -> Method:
        functions = self.__dict__["_interface"].functions
        if name not in functions:
            raise AttributeError(f"{self.compiled.name} has no function {name}")
        method = Method(self, functions[name])
        setattr(self, name, method)
        return method

    def __repr__(self) -> str:
        return f"<{self.compiled.name} at {self.address}>"

    def constructor(self, args: Sequence[Any]) -> bytes:
        return self._interface.constructor.encode(args)

    def get_logs(self, result: Result | None = None, *, include_child_logs: bool = True) -> list[Any]:
        """The events of a call, the last one of this contract if none is given; those of contracts not known are left out."""
        result = result or self.last
        assert result, "nothing was called"
        events = []
        for log in result.logs:
            by = self if log.address == self.address else self.chain.contracts.get(log.address)
            if by and (include_child_logs or by is self):
                events.append(by._interface.event(log.address, log))
        return events


class Method:
    """One function, or several of one name that differ in the number of their arguments."""

    def __init__(self, contract: Contract, functions: dict[int, Function]) -> None:
        self.contract, self.functions = contract, functions

    def __call__(self, *args: Any, sender: Any = None, value: int = 0) -> Any:
        from tests.support.evm import Reverted

        function = self.function(args)
        contract = self.contract
        result = contract.chain.call(
            contract.address,
            function.selector + function.encode(args),
            sender=sender,
            value=value,
            is_static=function.is_view,
        )
        contract.last = result
        if result.failure:
            raise Reverted(result)
        return function.decode(result.output)

    def function(self, args: Sequence[Any]) -> Function:
        if len(args) not in self.functions:
            raise TypeError(f"{self.contract!r}: {len(args)} arguments, expected {list(self.functions)}")
        return self.functions[len(args)]

    def prepare_calldata(self, *args: Any) -> bytes:
        function = self.function(args)
        return function.selector + function.encode(args)

    @property
    def only(self) -> Function:
        """Where there is one of this name."""
        (function,) = self.functions.values()
        return function


class Function:
    def __init__(self, entry: dict[str, Any]) -> None:
        self.inputs, self.outputs = entry.get("inputs", []), entry.get("outputs", [])
        types = ",".join(type_of(each) for each in self.inputs)
        self.selector = bytes(keccak(text=f"{entry.get('name')}({types})")[:4])
        self.is_view = entry.get("stateMutability") in ("view", "pure")
        self._arguments, self._results = Values(self.inputs), Values(self.outputs)

    def encode(self, args: Sequence[Any]) -> bytes:
        if len(args) != len(self.inputs):
            raise TypeError(f"{len(args)} arguments, expected {len(self.inputs)}")
        return self._arguments.encode(args)

    def decode(self, output: bytes) -> Any:
        """One value, a tuple of several, or None."""
        if not self.outputs:
            return None
        decoded = self._results.decode(output)
        return decoded[0] if len(decoded) == 1 else decoded


class Values:
    """Arguments or results. The codec has the plain cases; in all others `eth_abi` decides, and says what is wrong."""

    def __init__(self, parts: Sequence[dict[str, Any]]) -> None:
        self.parts = parts
        self._type = f"({','.join(map(type_of, parts))})"
        try:
            self.codec = values_codec(parts)
        except NotPlain:
            self.codec = None

    def encode(self, values: Sequence[Any]) -> bytes:
        if self.codec:
            try:
                return self.codec.write(values)
            except NotPlain:
                pass
        return bytes(registry.get_encoder(self._type)(plain(values)))

    def decode(self, data: bytes) -> tuple[Any, ...]:
        if self.codec:
            try:
                return tuple(self.codec.read(data, 0))
            except NotPlain:
                pass
        values = registry.get_decoder(self._type)(ContextFramesBytesIO(data))
        return tuple(read_value(each, value) for each, value in zip(self.parts, values, strict=True))


class Event:
    """Its arguments in the order of the source, after the address."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.inputs = entry["inputs"]
        types = ",".join(type_of(each) for each in self.inputs)
        self.topic = bytes(keccak(text=f"{entry['name']}({types})"))
        self.tuple = namedtuple(entry["name"], ["address", *(each["name"] for each in self.inputs)])  # type: ignore[misc]
        self._indexed = [each for each in self.inputs if each["indexed"]]
        self._data = Values([each for each in self.inputs if not each["indexed"]])
        self._topics = [Values([each]) if is_word(each) else None for each in self._indexed]

    def read(self, address: str, topics: Sequence[bytes], data: bytes) -> Any:
        values = {}
        for each, of_word, topic in zip(self._indexed, self._topics, topics[1:], strict=True):
            values[each["name"]] = of_word.decode(topic)[0] if of_word else topic
        if self._data.parts:
            for each, value in zip(self._data.parts, self._data.decode(data), strict=True):
                values[each["name"]] = value
        return self.tuple(address, *(values[each["name"]] for each in self.inputs))


def is_word(part: dict[str, Any]) -> bool:
    """An indexed argument that its topic holds; of others it has the hash."""
    return not (part["type"] in ("string", "bytes") or part["type"].endswith("]") or "components" in part)


class Interface:
    """A contract's ABI, made ready once."""

    def __init__(self, abi: list[dict[str, Any]]) -> None:
        self.functions: dict[str, dict[int, Function]] = {}
        self.events: dict[bytes, Event] = {}
        self.constructor = Function({})
        for entry in abi:
            if entry["type"] == "function":
                self.functions.setdefault(entry["name"], {})[len(entry["inputs"])] = Function(entry)
            elif entry["type"] == "event":
                event = Event(entry)
                self.events[event.topic] = event
            elif entry["type"] == "constructor":
                self.constructor = Function(entry)

    def event(self, address: str, log: Log) -> Any:
        return self.events[log.topics[0]].read(address, log.topics, log.data)


_interfaces: dict[int, tuple[Compiled, Interface]] = {}


def interface(compiled: Compiled) -> Interface:
    known = _interfaces.get(id(compiled))
    if known is None:
        known = _interfaces[id(compiled)] = (compiled, Interface(compiled.abi))
    return known[1]


def type_of(part: dict[str, Any]) -> str:
    """`(uint256,address)[]` of a list of structs."""
    kind: str = part["type"]
    if not kind.startswith("tuple"):
        return kind
    return f"({','.join(type_of(each) for each in part['components'])}){kind.removeprefix('tuple')}"


def plain(value: Any) -> Any:
    """An argument as it is encoded: a contract or a key stands for its address."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return getattr(value, "address", value)


def shower(part: dict[str, Any]) -> Callable[[Any], Any] | None:
    """What makes of a decoded value what tests compare: structs with names, addresses with checksums, lists."""
    kind: str = part["type"]
    if kind.endswith("]"):
        inner = shower({**part, "type": kind[: kind.rindex("[")]})
        return list if inner is None else lambda values: [inner(each) for each in values]
    if kind == "tuple":
        names = [each["name"] for each in part["components"]]
        struct = struct_type(tuple(names))
        inner_of = [shower(each) for each in part["components"]]
        return lambda values: struct(*(f(v) if f else v for f, v in zip(inner_of, values, strict=True)))
    return checksummed if kind == "address" else None


def read_value(part: dict[str, Any], value: Any) -> Any:
    show = shower(part)
    return show(value) if show else value
