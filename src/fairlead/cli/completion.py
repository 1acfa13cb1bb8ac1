"""`fairlead completion`: a script with which a shell completes commands, options and their choices.

    source <(fairlead completion bash)

The script has the words of every command in a table, so pressing the key starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Final

from fairlead.cli.terminal import say

__all__ = ["configure", "words"]

BASH: Final = r"""# fairlead: completion for bash. source <(fairlead completion bash)
_fairlead() {
  local word=${COMP_WORDS[COMP_CWORD]} path="" each choices
  local before=${COMP_WORDS[COMP_CWORD-1]}
  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [ -n "$(_fairlead_words "$path $each")" ] && path="$path $each"
  done
  choices=$(_fairlead_words "$path $before=")
  [ -n "$choices" ] || choices=$(_fairlead_words "$path")
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}
complete -o filenames -F _fairlead fairlead
"""
ZSH: Final = """# fairlead: completion for zsh. source <(fairlead completion zsh)
autoload -U +X bashcompinit && bashcompinit
"""
FISH: Final = r"""# fairlead: completion for fish. fairlead completion fish | source
function _fairlead
  set -l given (commandline -opc)
  set -l path ""
  for each in $given[2..]
    test -n "$(_fairlead_words "$path $each")"; and set path "$path $each"
  end
  set -l choices (_fairlead_words "$path $given[-1]=")
  test -n "$choices"; or set choices (_fairlead_words "$path")
  string split " " -- $choices
end
complete -c fairlead -a "(_fairlead)"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = "Print a script with which a shell completes commands, options and their choices."
    parser.epilog = (
        "Example: source <(fairlead completion bash), or for good: "
        "fairlead completion bash > ~/.local/share/bash-completion/completions/fairlead"
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from fairlead.cli import complete_parser

    found = words(complete_parser())
    match arguments.shell:
        case "bash":
            text = _table(found) + BASH
        case "zsh":
            text = ZSH + _table(found) + BASH.partition("\n")[2]
        case _:
            text = _fish_table(found) + FISH
    say(text.rstrip("\n"))
    return 0


def words(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """The words that may follow each command, and each option that has choices, `broker run --x=`."""
    return dict(_words(parser, ""))


def _words(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    own: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            own += action.choices
            for name, below in action.choices.items():
                yield from _words(below, f"{path} {name}")
            continue
        if action.help == argparse.SUPPRESS:
            continue
        own += [each for each in action.option_strings if each.startswith("--")]
        choices = [str(each) for each in action.choices or ()]
        if action.option_strings:
            yield from ((f"{path} {option}=", choices) for option in action.option_strings if choices)
        else:
            own += choices
    yield path, own


def _table(found: Mapping[str, list[str]]) -> str:
    """The table as a function of bash and zsh."""
    rows = "".join(f"    {quote(path)}) echo {quote(' '.join(own))} ;;\n" for path, own in found.items())
    return f'_fairlead_words() {{\n  case "$1" in\n{rows}  esac\n}}\n'


def _fish_table(found: Mapping[str, list[str]]) -> str:
    rows = "".join(
        f"    case {quote(path)}\n      echo {quote(' '.join(own))}\n" for path, own in found.items()
    )
    return f'function _fairlead_words\n  switch "$argv[1]"\n{rows}  end\nend\n'
