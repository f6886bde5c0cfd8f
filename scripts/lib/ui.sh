# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# What the scripts print: one line a step, "  name      what   how long". On a terminal a step's line
# is rewritten while it goes on; elsewhere it is printed once. NO_COLOR is respected.

ui_bold='' ui_red='' ui_green='' ui_yellow='' ui_dim='' ui_end=''
ui_terminal=no
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
    ui_terminal=yes
    if [ -z "${NO_COLOR:-}" ]; then
        ui_bold=$(printf '\033[1m') ui_red=$(printf '\033[31m') ui_green=$(printf '\033[32m')
        ui_yellow=$(printf '\033[33m') ui_dim=$(printf '\033[2m') ui_end=$(printf '\033[0m')
    fi
fi

# ui_line NAME TEXT: a finished step.
ui_line() {
    [ "$ui_terminal" = no ] || printf '\r\033[K'
    printf '  %s%-9s%s %s\n' "$ui_bold" "$1" "$ui_end" "$2"
}

# ui_progress NAME TEXT: a step that goes on; only seen on a terminal.
ui_progress() {
    [ "$ui_terminal" = no ] || printf '\r\033[K  %s%-9s%s %s' "$ui_bold" "$1" "$ui_end" "$2"
}

# ui_failed NAME TEXT: a step that failed.
ui_failed() {
    [ "$ui_terminal" = no ] || printf '\r\033[K'
    printf '  %s%-9s %s%s\n' "$ui_red" "$1" "$2" "$ui_end"
}

# ui_now: seconds since the epoch. ui_since START: "12 s" or "3 min 20 s".
ui_now() { date +%s; }
ui_since() {
    ui_s=$(($(date +%s) - $1))
    if [ "$ui_s" -ge 60 ]; then
        echo "$((ui_s / 60)) min $((ui_s % 60)) s"
    else
        echo "$ui_s s"
    fi
}
