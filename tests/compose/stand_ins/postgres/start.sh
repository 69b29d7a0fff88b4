#!/bin/sh
# What docker-compose.yaml relies on: an empty volume becomes a server with this user, password and
# database; root only gives the volume away.
set -eu
if [ "$(id -u)" -eq 0 ]; then
  chown postgres "$PGDATA"
  chmod 0700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ ! -e "$PGDATA/PG_VERSION" ]; then
  secret=$(mktemp)
  printf '%s\n' "$POSTGRES_PASSWORD" >"$secret"
  initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$secret" --encoding=UTF8 \
    --auth-local=trust --auth-host=scram-sha-256
  rm "$secret"
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$PGDATA" postgres
fi
exec "$@" -c 'listen_addresses=*'
