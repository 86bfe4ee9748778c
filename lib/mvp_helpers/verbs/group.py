"""The helper's verbs as one click group. A verb's module is imported when the verb is run, so one verb loads one module."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

from ..base.errors import BadInput, did_you_mean

MODULES = {
    "hosts": ("cluster", "own-address", "share-gpus", "tool-files", "host-facts", "all-reduce", "prereq"),
    "nodes": ("start-node", "stop-node", "wait-nodes", "watchdog", "watch-chains", "end-chains", "seal-jobs", "ray"),
    "materials": ("prepare", "snapshot", "pack-network"),
    "submission": ("submit", "pack-spec", "run-job"),
    "jobs": ("list", "status", "logs", "stop", "stop-here", "end-leftovers"),
    "verification": ("verify", "verify-versions"),
    "bisection": ("bisect",),
    "keeping": ("checkpoints", "remove-checkpoints", "export-checkpoint", "remove-jobs"),
    "samples": ("samples",),
    "bundles": ("debug-bundle", "host-report", "pack-bundle"),
    "reports": ("report",),
    "diagnosis": ("explain", "triage", "trend"),
    "e2e": ("e2e", "e2e-driver-log", "e2e-report", "e2e-summary"),
}
"""The verbs of each module of this package."""
PROGRAM = "python3 -m mvp_helpers"
MOST_COLUMNS = 130


class Verbs(click.Group):
    """A group that knows the names of its commands and imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all verbs, those of one subject together."""
        return [verb for verbs in MODULES.values() for verb in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a verb, or None for an unknown verb."""
        for module, verbs in MODULES.items():
            if cmd_name in verbs:
                members = vars(importlib.import_module(f".{module}", __package__)).values()
                return next(member for member in members if isinstance(member, click.Command) and member.name == cmd_name)
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that ``args`` begin with. Raises BadInput for an unknown one."""
        known = self.list_commands(ctx)
        if args[0] not in known:
            raise BadInput(f"unknown verb {args[0]!r}{did_you_mean(args[0], known)}", hint=f"{PROGRAM} --help")
        return super().resolve_command(ctx, args)


VERBS = Verbs(
    help="The commands that the numbered scripts run on a host. Results go to stdout, messages to stderr.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MOST_COLUMNS},
    subcommand_metavar="VERB [OPTION|ARGUMENT]...",
    no_args_is_help=False,
)


def run(argv: Sequence[str]) -> int:
    """Run one verb and return its exit code. Raises BadInput for what click rejects, and whatever the verb raises."""
    if not argv:
        raise BadInput("missing verb", hint=f"{PROGRAM} --help")
    try:
        # Not Command.main(): it handles Ctrl-C and closed pipes in its own way.
        with VERBS.make_context(PROGRAM, list(argv)) as context:
            return int(VERBS.invoke(context) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        known = any(argv[0] in verbs for verbs in MODULES.values())
        raise BadInput(_message(error), hint=f"{PROGRAM} {argv[0]} --help" if known else f"{PROGRAM} --help") from None


def _message(error: click.UsageError) -> str:
    """Return click's usage error as one line that names the option or argument."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    if isinstance(error, click.NoSuchOption):
        params = error.ctx.command.get_params(error.ctx) if error.ctx else []
        known = [option for param in params for option in (*param.opts, *param.secondary_opts) if option.startswith("-")]
        message = f"unknown option {error.option_name!r}{did_you_mean(error.option_name, known)}"
    elif isinstance(error, click.MissingParameter) and error.param:
        message = f"missing {error.param.param_type_name} {_name(error.param)}"
    elif isinstance(error, click.BadParameter) and error.param:
        message = f"{_name(error.param)}: {error.message.rstrip('.')}"
    return message.replace("\n", "\\n")


def _name(param: click.Parameter) -> str:
    return param.human_readable_name if isinstance(param, click.Argument) else param.opts[-1]
