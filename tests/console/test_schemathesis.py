"""Requests that are made of the OpenAPI document, right and wrong ones, are answered as the document says."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pytest
import requests
import schemathesis  # type: ignore[import-not-found,unused-ignore]
from hypothesis import HealthCheck, settings
from schemathesis.checks import (  # type: ignore[import-not-found,unused-ignore]
    positive_data_acceptance,
)

from fairlead.console.openapi import DOCUMENT
from fairlead.console.streams import EVENT_STREAM

PATIENCE_S: Final = 20
EXAMPLES: Final = 30 if settings.default.max_examples <= 100 else 2_000
SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT)
UNDECIDED: Final = [positive_data_acceptance]
"""A schema cannot say which texts are filters, nor which records are notifications: 400 is documented for them."""


@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck], deadline=None)
def test_every_answer_is_as_the_document_says(case: Any, broker: Any) -> None:
    _check(case, f"http://127.0.0.1:{broker.port}")


def _check(case: Any, url: str) -> None:
    arguments = case.as_transport_kwargs(base_url=url)
    with (
        requests.Session() as session,
        contextlib.closing(session.request(**arguments, stream=True, timeout=PATIENCE_S)) as response,
    ):
        if response.headers.get("content-type", "").startswith(EVENT_STREAM):
            response._content = b""  # it would never end
        case.validate_response(response, excluded_checks=UNDECIDED)


def test_an_answer_that_the_document_does_not_have_is_found(broker: Any) -> None:
    document = {**DOCUMENT, "paths": {"/status": {"get": {"responses": {"204": {"description": "nothing"}}}}}}
    operation = schemathesis.openapi.from_dict(document)["/status"]["GET"]
    with pytest.raises(BaseException, match="Undocumented"):
        _check(operation.Case(), f"http://127.0.0.1:{broker.port}")
