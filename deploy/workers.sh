#!/bin/sh
# Workers as plain processes with Caddy in front, each started again when it ends; Ctrl-C ends all:
#   INSTAR_DATABASE=postgresql:///instar deploy/workers.sh
# PORTS are those of the workers, SITE is the address that clients use.
set -eu
: "${INSTAR_DATABASE:?names the PostgreSQL database, postgresql://USER@HOST/NAME}"
ports=${PORTS:-4097 4098 4099}
export SITE="${SITE:-http://localhost:8080}"
here=$(cd "$(dirname "$0")" && pwd)

worker() {
	trap 'kill "$server" 2>/dev/null; wait "$server"; exit' TERM INT
	while :; do
		instar serve --port "$1" --grace 30 --cors "$SITE" &
		server=$!
		wait "$server" || sleep 1
	done
}

started=
WORKERS=
for port in $ports; do
	worker "$port" &
	started="$started $!"
	WORKERS="$WORKERS 127.0.0.1:$port"
done
export WORKERS
caddy run --config "$here/Caddyfile" --adapter caddyfile &
started="$started $!"
trap 'kill $started 2>/dev/null; wait; exit' TERM INT
wait
