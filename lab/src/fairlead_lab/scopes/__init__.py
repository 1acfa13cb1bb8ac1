"""The definitions of scopes as a literal program, which the evaluation is compared with."""

from fairlead_lab.scopes.definition import deliveries, delivery_paths, visible

__all__ = ["deliveries", "delivery_paths", "visible"]
