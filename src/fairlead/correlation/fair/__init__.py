"""Fair subscriptions: processes with identical interests reach identical outcomes (FAIDECS, sections 4 and 5.1).

    Φ = StockQuote[1].time > EarningsReport[1].time and StockQuote[2].value > StockQuote[1].value
    T(Φ) = [EarningsReport, StockQuote, StockQuote]

A subscription is a disjunction of conjunctions of predicates over `T[i].a`, the attribute a of the i-th instance
of type T, counted from 1. Its signature says how many notifications of which types make up one relation, in the
order of the types' names. A notification's type is its attribute `type`. A subscription may have a name, as in
`spike: A.x < B.y`, which is the type of what it delivers; then all may see that, and others be made of it.

    subscriptions   the model: predicates, conjunctions, signatures, components, evaluation
    language        the text form: `parse` reads it, `render` writes it
    reference       the definition, and the search of the paper's Figure 1 to the letter; short and slow
    component       one component: its slots, what is compared, the queues and their disposal
    network         as a network: what arrives is combined with the partial matches that are held
    memories        what a network remembers: of partial matches, those that no other makes useless
    tree            one whose comparisons form a tree: no partial matches are needed
    bank            many components of the common class at once, over arrays; `kernels` is its loop
    relations       what is delivered, as a composite event
    matcher         conjunctions, disjunctions, and many subscriptions that share what they have in common

**What is delivered.** Notifications come one by one, in the established order. They are compared with what is
held, which is what no match has disposed of yet.

- A conjunction falls into its *components*: types belong together iff comparisons connect them. A component
  matches as soon as it can. First received: of all relations that satisfy it, the one whose events came first is
  taken, where events are compared in the order of the signature; the instances of one type come in the order in
  which they were received. Most recent takes the one whose events came last. It waits for nothing, either: A ∧ B
  has two components of one event, so on a1, a2, b1 both choices deliver a1 with b1.
- *Prefix and infix disposal*: a match discards, of each of its types, the last event that it takes and all that
  were received before that one.
- The n-th delivery of a conjunction joins the n-th matches of its components. That is so with either choice: were
  the most recent matches joined, A ∧ B ∧ C on a1, b1, a2, c, b2 would join a2 with b1, which A ∧ B never does.
- A disjunction delivers what its conjunctions deliver; one notification that completes several completes them in
  the one order of conjunctions, so that other conjunctions beside them change nothing.

**Why components.** The paper's search looks for all types of a conjunction together, and by that breaks its own
covering agreement: with Φ = A.x < B.y and A(10), A(1), B(5), B(20), C() in this order, Φ delivers [A(1), B(5)],
but Φ ∧ C delivers [A(10), B(20), C()], for it had to wait until C was there. Here, where the types of Φ and Ψ are
disjoint, the components of Φ ∧ Ψ are those of Φ and those of Ψ, and match what they match alone. So the n-th
delivery of Φ ∧ Ψ is the n-th of Φ and the n-th of Ψ side by side: covering agreement and conjunction total order
hold by construction.

**Why at most one match for each notification.** Nothing that is held makes a match, else it had been delivered. So
every new match takes the notification that has just come. It is the last of its type, so it stands in the slot
of the last instance and, once matched, leaves nothing of its type behind. The network looks for nothing else.

**What is kept** is what may still match, and nothing bounds that but disposal: events that passed the filter of
some slot and were not disposed of, and matches that wait for another component. (An event that fits T[2] only is
held even if none before it fits T[1]: the queues are the paper's.) A type that never finds its partner is held for
ever; that is the paper's meaning, and a subscriber who wants less asks for less with unary
predicates. Where comparisons form a tree over types with one instance each, nothing else is kept. Elsewhere there
are partial matches, computed from the held events, and of these the ones that can still decide whether there is a
match: of two that later events could not tell apart, or only to the disadvantage of one, the other is kept. So a
rising row of instances costs a few for each slot, however many events are held. They are not part of the state,
and are made again from it. The state is `Snapshot`: a frozen value, the same for every process that was fed the
same, with a JSON form. Who joins starts from the snapshot of one who is there, as does a process that recovers.

**What is not promised.** The paper's event validity (an event without comparisons is delivered at last) does
not survive its own infix disposal where a type has several instances: with T[1] and T[2].x = 1 and the order
T(0), T(0), T(1), the second event fits T[1] without a condition, and is disposed of between the first and the
third. It holds for types with one instance. Agreement is among subscriptions that choose alike: first received
and most recent are two different questions.
"""

from fairlead.correlation.fair.component import Choice
from fairlead.correlation.fair.language import parse, render
from fairlead.correlation.fair.matcher import (
    ComponentState,
    ConjunctionState,
    Correlator,
    Matcher,
    Snapshot,
)
from fairlead.correlation.fair.relations import Relation
from fairlead.correlation.fair.subscriptions import (
    Comparison,
    Conjunction,
    Instance,
    Reference,
    Restriction,
    Subscription,
)

__all__ = [
    "Choice",
    "Comparison",
    "ComponentState",
    "Conjunction",
    "ConjunctionState",
    "Correlator",
    "Instance",
    "Matcher",
    "Reference",
    "Relation",
    "Restriction",
    "Snapshot",
    "Subscription",
    "parse",
    "render",
]
