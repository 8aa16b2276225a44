"""Logging in with what plugins offer: the methods of their ``auth`` hooks (the reference's section 3.3).

A method is ``{"type": "api" | "oauth", "label": ..., "prompts": [...], "authorize": async (inputs) -> answer}``. For
``api`` the answer is ``{"type": "success", "key": ...}``; without `authorize` the person is asked for the key. For
``oauth`` it is ``{"url", "instructions", "method": "auto" | "code", "callback"}``; what the callback returns is kept.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from instar.cli.context import Context
from instar.cli.failure import Failure
from instar.cli.text import one_line
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.runtime import Runtime

Method = Mapping[str, Any]


async def has_plugins(context: Context) -> bool:
    """Whether the working directory's settings name plugins; settings with a mistake name none."""
    # Start-up time: only a login reads settings.
    from instar.config import ConfigError
    from instar.document import DocumentError
    from instar.process import Processes
    from instar.project import discover
    from instar.settings import read_settings

    processes = Processes()
    folder = context.folder(None)
    try:
        project = await discover(folder, processes)
        read = read_settings(folder, project, context.paths, context.environment, {}, context.trust)
    except (DocumentError, ConfigError) as error:
        click.echo(f"instar: no plugin is asked how to log in: {one_line(str(error))}", err=True)
        return False
    finally:
        await processes.close()
    return bool(read.plugins)


def methods(runtime: "Runtime", provider: str) -> list[Method]:
    """Return what plugins offer for a provider, in their order."""
    return [
        method
        for _, hook in runtime.instance.plugins.registered("auth")
        if hook.get("provider") == provider
        for method in hook.get("methods") or ()
        if isinstance(method, Mapping) and method.get("type") in ("api", "oauth")
    ]


def chosen(found: Sequence[Method], label: str | None) -> Method:
    """Return the method of a label, the only one, or the one that the person picks."""
    labels = [str(method.get("label") or method["type"]) for method in found]
    if label is not None:
        if label not in labels:
            raise Failure(f"there is no method {label!r} to log in; there are: {', '.join(labels)}", 2)
        return found[labels.index(label)]
    if len(found) == 1:
        return found[0]
    if not sys.stdin.isatty():
        raise Failure(f"there are several methods to log in; give --method one of: {', '.join(labels)}", 2)
    for number, text in enumerate(labels, 1):
        click.echo(f"{number}  {one_line(text)}")
    return found[click.prompt("Method", type=click.IntRange(1, len(found))) - 1]


async def by_method(method: Method, provider: str) -> tuple[str, Plain] | None:
    """Log in; return the provider and what to keep of it, None when the person is to give a key. Raises `Failure`."""
    # Start-up time: the help logs nobody in.
    from instar.provider.login import entry_of

    inputs = _inputs(method.get("prompts") or ())
    authorize = method.get("authorize")
    if authorize is None:
        if method["type"] == "oauth":
            raise Failure("the plugin's method has no `authorize`: nothing was kept")
        return None
    try:
        answer = await authorize(inputs)
        if method["type"] == "oauth":
            answer = await _called_back(answer)
        return entry_of(answer, provider)
    except Failure:
        raise
    except Exception as error:
        text = one_line(str(error)) or type(error).__name__
        raise Failure(f"the plugin could not log in to {provider}: {text}; nothing was kept") from error


async def _called_back(answer: Mapping[str, Any]) -> Any:
    click.echo(f"Go to: {one_line(str(answer['url']))}")
    for line in str(answer.get("instructions") or "").splitlines():
        click.echo(one_line(line))
    if answer.get("method") == "code":
        return await answer["callback"](_asked("Code", hidden=True))
    return await answer["callback"]()


def _inputs(prompts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for prompt in prompts:
        message = one_line(str(prompt.get("message") or prompt["key"]))
        options = [str(option["value"]) for option in prompt.get("options") or ()]
        text = _asked(f"{message} ({', '.join(options)})" if options else message)
        problem = f"expected one of {', '.join(options)}" if options and text not in options else None
        if problem is None and callable(prompt.get("validate")):
            problem = prompt["validate"](text)
        if problem:
            raise Failure(f"{message}: {one_line(str(problem))}; nothing was kept", 2)
        found[str(prompt["key"])] = text
    return found


def _asked(message: str, *, hidden: bool = False) -> str:
    """What the person answers; a line of stdin where there is no terminal."""
    if sys.stdin.isatty():
        return str(click.prompt(message, hide_input=hidden)).strip()
    return sys.stdin.readline().strip()
