#!/usr/bin/env bash
# How long a submission takes on a head that has run very many jobs, beside one on a young head, with Ray's records of ended jobs
# removed (ray.keep_job_records: false); on the running local cluster.
#
# The jobs in between are real Ray jobs, but trivial (`true`, handed over by REST, a few at a time), with job folders as the job
# runner leaves them. Leave it to a cluster that has been started just now.
#
# usage: [ROUNDS=7] [JOBS=1000] [KEEP_RECORDS=1] ./benchmarks/bench_many_jobs.sh [--cluster NAME|FILE]
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
start_benchmark "$@"
JOBS=${JOBS:-1000}

synthetic() { # <argument>...: see lib/synthetic.py
  "$PYTHON" "$PROJECT/benchmarks/lib/synthetic.py" "$@"
}

cluster=$(synthetic forgetting "$BENCH_TMP/root" "${KEEP_RECORDS:+keep}")
export MVP_WORKLOADS=$BENCH_TMP
printf 'entry: {command: ["true"]}\n' >"$BENCH_TMP/nothing.yaml"
printf '{"workload": "nothing"}' >"$BENCH_TMP/nothing.json"

around() { # <number of the first submission>: ROUNDS submissions, each ended before the next begins
  for ((round = 0; round < ROUNDS; round++)); do
    measure "submission number $1" "$PROJECT/scripts/43_submit_jobspec.sh" "$BENCH_TMP/nothing.json" --cluster "$cluster"
    "$PROJECT/scripts/50_status.sh" --follow "$(tail -n 1 "$BENCH_TMP/output")" --cluster "$cluster" 2>/dev/null
  done
}

MVP_CLUSTER=$cluster synthetic fill 9
around 10
MVP_CLUSTER=$cluster synthetic fill $((JOBS - 10 - ROUNDS))
around "$JOBS"
say "Ray's list holds $(synthetic records) jobs"
compare "submission number $JOBS" 'submission number 10' 1.2
