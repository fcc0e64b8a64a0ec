#!/bin/bash
# The agent of a load generator's pod: runs orders that short commands place, and hands over what
# came of them. An order does not die with the connection that placed it, because it is a child of
# `serve`, the pod's first process. Needs bash >= 5, coreutils, and gzip where it is there.
#
#   serve                             take orders until the pod ends
#   now                               print the clock
#   put FILE OFFSET LENGTH [SHA256]   write LENGTH characters of base64 from standard input at an
#                                     offset; with a checksum the file is complete and gets its name
#   place ID INSTANT LIMIT [LENGTH SHA256 [OLD...]]
#                                     run the order ID: its file `command`, which may come from
#                                     standard input as for `put`, at an instant in microseconds
#                                     (0: now), for LIMIT seconds at most; forget old ones
#   wait ID SECONDS SPARE             wait for its end; print what came of it, with what it printed
#                                     where that is little; SPARE: KiB that must be free for logs
#   logs ID                           print names and sizes of its logs
#   chunk FILE OFFSET LENGTH          print a part of a file, with its checksum
#   punch FILE OFFSET LENGTH          give back the space of what was fetched
#   steer ID                          read lines and do what they say to its program: `stop`, `go`,
#                                     `signal NUMBER`; answer each; end the order when they end
#   end ID                            end it, and all that it started
#   alive                             fail where nobody takes orders any more
#   leave                             end all orders and the agent, and remove its files
#   forget ID...                      remove orders and all that came of them
#
# Files of an order: command, stdin, instant, taken (it was begun), group (its process group),
# program (its process), began, ended, times, stdout, stderr, status (the last one), unwanted.
#
# With STEELYARD_LEASE it leaves by itself when it has heard of nobody for so many seconds.
set -u
export LC_ALL=C
home=${STEELYARD_HOME:-/steelyard/work}
logs=${STEELYARD_LOGS:-/steelyard/logs}
orders=$home/orders
gate=$home/gate
never=$home/never
little=65536
look=${STEELYARD_LOOK:-25} # so many fifths of a second; only tests say another number
patience=${STEELYARD_PATIENCE:-60} # seconds without a line, after which nobody steers any more
lease=${STEELYARD_LEASE:-0}

# Waiting without starting a program: nobody ever writes into this pipe.
pause() { read -r -t "$1" -u 4 || :; }
open_never() { exec 4<>"$never"; }

serve() {
    mkdir -p "$orders" "$home/files"
    [[ -p $never ]] || mkfifo -m 600 "$never"
    [[ -p $gate ]] || mkfifo -m 600 "$gate"
    open_never
    exec 3<>"$gate"
    trap 'end_all; exit 143' TERM INT
    echo $$ >"$home/server"
    hear
    local id beat=86400
    ((lease == 0)) || beat=$((lease / 4 + 1))
    while :; do
        if read -r -t "$beat" -u 3 id; then
            order "$id" 3<&- &
        elif ((lease && EPOCHSECONDS - $(<"$home/heard") > lease)); then
            end_all
            clear_away
            exit
        fi
    done
}

# Somebody is there: an agent with a lease goes on.
hear() { ((lease == 0)) || echo "$EPOCHSECONDS" >"$home/heard"; }

clear_away() { rm -rf -- "${home:?}" "${logs:?}"; }

# One that ended and was not waited for has no command line any more.
alive() {
    local server word
    read -r server <"$home/server" && read -r -d '' word <"/proc/$server/cmdline" && [[ $word ]]
} 2>/dev/null

leave() {
    open_never
    alive && kill "$(<"$home/server")"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        alive || break
        pause 0.1
    done
    end_all
    clear_away
}

# Let the last milliseconds pass without sleeping: a sleep ends late.
until_instant() {
    local left
    while [[ ! -e unwanted ]]; do
        left=$(($1 - ${EPOCHREALTIME/./}))
        ((left > 0)) || return
        if ((left > 200000)); then
            pause 0.1
        elif ((left > 4000)); then
            pause "$(printf '0.%06d' $((left - 3000)))"
        fi
    done
}

# Runs in a process of its own; a second time it changes nothing.
order() {
    cd "$orders/$1" 2>/dev/null || return
    mkdir taken 2>/dev/null || return
    trap - TERM INT
    local instant limit status
    read -r instant limit <instant
    mkdir -p "$logs/$1"
    until_instant "$instant"
    echo "$EPOCHREALTIME" >began
    if [[ -e unwanted ]]; then
        : >stdout
        : >stderr
        status=143
    else
        set -m # the command gets a process group of its own
        timeout --kill-after=5 "$limit" bash -c 'echo $$ >program; exec bash ./command' \
            <stdin >stdout 2>stderr 3<&- 4<&- &
        echo $! >group
        wait $!
        status=$?
    fi
    times >times # of this process, and of what it has waited for: the program
    echo "$EPOCHREALTIME" >ended
    echo "$status" >status.part
    mv status.part status
}

put() {
    local file=$1 part=$1.part
    if [[ -n ${4:-} && -e $file && $(sum "$file") == "$4" ]]; then # the answer to it was lost
        rm -f "$part"
        return 0
    fi
    mkdir -p "${file%/*}"
    [[ -e $part ]] || : >"$part"
    truncate -s "$2" "$part"
    head -c "$3" | base64 -d >>"$part" || return 4
    [[ -n ${4:-} ]] || return 0
    [[ $(sum "$part") == "$4" ]] || return 4
    mv "$part" "$file"
}

sum() {
    local line
    line=$(sha256sum <"$1") && echo "${line%% *}"
}

place() {
    local folder=$orders/$1
    forget "${@:6}"
    if [[ -n ${4:-} && ! -e $folder/command ]]; then
        put "$folder/command" 0 "$4" "$5" || return
    fi
    [[ -e $folder/command ]] || return 3
    [[ -e $folder/stdin ]] || : >"$folder/stdin"
    if [[ ! -e $folder/taken ]]; then
        echo "$2 $3" >"$folder/instant.part"
        mv "$folder/instant.part" "$folder/instant"
        echo "$1" >"$gate"
    fi
    echo "clock $EPOCHREALTIME"
}

wait_for() {
    local folder=$orders/$1 spare=$3 beat=0 over
    [[ -e $folder/command ]] || return 3
    open_never
    over=$((SECONDS + $2))
    while [[ ! -e $folder/status ]] && ((SECONDS < over)); do
        pause 0.2
        # Every five seconds: a line keeps the connection alive, and logs may need room.
        if ((++beat % look == 0)); then
            echo beat
            if ((spare > 0)) && (($(free_kib) < spare)); then
                echo "state full"
                return
            fi
        fi
    done
    if [[ -e $folder/status ]]; then
        outcome "$folder" "$1"
    else
        echo "state running"
    fi
}

free_kib() {
    local lines
    mapfile -t lines < <(df --output=avail -k "$logs")
    echo "${lines[1]}"
}

outcome() {
    local folder=$1 name size
    cd "$folder" || return 3
    echo "state ended"
    echo "status $(<status)"
    echo "began $(<began)"
    echo "ended $(<ended)"
    echo "program $(tail -n 1 times)"
    for name in stdout stderr; do
        size=$(stat -c %s "$name")
        echo "file $name $size $(sum "$name")"
        ((size > little)) || echo "inline $name $(base64 -w 0 "$name")"
    done
    list_logs "$2"
    echo "clock $EPOCHREALTIME"
}

list_logs() {
    local file
    for file in "$logs/$1"/*; do
        [[ -f $file ]] && echo "log $(stat -c %s "$file") ${file##*/}"
    done
    echo complete
}

chunk() {
    echo "sha256 $(part "$@" | sha256sum | head -c 64)"
    if type -P gzip >/dev/null; then
        echo "gzip $(part "$@" | gzip -1 -n | base64 -w 0)"
    else
        echo "plain $(part "$@" | base64 -w 0)"
    fi
}

part() { tail -c "+$(($2 + 1))" -- "$1" | head -c "$3"; }

end() {
    local folder=$orders/$1 turn
    [[ -d $folder && ! -e $folder/status ]] || return 0
    : >"$folder/unwanted"
    open_never
    for turn in TERM TERM TERM KILL; do
        [[ -s $folder/group ]] && kill -"$turn" -- "-$(<"$folder/group")" 2>/dev/null
        [[ -s $folder/group ]] && kill -CONT -- "-$(<"$folder/group")" 2>/dev/null
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [[ ! -e $folder/status ]] || return 0
            [[ -e $folder/taken ]] || return 0
            pause 0.1
        done
    done
}

# What ends turns ends the program, too: nothing goes on that nobody steers any more.
steer() {
    local verb number pid
    open_never
    while read -r -t "$patience" verb number; do
        hear
        if ! program "$1"; then
            verb=ended
        elif [[ $verb == stop ]]; then
            stand || verb=late
        elif [[ $verb == go ]]; then
            kill -CONT "$pid"
        else
            kill "-$number" "$pid"
        fi 2>/dev/null
        echo "$verb $EPOCHREALTIME"
    done
    end "$1"
}

# The process of an order's program in `pid`; it fails where that has ended, or does not begin.
program() {
    local folder=$orders/$1 beat
    for ((beat = 0; beat < 200; beat++)); do
        [[ -e $folder/status ]] && return 1
        [[ -s $folder/program ]] && read -r pid <"$folder/program" && return 0
        pause 0.01
    done
    return 1
}

# Stop the program `pid`; where it runs on for 50 ms, it goes on, and this fails.
stand() {
    local line over=$((${EPOCHREALTIME/./} + 50000))
    kill -STOP "$pid" || return
    while read -r line <"/proc/$pid/stat"; do
        line=${line##*) }
        [[ ${line:0:1} == T ]] && return 0
        ((${EPOCHREALTIME/./} < over)) || break
        pause 0.001
    done
    kill -CONT "$pid"
    return 1
}

forget() {
    local id
    for id in "$@"; do rm -rf -- "${orders:?}/$id" "${logs:?}/$id"; done
}

end_all() {
    local folder
    for folder in "$orders"/*/; do
        [[ -s ${folder}group && ! -e ${folder}status ]] && kill -KILL -- "-$(<"${folder}group")"
    done 2>/dev/null
}

case ${1:-serve} in
    serve | alive | leave) ;;
    *) hear ;;
esac
case ${1:-serve} in
    serve) serve ;;
    alive) hear && alive ;;
    leave) leave ;;
    now) echo "clock $EPOCHREALTIME" ;;
    put) put "${@:2}" ;;
    place) place "${@:2}" ;;
    wait) wait_for "${@:2}" ;;
    logs) list_logs "$2" ;;
    chunk) chunk "${@:2}" ;;
    # Without fallocate the space stays taken, which costs the log at worst.
    punch) fallocate --punch-hole --offset "$3" --length "$4" -- "$2" 2>/dev/null || : ;;
    steer) steer "$2" ;;
    end) end "$2" ;;
    forget) forget "${@:2}" ;;
    *) exit 64 ;;
esac
