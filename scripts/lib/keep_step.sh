#!/usr/bin/env bash
# Run a command on after the script that started it; for hosts.sh (start_in_step), begun with setsid.
#
# usage: keep_step.sh FOLDER ARGV...      its stdout, stderr, exit code, and our process id: FOLDER/{out,log,code,pid}
#
# FOLDER may be renamed meanwhile.
cd "$1" || exit
# Whoever captures the script's output waits until the last copy of its end of the pipe is closed.
for fd in /proc/self/fd/*; do
  fd=${fd##*/}
  ((fd < 3 || fd == 255)) || exec {fd}>&-
done
exec </dev/null >out 2>log
echo "$$" >pid
code=0
"${@:2}" || code=$?
echo "$code" >code.new && mv code.new code
