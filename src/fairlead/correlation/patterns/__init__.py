"""Patterns: what several notifications, in their one order, mean together (book, chapter 7).

    Quote[price > 100] as q followed by Trade within 5 minutes, same symbol, Trade.price > q.price

    model        the core language as values: atoms, concatenation, sequence, iteration, alternation, timing,
                 parallelisation; conditions, and what a match consumes
    building     the same from Python calls
    language     the readable text; core, the book's notation
    composites   what goes out: composite events, which are notifications again
    definition   what a match is, as below, in a few dozen lines
    reference    the same for whole streams, with conditions and what is taken: the oracle of the automata; slow
    evaluation   the filters of atoms, evaluated by a matching engine
    residuals    what is left of a pattern after what was taken
    automaton    patterns compiled to detection automata
    reactions    what an occurrence does to the patterns that share an automaton
    forms        what patterns have in common that differ in what their atoms take
    graph        matches in progress, shared instead of copied
    judging      conditions about aggregates, for many matches at once
    searching    matches written out of the graph, those that satisfy such conditions
    moving       what becomes of matches in progress with an occurrence, and with time
    instance     one automaton on one stream: the matches in progress, and their state
    sharing      patterns that share an automaton, and automata that share a look-up
    reporting    the composites of matches
    partial      matches in progress, for whoever looks
    handover     the state of a detector as JSON
    lines        chains of steps, matched over columns without an object for an event
    levels       who sees whose composites, and so stands above them
    detector     many patterns at once over one stream
    decomposition, joining   a pattern in parts that are detected elsewhere, with the same composites
    drawing      automata as pictures

**The stream.** Every occurrence has an interval [start; end] and a place in the total order ≺: by end, then
by start, then what came in by (producer, sequence, id), before composites by (pattern, id). Times are order
times in whole microseconds. For points that is the one order of notifications. An occurrence is a point,
start = end, unless its attribute `interval` says when it started (a record with the instant `start`).

**Elements** are occurrences, and time events: a timer that a match has started goes off at its deadline,
behind all occurrences that end at that instant (so `within 1 hour` includes the full hour). Of several that
go off at once, the one with the smaller name comes first; one that is started at the very moment when it goes
off comes right behind what started it. Time events are seen by their own match only, and are not
constituents.

**Behind.** An element y comes *behind* x iff x ≺ y. It *strongly follows* x iff end(x) < start(y), or both
are points of the same instant and x ≺ y. A time event is a point.

**Matches.** A part is matched from a point p of the stream: from its beginning, or from an element x, weakly
or strongly. *Beyond p* is what comes behind x or, if p is strong, what comes behind x and strongly follows
it. A match has constituents (steps, with the occurrences they took), an end (the last element that it took),
and bindings:

    [A ⊆ Σ]     the first element beyond p that is taken or in Σ: if it is taken, that is the match, else there is
                none. An element is taken if it is in A and the conditions that are asked of it hold. [A] is
                [A ⊆ ∅]: what is not taken is skipped.
    C1 C2       a match of C1 from p, then one of C2 from its end, weakly (concatenation)
    C1 ; C2     a match of C1 from p, then one of C2 from its end, strongly (sequence), all of whose constituents
                strongly follow that end: the interval of C1 is over before that of C2 begins
    C{m,n}      C C … C, k times for some k from m to n (iteration)
    C1 | C2     a match of either (alternation)
    C1 || C2    a match of each, from p; the end is the later one (parallelisation). Both may take one element.
    (C1, C2)T   C1 C2, where the timer T is started at the end of C1 and may be named by the atoms of C2. It
                goes off after a duration, at an instant (at once, if that has passed), or at a time of day (the
                next such moment behind the end of C1, in UTC)
    C within d  a match of C with end - start ≤ d, where start is the least start of its constituents

    any A       as [A]; but an element that it could take may also be passed over, and a later one taken
    C1 ~ C2     C1 C2 or C2 C1, and so on for more: one behind the other in some order (permutation)
    C{m,n}+     greedy: let x be the first element that another round would take, if there may be one; what follows
                the rounds begins before x
    C{m,n} until u      behind the first round, all that is taken in rounds comes before the first element that the
                bar u would take, and rounds wait for nothing behind it
    A without u         [A], where an element that the bar u would take, and A does not, makes it fail
    C unless next u ⊆ Σ C, where the first element of Σ is none that the bar u would take, or comes behind C

Where C1 took no element at all, C2 is matched from p itself; what starts a timer always takes one. A pattern
may start anywhere: its matches are those of its body from every point of the stream, weakly. Two matches with
the same constituents and the same end are one. What can match without taking an occurrence is refused.

**Same.** `same a` applies the pattern to the occurrences with each value of a apart; those that have none, or
one that is not equal to itself, take no part.

**Conditions** compare steps. `s.a` is the attribute of what the step s took last; count, sum, min, max, avg,
first and last speak of all that it took. A condition is asked when the last of the steps that it names, from
left to right, is about to take an element, if it names that step plainly (`s.a`): with that element for
`s.a`, and what is bound so far for the rest. A condition that names its last step in aggregates only, or
names steps in different branches of a parallelisation, is asked of the complete match instead. In either case
it is asked only if all that it names is bound. Time events are taken without being asked, and bind nothing. A step
that takes time events only (`then no B`) takes no occurrence to ask about: a condition whose last step it is, is
asked of the occurrences in its Σ, with what is bound so far, and those that fail it are not in Σ. Nothing else
is asked of such a step. A bar is asked about what it would take in the same way; it takes nothing. Absent
values, and values of different kinds, satisfy nothing. Numbers have factors and offsets, times have durations
that are added. Sums and averages are of the numbers, exact; min and max of the values of the kind of the first
one.

`prev(s.a)` is the attribute a of the occurrence before the one that s took or is about to take: the last one
before it, in ≺, of the occurrences in A or Σ of s by their filters alone. `prev(s.a, n)` is that of the n-th one;
it is absent where there are fewer. `s is first` holds iff there is none. For conditions, both name s plainly. The
stream decides, not the match: whether something was taken or consumed changes nothing.

**What is taken.** Matches are found at their end. Of those that end with the same element (all time events of
one instant are one, here), the *first* is the one whose constituents, in order, come first: compared one by
one, by place in the stream; where one has no further constituent, the other one is first. Of those with the same
occurrences, the one whose steps are written first.

    past      (default) from the first on, each that starts behind the last constituent of the one taken before
    all       every match; at most `limit` for each end, the first ones
    next      from the first on, each that starts with an occurrence with which none was taken before
    first     from the first on, each with no constituent that was consumed; it consumes its constituents. Steps
              skip what is consumed when an end is reached, domains do not (the chronicle context)
    from b    as past, but the next one may start with the first, or the last, occurrence that the step b has
              taken in the one before, unless that one starts with it
    recent    the last of those that start behind the last constituent of the one taken before

A match starts with its first constituent. With `same`, all this is for each value apart.

**Partial matches.** A pattern whose body is `C within d` can report what ran out of time. Let s be an
occurrence that may still start a match by what was taken so far (past, recent: it is behind the last
constituent of the last one; next: none was taken that starts with it; first: it is not consumed), with which
none was taken. If at start(s) + d, behind the occurrences of that instant, matches that started with s wait
for further elements within their window, the first of these, as far as it has got, is reported as a partial
composite.

**Composites.** A composite's interval goes from the least start of its constituents to its end; its id is a
hash of the pattern and the constituents (and of its end, where a time event ends it). A pattern sees the
composites of another one iff some atom or domain of it names the other's type (`type = "spike"`, or in a list
of types); they stand at their place in its stream. No pattern sees its own composites, be it over others.
Nothing about a stream's arrival, batches or partitions enters: detection is a function of the stream's
elements.
"""

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.automaton import Automaton
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.detector import Detector
from fairlead.correlation.patterns.language import parse, render
from fairlead.correlation.patterns.model import Pattern, Take
from fairlead.correlation.patterns.partial import Partial

__all__ = [
    "Automaton",
    "Composite",
    "Detector",
    "Occurrence",
    "Partial",
    "Pattern",
    "Take",
    "parse",
    "render",
]
