"""The scope graph language: `parse_statements` reads it, `print_statements` writes it (book 6.6.3).

Law: parse of print is the identity, so a statement is sent, stored and compared as its text.
"""

from fairlead.scopes.language.parser import parse_statements
from fairlead.scopes.language.printer import print_statement, print_statements

__all__ = ["parse_statements", "print_statement", "print_statements"]
