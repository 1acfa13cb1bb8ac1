"""The answers of other systems' engines to texts in their languages, which `fairlead.dialects` is held to.

    python -m fairlead_lab.dialects cesql > tests/corpus/cesql.jsonl                CloudEvents' SDK for Go 2.16
    python -m fairlead_lab.dialects eventbridge > tests/corpus/eventbridge.jsonl    Event Ruler 2.1
    python -m fairlead_lab.dialects jms > tests/corpus/jms.jsonl                    ActiveMQ 6.1
    python -m fairlead_lab.dialects nats > tests/corpus/nats.jsonl                  the server of NATS 2.15
    python -m fairlead_lab.dialects.pysigma > tests/corpus/pysigma.json             pySigma 2.0: correlations
    python -m fairlead_lab.dialects.pysigma_rules > tests/corpus/sigma.jsonl        pySigma 2.0: rules

Each line is a text, an event, and whether the engine says that they match, or refuses the text. Texts and
events are drawn at random from a seed, and half of the lines match; hand-picked ones come behind them. It
takes Maven, Java and Maven's repository, or Go and its proxy. Most tests read the lines and take none of it; one
asks the engines again, where they can be built.
"""

from __future__ import annotations

from fairlead_lab.dialects.engines import ENGINES, Engine, answers
from fairlead_lab.dialects.texts import Case, drawn, picked

__all__ = ["ENGINES", "Case", "Engine", "answers", "drawn", "picked"]
