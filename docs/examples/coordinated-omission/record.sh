#!/bin/sh
# Records closed.log.gz and open.log.gz: the same work, with and without a rate, each with one stall
# of 1.5 s, made by SIGSTOP to every process of the server. Takes a minute.
# Needs initdb, pg_ctl and pgbench in PATH, and an account other than root.
set -eu
cd "$(dirname "$0")"
kept=$PWD
work=$(mktemp -d)
initdb --no-sync -A trust -U bench -D "$work/data" >"$work/initdb.out"
pg_ctl -D "$work/data" -l "$work/server.log" -w -o "-k $work -c listen_addresses=" start
server=$(head -n 1 "$work/data/postmaster.pid")
trap 'pg_ctl -D "$work/data" -m immediate stop; rm -rf "$work"' EXIT
# The work is a wait, so that its speed does not depend on the machine.
echo 'SELECT pg_sleep(0.005);' >"$work/nap.sql"

run() {
  name=$1
  shift
  pgbench -n -h "$work" -U bench -f "$work/nap.sql" -c 4 -j 1 -T 22 --random-seed=1 \
    --log --log-prefix="$work/$name" "$@" postgres &
  generator=$!
  sleep 10
  sessions=$(ps -o pid= --ppid "$server")
  kill -STOP "$server" $sessions
  sleep 1.5
  kill -CONT "$server" $sessions
  wait "$generator"
  cat "$work/$name".* | gzip -9n >"$kept/$name.log.gz"
}

run closed
run open --rate=500
