# The first process of a Redis server's pod: brings the data back where that is asked for, writes
# the configuration, and becomes the server. POSIX sh, with cat, cp, mkdir, mv, rm and sync.
#
#   STEELYARD_SETTINGS   lines of redis.conf, without a secret: users are in a file of the Secret
#   STEELYARD_RESTORE    empty: the data stay as they are. Else a word for one restore: the first
#                        one puts the data aside as the prepared ones, each then copies those. The
#                        word is noted, so a container that is started again keeps its data
#   STEELYARD_ROOT       what stands before its paths; only tests say it
set -eu
umask 077
root=${STEELYARD_ROOT:-}
cd "$root/data"
mkdir -p live
if [ -n "$STEELYARD_RESTORE" ] && [ "$(cat restored 2>/dev/null || :)" != "$STEELYARD_RESTORE" ]; then
    [ -d prepared ] || mv live prepared
    rm -rf live
    cp -a prepared live
    sync -f live 2>/dev/null || sync
    echo "$STEELYARD_RESTORE" >restored
fi
cd live
conf=$root/run/steelyard/redis.conf
printf '%s\n' "$STEELYARD_SETTINGS" >"$conf"
server=$(command -v redis-server || command -v valkey-server) || {
    echo "the image has neither redis-server nor valkey-server" >&2
    exit 127
}
exec "$server" "$conf"
