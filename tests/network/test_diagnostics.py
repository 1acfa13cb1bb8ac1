"""Log messages are one line each, with time, level and broker; nobody writes lines of their own into them."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import BrokerRefused
from fairlead.network import sync
from fairlead.network.addresses import Tls
from fairlead.network.diagnostics import configure, printable
from fairlead_lab.testing.brokers import Brokers

Until = Callable[[Callable[[], object]], None]


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was after the test."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:], logger.level = handlers, level


@given(st.text())
def test_what_is_printable_has_no_control_characters(text: str) -> None:
    shown = printable(text)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", shown)
    assert shown == text or not text.isprintable()
    assert len(shown.splitlines()) <= 1


def test_a_message_is_a_line_of_text_with_time_level_and_broker(root: logging.Logger) -> None:
    stream = io.StringIO()
    configure("hub", "info", "text", stream)
    logging.getLogger("fairlead.x").info("%s is connected", "evil\n2026-01-01 ERROR \x1b[31m")
    logging.getLogger("fairlead.x").debug("not shown")
    [line] = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO hub: evil\\x0a2026-01-01 ERROR \\x1b\[31m is connected",
        line,
    )


def test_a_message_is_a_json_object_with_its_traceback(root: logging.Logger) -> None:
    stream = io.StringIO()
    configure("hub", "warning", "json", stream)
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        logging.getLogger("fairlead.x").exception("it has failed")
    [line] = stream.getvalue().splitlines()
    message = json.loads(line)
    assert (message["level"], message["broker"], message["logger"]) == ("error", "hub", "fairlead.x")
    assert message["message"] == "it has failed"
    assert "ValueError: broken" in message["traceback"]


def test_names_with_control_characters_are_refused(brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers.start("a", tmp_path)
    with pytest.raises(BrokerRefused, match=r"a name has printable characters only, unlike ev\\x0ail"):
        sync.connect(broker.url, name="ev\nil").__enter__()
    with (
        sync.connect(broker.url, name="fine") as client,
        pytest.raises(BrokerRefused, match="printable characters only"),
    ):
        client.subscribe("x = 1", durable="a\x1b[31m")


def shown_by(port: int) -> str:
    """The name in the certificate that a listener shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as secure:
        shown = secure.getpeercert(binary_form=True)
    assert shown is not None
    names = [each for each in (b"CN-first", b"CN-second") if each in shown]
    return names[0].decode()


def test_a_reload_shows_new_certificates_and_bad_ones_change_nothing(
    brokers: Brokers, renewable: Callable[[str], Tls], caplog: pytest.LogCaptureFixture, until: Until
) -> None:
    tls = renewable("CN-first")
    broker = brokers.start("a", tls=tls)
    assert shown_by(broker.port) == "CN-first"
    renewable("CN-second")
    assert shown_by(broker.port) == "CN-first"
    broker.loop.call_soon_threadsafe(broker.reload)
    until(lambda: "the certificates are reloaded" in caplog.text)
    assert shown_by(broker.port) == "CN-second"
    assert tls.certificate is not None
    Path(tls.certificate).write_text("nothing")
    broker.loop.call_soon_threadsafe(broker.reload)
    until(lambda: "the certificates are not reloaded" in caplog.text)
    assert shown_by(broker.port) == "CN-second"
