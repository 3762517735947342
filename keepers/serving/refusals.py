"""Refusals of a serving seat's server, in the shape that OpenAI's clients read."""

from __future__ import annotations

from typing import Any

TYPES = {400: "invalid_request_error", 402: "payment_error", 404: "invalid_request_error", 413: "invalid_request_error"}
TYPES |= {429: "rate_limit_error", 500: "server_error", 503: "server_error"}


class RequestRefused(Exception):
    """status: of HTTP. code: for programs. zoo: what a client can act on."""

    def __init__(
        self, status: int, message: str, code: str, *, zoo: dict[str, Any] | None = None, retry_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.zoo, self.retry_s = status, code, zoo, retry_s

    def to_dict(self) -> dict[str, Any]:
        error = {"message": str(self), "type": TYPES[self.status], "code": self.code}
        return {"error": error, **({} if self.zoo is None else {"zoo": self.zoo})}


def bad_request(message: str, code: str = "invalid_value") -> RequestRefused:
    return RequestRefused(400, message, code)
