# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Completion of the command deckle for bash. Commands, options and tables are asked of the command
# itself, so that nothing here has to follow when they change.

# Names of a block of help: the first words of the lines behind HEADING, up to an empty line.
_deckle_words() {
    awk -v heading="$1" '$0 == heading { inside = 1; next } !NF { inside = 0 } inside { print $1 }'
}

_deckle() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} words

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || { [ "$command" = help ] && [ "$COMP_CWORD" -eq 2 ]; }; then
        words=$("$program" help 2>/dev/null | _deckle_words Commands:)
        [ "$command" = help ] && [ "$COMP_CWORD" -eq 2 ] || words="$words --version"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    [ "$command" != help ] || return
    case $prev in
    --pfn-base)
        mapfile -t COMPREPLY < <(compgen -W '10 16' -- "$cur")
        return
        ;;
    --json | -o | --output)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --nodes | --repeat | --size | --tick | --name | --runs | --max-order | --page-size | \
        --clients | --client | --mode | --watch) return ;;
    esac
    if [[ $cur == -* ]]; then
        words=$("$program" "$command" --help 2>/dev/null |
            grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '-(-[a-z-]+|[a-z])')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    elif [ "$command" = bench ]; then
        words=$("$program" bench --list 2>/dev/null | awk '{ print $1 }')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}

complete -o filenames -F _deckle deckle
