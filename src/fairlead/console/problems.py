"""Why a request has no effect, as RFC 9457 has it: `application/problem+json`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from fairlead.console.answers import ProblemDetails
from fairlead.errors import FairleadError
from fairlead.model.encoding import format_json

__all__ = ["PROBLEM_JSON", "Problem"]

PROBLEM_JSON: Final = "application/problem+json"


class Problem(FairleadError):
    """A refused request: its status, and what to do about it."""

    def __init__(
        self, status: int, detail: str, *, headers: dict[str, str] | None = None, index: int | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.index = status, detail, headers, index

    @classmethod
    def of(cls, status: int, error: FairleadError, **others: Any) -> Problem:
        """The problem that an error amounts to, its hint in the same sentence."""
        return cls(status, str(error).replace("\n  hint: ", "; "), **others)

    def response(self) -> Response:
        """The response."""
        details: ProblemDetails = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.index is not None:
            details["index"] = self.index
        return Response(
            format_json(details), status_code=self.status, headers=self.headers, media_type=PROBLEM_JSON
        )
