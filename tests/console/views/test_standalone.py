"""`fairlead console`: the same pages from a process of one's own, behind a key."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fairlead.cli import main
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers
from fairlead_lab.testing.guarded import Guarded, token


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


def test_it_acts_as_the_owner_of_the_credentials(tmp_path: Path) -> None:
    with Brokers() as brokers:
        server = Guarded(brokers, tmp_path).start(logged=False)
        command = [sys.executable, "-m", "fairlead", "console", "-b", server.url]
        with_token = {**os.environ, "FAIRLEAD_TOKEN": token("root")}
        opened = [  # one beside the other
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=with_token) for _ in range(2)
        ]
        try:
            for process in opened:
                assert process.stdout is not None
                address = urlsplit(process.stdout.readline().strip())
                connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE_S)
                connection.request("GET", f"{address.path}?{address.query}")
                cookie = connection.getresponse().headers["set-cookie"].partition(";")[0]
                connection.close()
                connection.request("GET", "/console/overlay.json", headers={"Cookie": cookie})
                answer = connection.getresponse()
                assert answer.status == 200
                assert [each["name"] for each in json.load(answer)["brokers"]] == [server.settings.name]
                connection.close()
        finally:
            for process in opened:
                process.terminate()
                process.communicate(timeout=PATIENCE_S)


def test_it_is_for_this_machine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--listen", "0.0.0.0:0"]) == 2
    assert "the console is for this machine" in capsys.readouterr().err
