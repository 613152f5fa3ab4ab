#!/bin/sh
# Plays a gateway or an executor for the supervisor: takes the arguments, writes a ready line, logs to standard error,
# and exits as $PLAY says.
role=executor
while [ $# -gt 0 ]; do
    case $1 in
        gateway) role=gateway ;;
        --name) name=$2 ;;
        --port) port=$2 ;;
        --parent-pid) parent=$2 ;;
    esac
    shift
done
name=${name:-gateway}
[ "$port" -eq 0 ] && port=$((20000 + $$ % 20000))

say() { echo "$1" >&2; }
ready() { echo "{\"event\":\"ready\",\"process\":\"play\",\"pid\":$$,\"address\":\"127.0.0.1:$port\",\"facts\":{\"device\":\"none\"}}"; }
# A child of ours, and we wait for it; a trap can end the wait.
serve() {
    tail -f /dev/null &
    say "has started $!"
    wait
}

if [ $role = gateway ]; then
    read -r placement
    say "placement $placement"
    # What runs in the background has another standard input.
    exec 3<&0
    number=1
    while read -r placement <&3; do
        number=$((number + 1))
        say "placement $placement"
        echo "{\"event\":\"placed\",\"placement\":$number}"
    done &
fi
case $PLAY in
    dies)
        say "looking for the model"
        say "no such model"
        exit 3 ;;
    crashes) kill -SEGV $$ ;;
    silent) serve ;;
    babbles) echo '{"event":"ready","address":"somewhere"}'; serve ;;
    dies-later) ready; exit 1 ;;
    meets)
        : > "$MEETING/$$"
        while [ "$(ls "$MEETING" | wc -l)" -lt "$GUESTS" ]; do sleep 0.01; done
        ready; serve ;;
    floods)
        ready
        number=0
        while [ $number -lt 20000 ]; do
            say "line $number of a flood that nothing reads, as long as lines of logs are"
            number=$((number + 1))
        done
        : > "$FLOOD_DONE"
        trap 'exit 0' TERM
        serve ;;
    stubborn) trap '' TERM; ready; serve ;;
    *)
        trap 'say "drained"; exit 0' TERM
        say "child of $parent"
        echo "an ordinary line"
        ready; serve ;;
esac
