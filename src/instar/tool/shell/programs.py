"""What is known of single programs: what they run, the options before a subcommand, and who runs texts.

`inner_commands` finds the commands and scripts that a command runs: those of ``sudo``, ``xargs``, ``find -exec``,
``sh -c`` … What is not understood there is in doubt: then a command may begin at each of the words.

`same` says what a command line means without those options, `is_inert` and `starts_hidden` what a text can do in the
hands of a program. A setting (``permission_options``) adds to the table of options.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from instar.settings.permission import HOLE
from instar.tool.shell.word import ASSIGNMENT, Word, listed
from instar.wire.pattern import late_pattern

MAX_SUFFIXES: Final = 40
"""Words of a command in doubt at which what it runs is looked for."""


MAXWRAPPERS: Final = 16
"""Wrappers inside one another that are followed."""


class InnerCommand(NamedTuple):
    """A command inside of another: words `start` to `stop`; `sure` False when it may begin elsewhere.

    `more` names the program that gives it further words: `xargs` behind the last one, `find` for ``{}``.
    """

    start: int
    stop: int
    sure: bool = True
    more: Literal["", "xargs", "find"] = ""


class InnerScript(NamedTuple):
    """A text that the command passes to a shell; `sure` is False when more of it comes from elsewhere."""

    text: str
    sure: bool = True


class _Options(NamedTuple):
    """Which options a wrapper may have: letters without a value, with one, long names; then `skip` words."""

    flags: str = ""
    values: str = ""
    long: frozenset[str] = frozenset()
    skip: int = 0


WRAPPERS: Final = {
    "sudo": _Options("AbEHknPS", "ugpCT"),
    "doas": _Options("nL", "uC"),
    "env": _Options("iv0", "u", frozenset(["ignore-environment", "unset"])),
    "command": _Options("p"),
    "builtin": _Options(),
    "exec": _Options("cl", "a"),
    "nohup": _Options(),
    "nice": _Options("", "n", frozenset(["adjustment"])),
    "ionice": _Options("t", "cn"),
    "stdbuf": _Options("", "ioe", frozenset(["input", "output", "error"])),
    "xargs": _Options(
        "0rtx", "aEIndLPs", frozenset(["null", "no-run-if-empty", "max-args", "max-procs", "verbose"])
    ),
    "timeout": _Options("v", "ks", frozenset(["foreground", "preserve-status", "signal", "kill-after"]), 1),
    "setsid": _Options("cfw", "", frozenset(["wait", "fork", "ctty"])),
    "time": _Options("p"),
    "busybox": _Options(),
}
_SHELLS: Final = frozenset(["sh", "bash", "dash"])
_OPAQUE: Final = listed("""
    zsh ksh fish ash csh tcsh source . alias trap coproc function case select mapfile readarray let shopt
    enable complete compgen bind hash fc ssh su runuser chroot unshare nsenter parallel watch script flock
    strace ltrace gdb taskset chrt setpriv prlimit numactl systemd-run pkexec fakeroot firejail bwrap
    setarch linux32 linux64 i386 x86_64 uname26 sg capsh chpst start-stop-daemon run-parts
    if then elif else do done fi while until for in esac ! { }
    """)
"""Commands whose words are run in ways that are not followed, and keywords that cannot stand here."""
SPECIAL: Final = frozenset(WRAPPERS) | _SHELLS | _OPAQUE | {"eval", "cd", "pushd", "popd", "find"}
"""Names that mean more than themselves: a function of that name is in doubt."""

_SHELL_FLAGS: Final = late_pattern(r"-[eluxf]*[eluxfo]")
_SCRIPT_FLAGS: Final = late_pattern(r"-[eluxf]*c[eluxf]*")
_EXECUTES: Final = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
_EXPANDED: Final = late_pattern(r"[*?\[{~]")


_RUNS: Final = {
    name: late_pattern(expression, re.DOTALL | re.IGNORECASE)
    for names, expression in (
        (
            "git",
            r"(?:^|\s)(?:-c\s*|--config-env[ =]|config\s(?:.*\s)?)(?:alias\.|include|(?:[\w-]+\.)+\w*(?:pager|editor"
            r"|command|cmd|external|fsmonitor|hookspath|program|helper|textconv|driver|askpass|proxy|allow|filter"
            r"|process|clean|smudge))"
            r"|(?:^|\s)(?:bisect\s+run|submodule\s.*foreach|filter-branch|difftool|mergetool|--exec-path|ext::"
            r"|--upload-pack|--receive-pack|--exec|rebase\s(?:.*\s)?-\w*x|grep\s(?:.*\s)?(?:-O|--open)"
            r"|clone\s(?:.*\s)?-u|config\s(?:.*\s)?(?:-e|--edit))|ext::",
        ),
        (
            "sed gsed",
            r"(?:^|[;{}\n\d$/]|\s)e(?:\s|\\|[;}]|$)|(?<![A-Za-z_.-])s([^\w\s])(?:(?!\1).)*\1(?:(?!\1).)*\1[gpim\d]*e[gpim\d]*(?:[\s;}]|$)",
        ),
        ("tar", r"--(?:to-c|checkpoint-a|use-c|rsh|info-s|new-v)|(?:^|\s)-\w*[IF]"),
        ("sort", r"--compress-p"),
        ("split", r"--filter"),
        ("install", r"--strip-p"),
        ("rsync", r"(?:^|\s)(?:-\w*e|--rsh|--rsync-path)"),
        ("scp sftp", r"(?:^|\s)-\w*[oSFD]"),
        ("man", r"(?:^|\s)(?:-\w*[PH]|--pager|--html)"),
        ("vi vim nvim view vimdiff ex emacs", r"(?:^|\s)(?:\+|-\w*[cSsEe]|--)"),
        ("ed", r"!|$"),
        (
            "make gmake",
            r"(?:^|\s)(?:-\w*f\s*(?:-|/dev/)|--(?:file|makefile)[ =](?:-|/dev/)|--eval|-E|SHELL=)",
        ),
        ("sqlite3", r"\.(?:sh|sy|im|on|ou|lo|re)\w*|\bedit\("),
        ("jobs", r"-x"),
        ("set", r"(?:^|\s)-\w*H|hist"),
        ("wget", r"--use-askpass"),
    )
    for name in names.split()
}
"""Programs that run something when their words are such: no rule sees what."""


def runs_something(name: str, words: Sequence[Word]) -> bool:
    """True if a program runs something that its words name in a way of its own."""
    found = _RUNS.get(name)
    return found is not None and found.search(" ".join(word.bare for word in words)) is not None


def program_name(word: Word) -> str:
    """Return the name of the program that a command word starts, without its folder."""
    return word.bare.rpartition("/")[2]


def inner_commands(
    words: Sequence[Word], start: int = 0, stop: int | None = None, depth: int = 0
) -> Iterator[InnerCommand | InnerScript]:
    """Yield a command, what it wraps, what that wraps, and the scripts that they hand to a shell."""
    stop = len(words) if stop is None else stop
    if start >= stop:
        return
    name = program_name(words[start])
    sure = not _is_expanded(words[start]) and name not in _OPAQUE
    yield InnerCommand(start, stop, sure and not runs_something(name, words[start + 1 : stop]))
    if name in _SHELLS or name == "eval":
        yield from _script(words, start, stop)
    elif name in _OPAQUE or depth > MAXWRAPPERS:
        yield from _anywhere(start + 1, stop)
    elif name == "find":
        yield from _executed(words, start, stop, depth)
    elif name in WRAPPERS:
        if name == "command" and start + 1 < stop and words[start + 1].bare in ("-v", "-V"):
            return
        if name == "env" and any(word.bare == "-" for word in words[start + 1 : stop]):
            # A dash alone is an option of it, and of nothing else here.
            yield from _anywhere(start + 1, stop)
            return
        begin = _after_options(WRAPPERS[name], words, start + 1, stop)
        if begin is None:
            yield from _anywhere(start + 1, stop)
        else:
            supplied = name == "xargs"
            yield from (
                _supplied(words, begin, stop, depth, "xargs")
                if supplied
                else inner_commands(words, begin, stop, depth + 1)
            )


def _after_options(options: _Options, words: Sequence[Word], at: int, stop: int) -> int | None:
    """Where the wrapped command begins; None when an option is not understood."""
    while at < stop and words[at].bare.startswith("-") and words[at].bare != "-":
        option = words[at].literal
        if option is None:
            return None
        at += 1
        if option == "--":
            break
        if option.startswith("--"):
            name, _, value = option[2:].partition("=")
            if name not in options.long or (not value and name in _LONG_VALUES):
                return None
        elif not re.fullmatch(r"-\d+", option):
            taken = _letters(options, option[1:])
            # xargs -I with a name of its own may put what it read where the command stands.
            if taken is None or (
                option.startswith("-I")
                and "{}" not in (option[2:], *(word.bare for word in words[at : at + 1]))
            ):
                return None
            at += taken
    at += options.skip
    while at < stop and ASSIGNMENT.match(words[at].raw):
        at += 1
    return at


_LONG_VALUES: Final = listed("unset adjustment input output error max-args max-procs signal kill-after")


def _letters(options: _Options, letters: str) -> int | None:
    """How many more words short options take: 0 or 1; None for a letter that is not known."""
    for index, letter in enumerate(letters):
        if letter in options.values:
            return int(index == len(letters) - 1)
        if letter not in options.flags:
            return None
    return 0


def _script(words: Sequence[Word], start: int, stop: int) -> Iterator[InnerCommand | InnerScript]:
    """``sh -c 'text'`` and ``eval text``: the text where it is literal, else doubt."""
    if program_name(words[start]) == "eval":
        literals = [word.literal for word in words[start + 1 : stop]]
        literals = literals[1:] if literals[:1] == ["--"] else literals
        if None not in literals:
            script = " ".join(one or "" for one in literals)
            # It runs in this very shell: the folder and variables that it sets stay.
            yield InnerScript(script, not re.search(r"\b(?:cd|pushd|popd)\b|[=(]", script))
            return
    else:
        at = start + 1
        while at + 1 < stop and _SHELL_FLAGS.fullmatch(words[at].raw):
            if words[at].raw.endswith("o"):
                at += 1
                if words[at].raw != "pipefail":
                    break
            at += 1
        text = words[at + 1].literal if at + 1 < stop and _SCRIPT_FLAGS.fullmatch(words[at].raw) else None
        # Options may follow -c too; then the text stands behind them.
        if text is not None and text[:1] not in ("-", "+"):
            yield InnerScript(text, program_name(words[start]) == "bash" or is_posix(text))
            return
        if start + 1 == stop:
            yield InnerCommand(start, stop, False)  # its commands come from a pipe or a file
    yield from _anywhere(start + 1, stop)


_POSIX: Final = late_pattern(
    r"&>|>&(?![\d-])|\|&|[<>]\(|\$['\"]|\[\[|\(\(|<<<|;;?&|\b(?:function|select|coproc|time|alias)\b"
)
"""What bash reads in another way than a plain `sh` does."""


def is_posix(text: str) -> bool:
    """True if a plain `sh` reads a text as bash does."""
    return _POSIX.search(text) is None


def _executed(
    words: Sequence[Word], start: int, stop: int, depth: int
) -> Iterator[InnerCommand | InnerScript]:
    """What ``find -exec`` runs. A word that is not known may be ``-exec`` itself."""
    hidden = [at for at in range(start + 1, stop) if words[at].literal is None]
    if not all(
        words[at - 1].bare in _FIND_VALUES
        or _names_path(words[at])
        or (at == start + 1 and _is_quoted(words[at]))
        for at in hidden
    ):
        yield InnerCommand(start, stop, False)
    for at in range(start + 1, stop):
        if words[at].literal not in _EXECUTES:
            continue
        end = next((one for one in range(at + 1, stop) if words[one].literal in (";", "+")), stop)
        yield from _supplied(words, at + 1, end, depth, "find")


def _names_path(word: Word) -> bool:
    """True if a word begins like a path, whatever follows."""
    first = word.pieces[0] if word.pieces and not word.braced else None
    return first is not None and first.kind == "text" and re.match(r"[\w./~]", first.text) is not None


def _is_quoted(word: Word) -> bool:
    """True if a word is one word whatever its variables hold."""
    return all(piece.quoted for piece in word.pieces)


_FIND_VALUES: Final = listed("""
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -newer -anewer -cnewer -user
    -group -size -mtime -mmin -atime -amin -ctime -cmin -perm -maxdepth -mindepth -type -printf -samefile
    """)
"""Tests of `find` that take the word behind them."""


def _supplied(
    words: Sequence[Word], start: int, stop: int, depth: int, more: Literal["xargs", "find"]
) -> Iterator[InnerCommand | InnerScript]:
    """A command that is given further words from elsewhere: in doubt when those may be a command."""
    found = list(inner_commands(words, start, stop, depth + 1))
    last = next((one for one in reversed(found) if isinstance(one, InnerCommand)), None)
    doubt = any(program_name(word) in _SHELLS for word in words[start:stop])
    if doubt or (last is not None and program_name(words[last.start]) in SPECIAL):
        found = [one._replace(sure=False) for one in found]
    for one in found:
        yield one._replace(more=one.more or more) if isinstance(one, InnerCommand) else one


def _anywhere(start: int, stop: int) -> Iterator[InnerCommand]:
    """With no certainty, a command may begin at each word."""
    yield from (InnerCommand(at, stop, False) for at in range(start, min(stop, start + MAX_SUFFIXES)))


def _is_expanded(word: Word) -> bool:
    return word.bare != "[" and any(
        piece.kind != "text" or (not piece.quoted and _EXPANDED.search(piece.text)) for piece in word.pieces
    )


Options = Mapping[str, frozenset[str]]
"""The options of a program, or of one of its subcommands (``docker compose``), that take the word behind them."""

OPTIONS: Final[Options] = {
    name: listed(options)
    for names, options in (
        ("git", "-C -c --git-dir --work-tree --namespace --config-env --super-prefix --attr-source"),
        (
            "docker podman",
            "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey --url",
        ),
        (
            "docker/compose podman/compose docker-compose",
            "-f --file -p --project-name --profile --env-file --project-directory --ansi --parallel --progress",
        ),
        (
            "kubectl",
            """-n --namespace --context --cluster --kubeconfig -s --server --user --token --as --as-group -v
            --request-timeout --certificate-authority --client-key --client-certificate --cache-dir --username
            --password --profile --profile-output --tls-server-name""",
        ),
        (
            "npm pnpm yarn",
            """--prefix -C --dir --cwd --registry --userconfig --globalconfig --loglevel --cache --cache-folder -w
            --workspace -F --filter --filter-prod --reporter --store-dir --modules-folder --network-timeout --mutex""",
        ),
        ("cargo", "--color --config -Z -C --manifest-path --target-dir"),
        (
            "pip pip3",
            """--python --log --proxy --retries --timeout --exists-action --trusted-host --cert --client-cert
            --cache-dir --keyring-provider --use-feature --use-deprecated""",
        ),
        ("uv", "--directory --project --config-file --cache-dir --color --allow-insecure-host"),
        ("gh", "-R --repo --hostname"),
        (
            "aws",
            """--profile --region --output --endpoint-url --query --color --ca-bundle --cli-read-timeout
            --cli-connect-timeout --cli-binary-format""",
        ),
        ("terraform tofu", "-chdir"),
        (
            "systemctl",
            """-H --host -M --machine -t --type -p --property -P -n --lines -o --output -s --signal --kill-whom
            --root --state --job-mode --what --image --preset-mode""",
        ),
        ("apt apt-get", "-o -c -t --option --config-file --target-release --default-release"),
    )
    for name in (one.replace("/", " ") for one in names.split())
}


def with_options(added: Mapping[str, Iterable[str]]) -> Options:
    """Return the table of options with those of a setting."""
    return {**OPTIONS, **{name: OPTIONS.get(name, frozenset()) | {*more} for name, more in added.items()}}


def same(words: Sequence[str], options: Options) -> Iterator[list[str]]:
    """Yield what a command line means: by the program's name alone, then without options before its subcommands."""
    name = words[0].rpartition("/")[2]
    front, rest = [name], list(words[1:])
    yield [*front, *rest]
    while rest and (known := options.get(" ".join(front))) is not None:
        rest = _without(rest, known)
        yield [*front, *rest]
        front, rest = [*front, *rest[:1]], rest[1:]


def _without(words: list[str], known: frozenset[str]) -> list[str]:
    """The words behind the options that stand in front; ``+`` names a toolchain."""
    at = 0
    while at < len(words) and words[at][:1] in ("-", "+"):
        word = words[at]
        # argparse and its like take the beginning of a long option for it.
        cut = len(word) > 3 and word[:2] == "--" and any(one.startswith(word) for one in known)
        at += 1 + (cut or word in known)
    return words[at:]


_INERT: Final = listed("""
    : [ [[ arch base32 base64 basename break cat cd cksum clear cmp comm continue cp cut date df diff dirname du
    echo egrep exit export expr false fgrep file git grep head help hexdump history hostname id jq join kill less let
    ln ls lsof md5sum mkdir mkfifo mktemp more mv nl nproc od paste pgrep popd printf printenv ps pushd pwd read
    readlink realpath return rev rg rm rmdir seq sha1sum sha256sum shift sleep stat strings sum sync tac tail tee test
    touch tr tree tput true truncate type umask uname uniq unset uptime wait wc which whoami xxd yes declare local
    typeset readonly getopts unzip zip gzip gunzip zcat curl chmod chown chgrp column fold fmt set find
    """)
"""Programs that run none of the texts that they are given, or whose commands are judged."""
_GIT: Final = listed("""
    add am apply archive blame branch bundle cat-file check-ignore checkout cherry cherry-pick clean clone commit
    config describe diff diff-tree fetch for-each-ref format-patch fsck gc grep hash-object init log ls-files
    ls-remote ls-tree merge merge-base mv notes pull push rebase reflog remote reset restore rev-list rev-parse revert
    rm shortlog show show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index version
    worktree --version --help help bisect
    """)
"""Subcommands that are git's own: another one is an alias or a program."""


def is_inert(name: str, words: Sequence[str], options: Options) -> bool:
    """True if a program runs none of the texts that it is given, nor a program that they name."""
    if name == "git":
        *_, plain = same([name, *words], options)
        return plain[1:2] == [] or plain[1] in _GIT
    return name in _INERT or name in WRAPPERS


_INTERPRETERS: Final = late_pattern(
    r"(?:python|pypy|perl|ruby|node(?:js)?|deno|bun|php|lua(?:jit)?|[gmn]?awk|tclsh|wish|expect|Rscript|R|julia|guile"
    r"|irb|groovy|scala|jshell|ts-node|tsx|osascript|emacs|g?make|sqlite3|psql|mysql)[\d.]*"
)
_LITERAL: Final = r"""(?:[rbRB]?"[^"\\{}$`%]*"|[rbRB]?'[^'\\{}$`%]*')"""
_READABLE: Final = late_pattern(
    rf"(?:os\.(?:system|popen)|subprocess\.\w+|\bsystem|\bexecSync|\bexec)\s*\(?\s*"
    rf"(?:{_LITERAL}|\[\s*{_LITERAL}(?:\s*,\s*{_LITERAL})*\s*,?\s*\])\s*(?=[,)}};]|$)"
    r"|\bimport\s+\w+(?:\s*,\s*\w+)*\s*(?=[;\n]|$)|__(?:name|main|file|init|future|version|all|doc)__"
    r"|re\.compile|require\(\s*['\"](?!(?:node:)?(?:child_process|vm|module|cluster|worker_threads)\b)[^'\"]*['\"]\s*\)"
)
"""Calls that start a program whose words stand there, and what looks like more than it is."""
_STARTS: Final = late_pattern(
    r"subprocess|child_process|\bpopen\w*\s*\(|Popen|ctypes|importlib|runpy|\bpty\b|posix_spawn|__\w+__|getattr|globals\b|vars\("
    r"|\bfrom\s+os\b|\bimport\s+os\s+as|\bos\s*\.\s*(?:exec|spawn|system)|\bqx\b|shell_exec|passthru|proc_open|execute"
    r"|fromCharCode|\bgetline\b|\bopen\s*\(?\s*\w+\s*,\s*[\"']?[^\"',]*\||(?<![-\w.])(?:system|exec\w*|spawn\w*|eval|compile|Function"
    r"|require|syscall|send|fork)\b(?:\s*[(\[\"'`$]|\s+[a-zA-Z(]|\s*$)"
)
"""How programs are started, or code is run, in the languages of `_INTERPRETERS`."""
_PIPED: Final = late_pattern(r"(?<!\|)\|(?!\|)")
_AWK_LITERAL: Final = late_pattern(
    r"/(?:[^/\\\n]|\\.)+/|\"(?:[^\"\\|]|\\.)*\|[^\"]*\"|\|\s*\"[\w\s./-]*\"\s*(?=[;}\n]|$)"
)
_BACKTICKS: Final = late_pattern(r"perl|ruby|php")


def starts_hidden(programs: Iterable[Sequence[str]], text: str) -> bool:
    """True if an interpreter's program may start another one that its text does not show.

    `programs` are the commands of a script, `text` is all of it: what an interpreter runs may come from a heredoc, a
    pipe or a file that the script writes.
    """
    for name, *words in programs:
        own = " ".join(words)
        if re.fullmatch(r"[gmn]?awk", name) and _PIPED.search(_AWK_LITERAL.sub(" ", own)):
            return True
        if _BACKTICKS.match(name) and "`" in own:
            return True
    named = any(map(_INTERPRETERS.fullmatch, set(_NAMES.findall(text))))
    return named and _STARTS.search(_READABLE.sub(" ", text)) is not None


_NAMES: Final = late_pattern(r"[\w.+-]+")
_UNKNOWN: Final = late_pattern(r"\$(?:\{\w+\}|\w+|[@*])|%[sd]")
_OPENED: Final = late_pattern(r"\$(?:\{(?:\w+:?[-+=?])?|\(+)|`")
"""What begins a substitution: a hole, and behind it a command."""
_ESCAPES: Final = late_pattern(r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{3}))")
_QUOTES: Final = late_pattern(r"\$(?=['\"])|\\\n|[\\'\"]")
_APART: Final = late_pattern(r"[\s;&|(){}<>,\[\]`!@:=#]+")


def named_in(text: str, options: Options) -> list[str]:
    """Return the words that stand in a text, so that a rule can be looked for at each: read in two ways.

    Quotes may join (``za''p``) or part (``["git", "push"]``). Where options stand behind a program's name, a third
    text is without them.
    """
    text = _ESCAPES.sub(lambda found: chr(int(found[1] or found[2], 16 if found[1] else 8) % 256), text)
    text = _OPENED.sub(f"{HOLE} ", _UNKNOWN.sub(HOLE, text))
    parted = re.sub(r"\\[a-z]", " ", text)
    read = [_APART.sub(" ", _QUOTES.sub(by, one)) for by, one in (("", text), (" ", parted))]
    found = dict.fromkeys(" ".join(one.split()) for one in read)
    words = read[1].split()
    for at, word in enumerate(words):
        if word.rpartition("/")[2] in options and words[at + 1 : at + 2] and words[at + 1][0] == "-":
            found.update((" ".join(one), None) for one in same(words[at : at + 16], options))
    return [one for one in found if one]
