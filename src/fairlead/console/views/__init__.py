"""The console in the browser: a network, its filters, patterns and scopes, to look at and to try.

The law: a view shows what the brokers answer to the one who looks, and changes what that one may change.

    routes         the pages below `/console`, and who may see them
    network        the network that they show: of the broker that serves them, or elsewhere
    shell          the frame of a page, and what pages are made of
    overlay        brokers and links, what a broker has, why a filter is at a link
    following      the way of one notification, by the routing tables
    trial          a filter against events; two filters compared
    subscriptions  standing subscriptions by text and by covering; durable subscribers
    patterns       the automaton of a pattern, and its composites
    scopes         a scope graph as a draft
    pipeline       a run of a pipeline: the report, while it goes on and afterwards
    trying         the questions behind these views
    beside         work beside the event loop, and its end where it takes too long
    layout         where brokers stand in the picture
    standalone     a process of its own that serves parts: a network elsewhere, a pipeline, a simulation

Pages are made here, of `fairlead.markup`; htmx exchanges parts of them, and Cytoscape.js draws the overlay. The
process itself serves all files, and the pages allow no other source of code, styles or pictures.
"""

from fairlead.console.views.network import Network, Remote, Within
from fairlead.console.views.routes import views

__all__ = ["Network", "Remote", "Within", "views"]
