#!/usr/bin/env bash
# How long a submission takes on a head that has run very many jobs, beside one on a young head, taking turns; Ray's records of ended
# jobs are removed (ray.keep_job_records: false). Starts two local clusters of its own.
#
# The jobs before are real Ray jobs, but trivial (`true`, handed over by REST, a few at a time), with job folders as the job runner
# leaves them. A thousand of them take 10 to 15 minutes.
#
# usage: [ROUNDS=7] [JOBS=1000] ./benchmarks/bench_many_jobs.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
parse_options '' "$@"
find_python
JOBS=${JOBS:-1000}
BENCH_TMP=$(mktemp -d "${TMPDIR:-/tmp}/mvp-bench.XXXXXX")
export MVP_WORKLOADS=$BENCH_TMP
printf 'entry: {command: ["true"]}\n' >"$BENCH_TMP/nothing.yaml"
printf '{"workload": "nothing"}' >"$BENCH_TMP/nothing.json"

clean_up() {
  for name in old young; do
    [[ ! -e $BENCH_TMP/$name.yaml ]] || "$SCRIPTS/02_down.sh" --cluster "$BENCH_TMP/$name.yaml" 2>/dev/null || true
  done
  rm -rf "$BENCH_TMP"
}
trap clean_up EXIT

start_cluster() { # <name> <third octet of its addresses> <port offset> <jobs before the first that is measured>
  sed -e "s|^name:.*|name: $1|" -e "s|^state_dir:.*|state_dir: $BENCH_TMP/$1-state|" \
    -e "s|^shared_root:.*|shared_root: $BENCH_TMP/$1|" -e "s/127\.0\.0\.1/127.0.$2.1/" -e 's/^ray:/&\n  keep_job_records: false/' \
    -e "s/^  port:.*/  port: $((6400 + $3))/" -e "s/^  dashboard_port:.*/  dashboard_port: $((8300 + $3))/" \
    -e "s/^  client_port:.*/  client_port: $((10100 + $3))/" -e "s/^  agent_port:.*/  agent_port: $((8400 + $3))/" \
    "$PROJECT/templates/ray/local.yaml" >"$BENCH_TMP/$1.yaml"
  "$SCRIPTS/01_up.sh" --cluster "$BENCH_TMP/$1.yaml" >/dev/null
  MVP_CLUSTER=$BENCH_TMP/$1.yaml "$PYTHON" "$PROJECT/benchmarks/lib/synthetic.py" fill "$4"
}

submission() { # <cluster> <number>: one of those around that number; it has ended before the next begins
  local cluster=$BENCH_TMP/$1.yaml
  measure "submission number $2" "$SCRIPTS/43_submit_jobspec.sh" "$BENCH_TMP/nothing.json" --cluster "$cluster"
  "$SCRIPTS/50_status.sh" --follow "$(tail -n 1 "$BENCH_TMP/output")" --cluster "$cluster" 2>/dev/null
}

start_cluster old 24 240 $((JOBS - 1 - ROUNDS / 2))
start_cluster young 25 260 $((9 - ROUNDS / 2))
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
for ((round = 0; round < ROUNDS; round++)); do
  submission young 10
  submission old "$JOBS"
done
for name in old young; do
  MVP_CLUSTER=$BENCH_TMP/$name.yaml "$PYTHON" "$PROJECT/benchmarks/lib/synthetic.py" records
done
compare "submission number $JOBS" 'submission number 10' 1.2
