"""``instar auth``: the keys of providers that instar keeps for a person, and logging in by what plugins offer.

A method of a plugin's ``auth`` hook (docs/reference/plugin-api.md) is ``{"type": "api" | "oauth", "label", "prompts",
"authorize": async (inputs) -> answer}``. For ``api`` the answer is ``{"type": "success", "key": ...}``; without
`authorize` the person is asked for the key. For ``oauth`` it is ``{"url", "instructions", "method": "auto" | "code",
"callback"}``; what the callback returns is kept.
"""

import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from instar.cli import complete
from instar.cli.door import Context, Failure, door
from instar.cli.text import echo, note, one_line, print_list
from instar.provider.catalogue import keys_in, shipped
from instar.provider.keys import Keys
from instar.provider.login import entry_of
from instar.settings.config import ConfigError
from instar.wire import Plain
from instar.wire.document import DocumentError
from instar.wire.secret import Secret

if TYPE_CHECKING:
    from instar.runtime import Runtime
    from instar.settings.load import Settings

_LONGEST_KEY: Final = 16_384


@click.group()
def command() -> None:
    """Keep a provider's key in the data folder, readable by you alone; no command prints it."""


@command.command()
@click.argument("provider", shell_complete=complete.providers)
@click.option("--method", metavar="LABEL", help="Which of the methods that plugins offer.")
@door
async def login(context: Context, provider: str, method: str | None) -> None:
    """Ask for PROVIDER's key and keep it. Without a terminal the key is read from stdin.

    A plugin may offer other methods for a provider: these are used then.
    """
    if not provider.strip() or "/" in provider or provider != provider.strip():
        raise click.UsageError(f"{provider!r} is no provider's name (instar models --all lists them)")
    keys = _keys(context)
    keys.list()  # a file that cannot be read is told before anything is asked
    read = await _settings(context)
    if read is not None and read.plugins:
        # Only a folder with plugins pays for a runtime.
        async with context.runtime(None) as runtime:
            methods = _methods(runtime, provider)
            if methods and (found := await _log_in(_chosen(methods, method), provider)) is not None:
                keys.keep(*found)
                echo(f"kept the login of {found[0]} in {keys.file}{_overridden(context, found[0])}")
                return
    else:
        methods = []
    if method is not None and not methods:
        raise Failure(f"no plugin offers a method to log in to {provider}", 2)
    is_terminal = sys.stdin.isatty()
    text = click.prompt("API key", hide_input=True) if is_terminal else sys.stdin.read(_LONGEST_KEY + 1)
    key = text.strip()
    if not key or len(key) > _LONGEST_KEY or any(mark.isspace() or not mark.isprintable() for mark in key):
        raise Failure("that is no key: it is one word, on one line; nothing was kept", 2)
    keys.put(provider, Secret(key))
    echo(f"kept the key of {provider} in {keys.file}{_overridden(context, provider)}")
    known = {*shipped().providers, *(read.config.provider if read is not None else ())}
    if read is not None and provider not in known:
        near = difflib.get_close_matches(provider, known, n=1)
        note(
            f"no provider is called {provider} yet{f' (did you mean {near[0]}?)' if near else ''}: describe it as "
            f"`provider.{provider}` in instar.json, or take the key back: instar auth logout {provider}"
        )


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects: provider, key.")
@door
def list_(context: Context, as_json: bool) -> None:
    """Print the providers that have a key, and where it is kept."""
    keys = _keys(context)
    found = [{"provider": name, "key": str(keys.file)} for name in keys.list()]
    found += [{"provider": name, "key": f"${variable}"} for name, variable in keys_in(context.environment)]
    otherwise = (
        f"no provider has a key in {keys.file} or the environment; to keep one: instar auth login openai"
    )
    print_list(found, lambda one: f"{one['provider']}  {one['key']}", as_json=as_json, otherwise=otherwise)


@command.command()
@click.argument("provider", shell_complete=complete.kept)
@door
def logout(context: Context, provider: str) -> None:
    """Forget PROVIDER's key."""
    keys = _keys(context)
    if not keys.remove(provider):
        raise Failure(f"no key of {provider!r} is kept in {keys.file} (instar auth list)")
    echo(f"forgot the key of {provider}")


def _keys(context: Context) -> Keys:
    return Keys(context.paths.data / "auth.json")


def _overridden(context: Context, provider: str) -> str:
    """A warning that a variable takes precedence over the key that was kept; empty if none does."""
    found = [variable for name, variable in keys_in(context.environment) if name == provider]
    return f"; ${found[0]} is set and takes precedence" if found else ""


# -- methods of plugins ------------------------------------------------------------------------------


async def _settings(context: Context) -> "Settings | None":
    """The working directory's settings, None if they have a mistake."""
    folder = context.folder(None)
    try:
        return (await context.settings(folder))[1]
    except (DocumentError, ConfigError) as error:
        note(f"no plugin is asked how to log in: {error}")
        return None


def _methods(runtime: "Runtime", provider: str) -> list[Mapping[str, Any]]:
    """What plugins offer for a provider, in their order."""
    return [
        method
        for _, hook in runtime.instance.plugins.registered("auth")
        if hook.get("provider") == provider
        for method in hook.get("methods") or ()
        if isinstance(method, Mapping) and method.get("type") in ("api", "oauth")
    ]


def _chosen(methods: Sequence[Mapping[str, Any]], label: str | None) -> Mapping[str, Any]:
    """The method of a label, the only one, or the one that the person picks."""
    labels = [str(method.get("label") or method["type"]) for method in methods]
    if label is not None:
        if label not in labels:
            raise Failure(f"there is no method {label!r} to log in; there are: {', '.join(labels)}", 2)
        return methods[labels.index(label)]
    if len(methods) == 1:
        return methods[0]
    if not sys.stdin.isatty():
        raise Failure(f"there are several methods to log in; give --method one of: {', '.join(labels)}", 2)
    for number, text in enumerate(labels, 1):
        echo(f"{number}  {one_line(text)}")
    return methods[click.prompt("Method", type=click.IntRange(1, len(methods))) - 1]


async def _log_in(method: Mapping[str, Any], provider: str) -> tuple[str, Plain] | None:
    """Log in; return the provider and what to keep of it, None when the person is to give a key. Raises `Failure`."""
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
    except Exception as error:
        text = one_line(str(error)) or type(error).__name__
        raise Failure(f"the plugin could not log in to {provider}: {text}; nothing was kept") from error


async def _called_back(answer: Mapping[str, Any]) -> Any:
    echo(f"Go to: {one_line(str(answer['url']))}")
    for line in str(answer.get("instructions") or "").splitlines():
        echo(one_line(line))
    if answer.get("method") == "code":
        return await answer["callback"](_asked("Code", hidden=True))
    return await answer["callback"]()


def _inputs(prompts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The person's answers to a method's questions, by key. Raises `Failure` for one that it does not take."""
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
    """Return the person's answer; without a terminal, a line of stdin."""
    if sys.stdin.isatty():
        return str(click.prompt(message, hide_input=hidden)).strip()
    return sys.stdin.readline().strip()
