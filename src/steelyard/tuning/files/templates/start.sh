#!/bin/sh
# The only way to start a server of this pair: start.sh primary, or start.sh replica.
#
# The fence. A primary without persistence that comes back empty wipes its replica: the replica
# copies the nothing. So the primary first asks its replica, and serves at once only if nothing is
# there to be lost. Otherwise it has the replica hold the data, becomes its copy, and takes its
# place back when it has everything (FAILOVER, Redis 6.2). It must run at every start of the
# server's process: an init container does not, it is passed over when a container restarts.
#
# The password, if there is one, comes from REDISCLI_AUTH and goes into no argument: redis-server
# reads it from its standard input, redis-cli from the environment.
set -u

PRIMARY=@PRIMARY@
PRIMARY_PORT=@PRIMARY_PORT@
REPLICA=@REPLICA@
REPLICA_PORT=@REPLICA_PORT@
POLL_S=1
FOLLOW_S=10 # until clients who look for the primary find it; a guess
ANSWER_S=5 # a server that takes longer is asked again

ROLE=${1:?say primary or replica}
CONFIG=$(dirname "$0")/$ROLE.conf

told() { echo "start.sh: $*" >&2; }

# INFO in one line, each word between blanks.
ask() {
  host=$1 port=$2
  shift 2
  timeout "$ANSWER_S" redis-cli -h "$host" -p "$port" "$@" 2>&1 | tr '\r\n' '  '
}
replica() { ask "$REPLICA" "$REPLICA_PORT" "$@"; }
primary() { ask "$PRIMARY" "$PRIMARY_PORT" "$@"; }
has() { case " $1 " in *" $2"*) return 0 ;; esac; return 1; }
has_keys() { case $1 in *" db"*":keys="*) return 0 ;; esac; return 1; }

password() {
  [ -n "${REDISCLI_AUTH:-}" ] || return 0
  quoted=$(printf %s "$REDISCLI_AUTH" | sed 's/[\\"]/\\&/g')
  printf 'requirepass "%s"\nmasterauth "%s"\n' "$quoted" "$quoted"
}

# What this script started says so, to `CONFIG GET` and `ps`: rule RED001 asks for it.
serve() {
  exec redis-server "$CONFIG" - <<END
$(password)
proc-title-template "{title} {listen-addr} {server-mode} by start.sh"
$*
END
}

# Beside the server, while that is a copy of its replica: until it is the primary again.
take_back() {
  while sleep "$POLL_S" && kill -0 "$1" 2>/dev/null; do
    there=$(replica INFO replication) # asked first: the other way round it could be promoted anew
    here=$(primary INFO replication)  # just after it has handed over
    if has "$here" "role:master "; then
      told "it is the primary again"
      sleep "$FOLLOW_S"
      # Who is still connected there could read alone, for ever: as Sentinel does it.
      told "clients of the replica are told to connect anew: $(replica CLIENT KILL TYPE normal)"
      return
    elif has "$there" "role:master " && has "$here" "master_link_status:up "; then
      told "it has everything and takes over: $(replica FAILOVER TO "$PRIMARY" "$PRIMARY_PORT" TIMEOUT 10000)"
    elif has "$here" "role:slave " && has "$there" "role:slave " &&
      has "$there" "master_link_status:down " && has "$there" "master_failover_state:no-failover "; then
      told "the replica restarted and holds the data: $(replica REPLICAOF NO ONE)"
    fi
  done
}

trap 'exit 0' TERM INT # the first process of a container is not ended by a signal otherwise
case ${REDISCLI_AUTH:-} in
*'
'*) told "the password in REDISCLI_AUTH ends with a line end or holds one; leave it out"; exit 1 ;;
esac
[ "$ROLE" = primary ] || serve

while :; do
  seen=$(replica INFO)
  if ! has "$seen" "role:"; then
    told "waits: the replica does not answer, and only it knows what is to be kept: $(printf %.120s "$seen")"
  elif ! has "$seen" "loading:0 "; then
    told "waits: the replica is loading its data"
  elif has "$seen" "role:master "; then
    told "the replica was promoted: this is its copy until it has everything"
    break
  elif has "$seen" "master_link_status:up "; then
    told "waits: the replica still follows a primary"
  elif ! has_keys "$seen"; then
    told "the replica holds nothing: this is the primary"
    serve
  else
    told "the replica holds data and is promoted: $(replica REPLICAOF NO ONE)"
    break
  fi
  sleep "$POLL_S"
done
take_back $$ &
serve "replicaof $REPLICA $REPLICA_PORT"
