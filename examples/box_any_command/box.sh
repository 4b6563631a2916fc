#!/bin/sh
# Run any command in the box of policy.toml:   ./box.sh python3 untrusted.py
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd -- "$here"
if [ $# -eq 0 ]; then
    echo "usage: ./box.sh COMMAND [ARGUMENT...]" >&2
    exit 2
fi
exec axonkernel exec --policy policy.toml -- "$@"
