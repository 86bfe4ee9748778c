#!/usr/bin/env bash
# Run a command that outlives the script that started it; hosts.sh (start_in_step) starts it with setsid.
#
# usage: keep_step.sh FOLDER ARGV...      writes its stdout, stderr, exit code and process id to FOLDER/{out,log,code,pid}
#
# FOLDER may be renamed while the command runs.
cd "$1" || exit
# A process that captures the script's output waits until every copy of the pipe's write end is closed.
for fd in /proc/self/fd/*; do
  fd=${fd##*/}
  ((fd < 3 || fd == 255)) || exec {fd}>&-
done
exec </dev/null >out 2>log
echo "$$" >pid
code=0
"${@:2}" || code=$?
echo "$code" >code.new && mv code.new code
