"""Sealed attributes: encrypted under key classes, so that a notification carries public and private content (book
8.1.4).

    sealer = Sealer(annotations, keyring)
    sealed = sealer.seal(notification)            what travels: sealed attributes are bytes that name their classes
    filter = sealer.filter("location = 'a'")      what a broker is told: predicates on sealed attributes are sealed
    view = sealer.view(sealed)                    the notification, without what the keyring does not open

The laws:

- view(seal(n)) = n for whoever has the keys. Without them an attribute is absent, and its bytes tell its classes,
  their epochs and its length, rounded up.
- An attribute is bound to its notification: under another name, producer, id or type it does not open.
- An attribute that is sealed under the classes K satisfies a predicate that is sealed under the alternatives L iff
  K is in L and the value satisfies the predicate. One sealed predicate covers another iff it has all alternatives
  of the other, and its predicate covers that of the other (book Def. 8.1, with K in L for K subset of L). Brokers
  know of equal predicates only, by their tokens, whether or not they have the keys: all have to agree on what
  covers what.
- A broker without the key forwards what may match. So everybody gets what they would get if all brokers had all
  keys.
- A new epoch of a class has a new key. Who does not get it reads nothing that is sealed from then on.

    keys         keys by class and epoch, and their file
    envelope     one sealed value
    predicates   one sealed predicate, and how a filter is bound to a keyring
    sealer       notifications and filters
    sharing      keys for members, as notifications
    tunnels      notifications that are sealed for some brokers
    equality     tokens of values, by which programs without the keys decide about equality
    signing      signatures of producers over what they sealed

Which classes open an attribute is said by `fairlead.security.annotations`. The rule that brokers ask is
`fairlead.rules.sealing.Sealing`. This is the only package that imports `cryptography`.
"""

from fairlead.security.annotations import PLAIN, Annotation, Annotations
from fairlead.security.sealing.keys import Keyring
from fairlead.security.sealing.sealer import Sealer
from fairlead.security.sealing.sharing import Identity, shares, take_share

__all__ = ["PLAIN", "Annotation", "Annotations", "Identity", "Keyring", "Sealer", "shares", "take_share"]
