#!/bin/sh
# Runs the suites of a guest as root, and prints what becomes of each between marks.
export PATH=/bin:/usr/bin HOME=/root
chmod 1777 /tmp /var/tmp
echo "=== kernel $(uname -r)"
left_out=--exact
for test in $OARBANK_LEFT_OUT; do left_out="$left_out --skip $test"; done
for suite in /suites/*; do
    name=${suite##*/}
    case " $OARBANK_SUITES " in *" $name "*) ;; *) continue ;; esac
    echo "=== suite $name"
    # What is skipped is said on standard error, in the middle of a line of the other.
    # shellcheck disable=SC2086
    "$suite" --test-threads=1 $left_out </dev/null 2>/tmp/errors
    code=$?
    echo "=== errors"
    cat /tmp/errors
    echo "=== end $code at $(cut -d' ' -f1 /proc/uptime)"
done
echo "=== done"
