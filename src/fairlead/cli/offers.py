"""`fairlead offers`: what of a filter others advertise."""

from __future__ import annotations

import argparse

from fairlead.cli.wants import configure_question

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Print what of a filter others advertise, one filter a line, without their names: what there is to"
        " subscribe to."
    )
    parser.epilog = (
        "Example: fairlead offers 'exists price' --watch. Exit code: 0 when something of it is offered, or that is"
        " not known; 1 when nothing is."
    )
    configure_question(parser, "offers")
