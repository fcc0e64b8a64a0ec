# Copies programs of this image, with the libraries and the loader that they run by, to where another
# image finds them: sh -c SCRIPT sh DIRECTORY NAME...  Libraries of glibc and of musl are found; what
# glibc loads by name while a program runs (nss, resolv) comes with them.
set -eu
to=$1
shift
mkdir -p "$to/bin" "$to/lib" "$to/real"

place() { # NAME: the newest installation's; wrappers of a distribution on PATH come last
  found=
  for path in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
    [ ! -x "$path/$1" ] || found=$path/$1
  done
  [ -n "$found" ] || found=$(command -v "$1") || return 1
  echo "$found"
}

libraries() { # PROGRAM
  ldd "$1" 2>/dev/null && return
  for loader in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* /lib/ld-musl-*.so.1; do
    if [ -x "$loader" ] && "$loader" --list "$1" 2>/dev/null; then return; fi
  done
}

for name in "$@"; do
  program=$(place "$name") || { echo "this image has no $name"; continue; }
  cp -L "$program" "$to/real/$name"
  start=
  for file in $(libraries "$program" | sed -n 's/^[[:space:]]*\(.*=> \)\{0,1\}\(\/[^ ]*\) (0x.*/\2/p'); do
    cp -L "$file" "$to/lib/"
    case ${file##*/} in
      ld-*) start="$to/lib/${file##*/} --library-path $to/lib " ;;
      libc.so.6)
        for more in "${file%/*}"/libnss_files.so.2 "${file%/*}"/libnss_dns.so.2 "${file%/*}"/libresolv.so.2; do
          [ ! -e "$more" ] || cp -L "$more" "$to/lib/"
        done
        ;;
    esac
  done
  printf '#!/bin/sh\nexec %s%s "$@"\n' "$start" "$to/real/$name" >"$to/bin/$name"
  chmod 755 "$to/bin/$name"
  echo "$name comes from $program"
done
