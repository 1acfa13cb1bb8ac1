"""Access control: principals, the policies that limit them, and the part of a request that is granted.

    rights = policy.rights(principal, now)    the rights of a principal at a time, from its active roles
    rights.may(action, filter)                a `Decision`: granted, narrowed to a filter, or refused with a reason

The laws:

- What is granted matches nothing that was not requested, and nothing outside of the limit: granted = requested and
  limit, where the limit is the union of what the active roles grant. A request is never widened; in the book
  (8.1.4) its bound takes its place, which may be wider.
- Nothing is granted that no active role grants. A role is active while its condition and the roles that it
  requires hold; when one of them ends, all that hangs on it ends.
- A delegation grants at most what its giver may do at the same time.
- A decision is a pure function of the policy, the principal, the request and the time.
- Nothing reaches a broker that it is not trusted with: neither notifications nor filters that match them.

    principals   who: a name, with what its credentials say
    policy       the file: roles, delegations, revocations
    delegations  what principals give to others while a broker runs
    rights       what a principal may do, and decisions about requests
    predicates   functions of requests that roles depend on
    trust        what each broker may handle

The rules that ask are `fairlead.rules.access.Access`, on buses and at brokers, and at brokers
`fairlead.rules.trust.Trust`.
"""

from fairlead.security.policy import AccessPolicy, Delegation, Role
from fairlead.security.principals import ANONYMOUS, Principal
from fairlead.security.rights import ACTIONS, RIGHTS, Decision, Grant, Rights
from fairlead.security.trust import BrokerTrust

__all__ = [
    "ACTIONS",
    "ANONYMOUS",
    "RIGHTS",
    "AccessPolicy",
    "BrokerTrust",
    "Decision",
    "Delegation",
    "Grant",
    "Principal",
    "Rights",
    "Role",
]
