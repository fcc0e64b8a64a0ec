# Runs Steelyard in an image that has only Python: sh -c SCRIPT sh DIRECTORY EXTRAS OPTIONS-OF-PIP...
# It is installed once, into the record's volume; a pod that is made again needs neither the machine
# that sent it nor an index.
set -eu
# The first process of a pod hears no signal that it does not ask for, and a shell none while it waits
# for a program that is not in the background: an evicted pod would install on, and then begin.
trap 'kill $!; exit 143' TERM
home=$1 extras=$2
shift 2
if [ ! -d "$home/installed" ]; then
  left=600
  until [ -d "$home/sent" ]; do
    if [ "$left" -eq 0 ]; then
      echo "no Steelyard was sent to this pod within ten minutes; steelyard attach --resume sends it"
      exit 3
    fi
    sleep 1 &
    wait $!
    left=$((left - 1))
  done
  echo "installing Steelyard ..."
  rm -rf "$home"/made-* # of a pod that died over it
  made=$(mktemp -d "$home/made-XXXXXX")
  python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-compile \
    --only-binary :all: --target "$made" --constraint "$home/sent/versions.txt" "$@" \
    "$(echo "$home"/sent/steelyard-*.whl)[$extras]" &
  wait $!
  [ -d "$home/installed" ] || mv "$made" "$home/installed"
fi
export PYTHONPATH="$home/installed${PYTHONPATH:+:$PYTHONPATH}"
