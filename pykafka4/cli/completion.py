"""Completes commands and names in shells. Names of topics and groups come from the cluster that an option, a variable or a profile names.

Invariants: if the cluster fails or does not answer within a second, neither names nor errors are shown. A name that a shell would not take
as one plain word is not shown, because bash puts names into the command line as they are.
"""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, get_completion_class, split_arg_string

from pykafka4.cli.invocation import DONE, Invocation

if TYPE_CHECKING:
    from pykafka4.admin import AdminClient

__all__ = ["COMPLETE", "NAMES", "completion"]

COMPLETE: Final = "_PYKAFKA4_COMPLETE"  # shells set this variable to get completions
ANSWER_S: Final = 1.0
WORD: Final = re.compile(r"[\w.:/@%+=-]+")  # no space, control character, or character with a meaning in a shell

# Bash divides words at colons, even in `localhost:9092`, so its words are of no use: the script passes the line up to the cursor, and
# the class `Bash` divides it.
BASH_SCRIPT: Final = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "${1/#\\~/$HOME}")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class Bash(BashComplete):
    source_template = BASH_SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], incomplete


@click.command(
    epilog="""\b
Examples:
  pykafka4 completion bash > ~/.pykafka4.bash      in ~/.bashrc: source ~/.pykafka4.bash
  pykafka4 completion zsh > ~/.zfunc/_pykafka4     in ~/.zshrc before compinit: fpath+=~/.zfunc
  pykafka4 completion fish > ~/.config/fish/completions/pykafka4.fish
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script with which a shell completes commands, options and names of topics and groups."""
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root()
    click.echo(found(root.command, {}, str(root.info_name), COMPLETE).source())
    return DONE


class TopicName(click.types.StringParamType):
    """The type of a parameter that shells complete with the cluster's topics."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = self._names(ctx.ensure_object(Invocation))
        return [CompletionItem(name) for name in names if name.startswith(incomplete) and WORD.fullmatch(name)]

    def _names(self, invocation: Invocation) -> list[str]:
        logging.disable()  # a log line would appear in the line that the user types
        try:
            with invocation.admin() as admin:
                return self._look(admin)
        except Exception:  # errors of any kind: their texts would appear in the line, too
            return []
        finally:
            logging.disable(logging.NOTSET)

    def _look(self, admin: AdminClient) -> list[str]:
        return list(admin.list_topics(timeout=ANSWER_S))


class GroupName(TopicName):
    def _look(self, admin: AdminClient) -> list[str]:
        return [group.group_id for group in admin.list_groups(timeout=ANSWER_S)]


NAMES: Final = {"topic": TopicName(), "topics": TopicName(), "group": GroupName(), "groups": GroupName()}  # keys are names of parameters
