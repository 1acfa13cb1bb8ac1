"""`fairlead console`: the same pages from a process of one's own, behind a key."""

from __future__ import annotations

import http.client
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from fairlead.cli import main
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers


def test_it_shows_the_network_to_those_who_have_its_address(tmp_path: object) -> None:
    with Brokers() as brokers:
        hub = brokers.start("hub")
        brokers.start("east", links=(hub.url,))
        command = [sys.executable, "-m", "fairlead", "console", "-b", hub.url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = urlsplit(process.stdout.readline().strip())
            assert address.query.startswith("key=")

            def ask(path: str, cookie: str = "", **headers: str) -> http.client.HTTPResponse:
                connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE_S)
                connection.request("GET", path, headers={"Cookie": cookie, **headers})
                answer = connection.getresponse()
                answer.body = answer.read()  # type: ignore[attr-defined]
                connection.close()
                return answer

            assert ask("/console/").status == 403
            assert ask("/console/static/console.css").status == 403
            assert ask("/console/?key=wrong").status == 403
            opened = ask(f"{address.path}?{address.query}")
            assert (opened.status, opened.headers["location"]) == (303, "/console/")
            given = opened.headers["set-cookie"]
            assert "HttpOnly" in given
            assert "samesite=strict" in given.lower()
            cookie = given.partition(";")[0]
            assert ask("/console/", cookie).status == 200
            assert b'"east"' in ask("/console/overlay.json", cookie).body  # type: ignore[attr-defined]
            assert ask("/console/overlay.json", cookie, Host="evil.example.org").status == 421
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def test_it_is_for_this_machine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--listen", "0.0.0.0:0"]) == 2
    assert "the console is for this machine" in capsys.readouterr().err
