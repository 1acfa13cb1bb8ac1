"""`/metrics` of a running pipeline.

    figures = Figures("quotes")
    with served(figures, Address("127.0.0.1", 9464)):
        pipeline.run(figures.took)

Counters count what this process has committed; after a restart they begin again, as Prometheus expects it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from fairlead.console.families import TEXT_FORMAT, Family, Labels, exposed

if TYPE_CHECKING:
    from fairlead.network.addresses import Address
    from fairlead.spark.summary import Batch

__all__ = ["Figures", "served"]

COUNTERS: Final = {
    "read": "rows that were read",
    "rejected": "rows that could not be read",
    "duplicates": "rows that had come before",
    "conflicts": "copies of another row, with other content",
    "late": "rows that came behind the watermark",
    "released": "rows that were matched",
    "deliveries": "deliveries",
    "composites": "composites that patterns found",
}
"""Fields of a batch that add up, in words."""
HELD: Final = "rows that wait for the watermark"
BUCKETS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Figures:
    """Figures of a pipeline. One thread tells of batches, others ask: each holds the lock while it does."""

    def __init__(self, name: str, at: Callable[[], str] = lambda: "") -> None:
        self._labels: Labels = (("pipeline", name),)
        self._at = at
        self._lock = threading.Lock()
        self._counted: Counter[str] = Counter()
        self._batches = 0
        self._seconds = 0.0
        self._within: Counter[float] = Counter()
        self._last: Batch | None = None

    def took(self, batch: Batch) -> None:
        """A batch is committed."""
        with self._lock:
            self._batches += 1
            self._seconds += batch.seconds
            self._last = batch
            for name in COUNTERS:
                self._counted[name] += getattr(batch, name)
            for bound in BUCKETS_S:
                self._within[bound] += batch.seconds <= bound

    def text(self) -> str:
        """All figures, as Prometheus reads them."""
        with self._lock:
            return exposed(self._families())

    def _families(self) -> Iterator[Family]:
        here = self._labels
        yield Family(
            "fairlead_pipeline_working",
            "gauge",
            "1 while a batch is worked on",
            ((here, int(bool(self._at()))),),
        )
        for name, help in COUNTERS.items():
            yield Family(f"fairlead_pipeline_{name}_total", "counter", help, ((here, self._counted[name]),))
        bounds = [((*here, ("le", bound)), self._within[bound], "_bucket") for bound in BUCKETS_S]
        took = (
            *bounds,
            ((*here, ("le", "+Inf")), self._batches, "_bucket"),
            (here, self._seconds, "_sum"),
            (here, self._batches, "_count"),
        )
        yield Family("fairlead_pipeline_batch_seconds", "histogram", "how long batches took", took)
        if (last := self._last) is None:
            return
        yield Family("fairlead_pipeline_batch", "gauge", "the last batch", ((here, last.number),))
        yield Family("fairlead_pipeline_held", "gauge", HELD, ((here, last.held),))
        if last.watermark is not None:
            help = "the watermark, in seconds since 1970 by the events' clock"
            yield Family(
                "fairlead_pipeline_watermark_seconds", "gauge", help, ((here, last.watermark / 1e6),)
            )


@contextmanager
def served(figures: Figures, address: Address) -> Iterator[int]:
    """Serve figures over HTTP while the block runs; the port."""
    handler = type("_Metrics", (_Handler,), {"figures": figures})
    with ThreadingHTTPServer((address.host, address.port), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(
            target=server.serve_forever, args=(0.05,), name="fairlead-metrics", daemon=True
        )
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers of `/metrics`, and of `/livez` for those who ask whether the process is there."""

    figures: Figures
    timeout = 10

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(200, self.figures.text(), TEXT_FORMAT)
            case "/livez":
                self._answer(200, "it runs\n", "text/plain; charset=utf-8")
            case _:
                self._answer(404, "there are /metrics and /livez\n", "text/plain; charset=utf-8")

    def _answer(self, status: int, text: str, kind: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal is the pipeline's."""
