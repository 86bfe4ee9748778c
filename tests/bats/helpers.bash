# shellcheck shell=bash
# What every test file loads: assertions that say what they saw, and a cluster of the test's own (addresses, ports, state).

bats_require_minimum_version 1.5.0
PROJECT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
PATH=$PROJECT/scripts:$PROJECT/.venv/bin:$PATH
unset "${!MVP_@}" "${!RAY_@}" CLUSTER KEEP
# In a folder with a space in its path the cluster files' own default is refused, and the message asks for this.
[[ $PROJECT != *[!A-Za-z0-9./_+@%:~-]* ]] || export MVP_SHARED_ROOT=/tmp/mvp-private
# Never the user's own cluster, whatever a test forgets.
export MVP_CLUSTER=${TEST_CLUSTER:-/nonexistent/make_cluster_file.yaml}
[[ -z ${TEST_WORKLOADS:-} ]] || export MVP_WORKLOADS=$TEST_WORKLOADS

fail() { # <word>...: with what the command under test said
  printf '%s\n' "$*" "--- exit code ${status-}, stdout:" "${output-}" '--- stderr:' "${stderr-}" >&2
  return 1
}

assert_status() { # <exit code>
  [[ $status == "$1" ]] || fail "exit code $status instead of $1"
}

assert_output() { # <pattern>: stdout, whole
  # shellcheck disable=SC2053 # a pattern on purpose
  [[ $output == $1 ]] || fail "stdout is not: $1"
}

assert_stderr_has() { # <text>
  [[ $stderr == *"$1"* ]] || fail "stderr lacks: $1"
}

wait_for() { # <seconds> <what> <command>...: the seconds are those of a quiet machine; a busy one has three times as many
  local tick
  for ((tick = 0; tick < $1 * 15; tick++)); do
    "${@:3}" &>/dev/null && return 0
    sleep 0.2
  done
  fail "waited $(($1 * 3)) s in vain for $2${JOBS:+: $(grep -hE '"(submission_id|state|reason)"' "$JOBS"/*/result.json)}"
}

wait_until_sealed() { # of every job that has ended, or a folder would change when nothing else changes it
  wait_for 60 'the seals' no_seal_requested
}

no_seal_requested() {
  [[ -z $(find "$JOBS/.unsealed" -type f 2>/dev/null) ]]
}

wait_until_gone() { # <pid>...: the last of them may still wait to be reaped
  local _
  for _ in {1..300}; do
    kill -0 "$@" 2>/dev/null || return 0
    sleep 0.1
  done
  fail "still there: $(ps -o pid=,args= -p "$(IFS=, && echo "$*")")"
}

make_cluster_file() { # <name> <third octet of its addresses> <port offset>: its folder is FOLDER
  # A short folder: the deep ones bats makes are a test of their own.
  FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/mvp-test.XXXXXX")
  export FOLDER TEST_CLUSTER=$FOLDER/$1.yaml MVP_CLUSTER=$FOLDER/$1.yaml
  cat >"$MVP_CLUSTER" <<YAML
name: $1
host_driver: local
shared_root: $FOLDER/private
state_dir: $FOLDER/state
device: cpu
hosts:
  - {name: head, role: head, ip: 127.0.$2.10}
  - {name: worker-0, role: worker, ip: 127.0.$2.11}
  - {name: worker-1, role: worker, ip: 127.0.$2.12}
worker: {num_cpus: 2, resources: {worker_node: 100}}
ray:
  port: $((6400 + $3))
  dashboard_port: $((8300 + $3))
  client_port: $((10100 + $3))
  agent_port: $((8400 + $3))
  object_store_mb: 100
YAML
}

make_e2e_fixtures() { # <folder>: checkouts, data and a model for 60 and 61; in it `environment` to source, and descriptions, verl-no-gpu.yaml, nemo-rl-no-gpu.yaml
  PYTHONPATH=$PROJECT/lib:$PROJECT/tests/unit python -c 'import sys, e2e_checkouts; e2e_checkouts.make(sys.argv[1])' "$1"
}

make_job_cluster() { # <name> <third octet of its addresses> <port offset>: with room for jobs; WORKLOADS for the test's own, JOBS
  make_cluster_file "$@"
  sed -i 's/num_cpus: 2/num_cpus: 8/' "$MVP_CLUSTER"
  export WORKLOADS=$FOLDER/workloads TEST_WORKLOADS=$FOLDER/workloads JOBS=$FOLDER/private/jobs
  mkdir "$WORKLOADS" "$FOLDER/specs"
}

end_cluster() { # and all that make_cluster_file began
  02_down.sh 2>/dev/null || true
  chmod -R u+w "$FOLDER" # snapshots are read-only
  rm -rf "$FOLDER"
}

spec() { # <JSON>: writes a JobSpec and prints its path
  local path
  path=$(mktemp "$FOLDER/specs/XXXXXX.json")
  printf '%s' "$1" >"$path"
  printf '%s' "$path"
}

state_of() { # <job id>
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))["state"])' "$JOBS/$1/result.json"
}

instances() { # <cluster name>: "pid instance" of every process that a node of that cluster started
  local file mark
  while read -r file; do
    mark=$(tr '\0' '\n' 2>/dev/null <"$file" | grep "^MVP_RAY_INSTANCE=$1\.") || continue
    printf '%s %s\n' "${file//[!0-9]/}" "${mark#*=}"
  done < <(grep -lsz "^MVP_RAY_INSTANCE=$1\." /proc/[0-9]*/environ)
}

ask_ray() { # <address> <path> [<curl argument>...]: body of a REST call
  python - "$@" <<'PY'
import sys, urllib.request
request = urllib.request.Request(sys.argv[1] + sys.argv[2], headers=dict(arg.split(": ") for arg in sys.argv[3:]))
print(urllib.request.urlopen(request, timeout=10).read().decode())
PY
}
