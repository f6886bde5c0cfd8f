#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Shell completion offers what the command has: for bash by calling its function, for zsh (where there is
# one) that it parses.
#
# ctest: timeout=60

set -u
export LC_ALL=C
failed=0

command -v bash >/dev/null 2>&1 || {
    echo "no bash"
    exit 77
}

# offers WANT WORD...: what is offered for the last word contains WANT, one of its own lines.
offers() {
    want=$1
    shift
    bash -c '
        . "$DECKLE_SOURCE_DIR/completions/deckle.bash"
        COMP_WORDS=("$DECKLE" "$@") COMP_CWORD=$#
        _deckle
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@" >"$work/offered"
    grep -qx -- "$want" "$work/offered" || {
        echo "FAILED: deckle $*: no $want among:"
        cat "$work/offered"
        failed=$((failed + 1))
    }
}

# offers_not WORD WORDS…: it is not offered.
offers_not() {
    unwanted=$1
    shift
    offers '.*' "$@"
    if grep -qx -- "$unwanted" "$work/offered"; then
        echo "FAILED: deckle $*: offers $unwanted"
        failed=$((failed + 1))
    fi
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for command in $("$DECKLE" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    offers "$command" ""
    offers "$command" "$(printf %.2s "$command")"
done
offers --version --v
offers bench help be
offers_not replay b
for command in replay pack unpack bench; do
    for option in $("$DECKLE" $command --help | grep -oE '^ +(-[a-z], +)?--[a-z-]+' |
        grep -oE -- '--[a-z-]+'); do
        offers "$option" $command --
        offers "$option" $command "$option"
    done
done
offers --free-running replay --fr
offers -k replay -
offers_not --free-running pack --
for table in $("$DECKLE" bench --list | awk '{ print $1 }'); do
    offers "$table" bench ""
done
offers 16 replay --pfn-base 1
cd "$DECKLE_SOURCE_DIR" || exit 1
offers traces/thp.deckle replay traces/th
offers traces/thp.deckle pack traces/th
offers tests replay --json test

if command -v zsh >/dev/null 2>&1; then
    zsh -n completions/_deckle || failed=$((failed + 1))
else
    echo "no zsh: its completion was not looked at"
fi
echo "$failed failed"
[ $failed -eq 0 ]
