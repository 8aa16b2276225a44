# The guard: ends what lives of an instar that was killed. `guard.py` says when it is started.
#
#   /bin/sh instar-guard.sh MARK SECONDS
#
# Standard input says which process groups live (`+ N`, `- N`) and that all is over (`q`). When it ends without that,
# the groups get SIGTERM, and SIGKILL after SECONDS; so does each process with MARK in its environment.
trap '' INT TERM HUP QUIT
g=' '
while read -r o n; do
  case $o in
  +) g="$g$n " ;;
  -) g="${g%% $n *} ${g#* $n }" ;;
  q) exit 0 ;;
  esac
done
for n in $g; do kill -TERM -- "-$n"; done
sleep "$2"
for n in $g; do kill -KILL -- "-$n"; done
# More than once: a child that instar forked last has its own environment only when it becomes its program.
for s in 0 "$2" 1 3; do
  sleep "$s"
  for f in $(grep -ls "$1" /proc/[0-9]*/environ); do
    n=${f#/proc/}
    kill -KILL "${n%/environ}"
  done
done
