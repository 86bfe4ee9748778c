#!/usr/bin/env bats
# One real Ray cluster of three local nodes beside a foreign one: up, repaired, down, with nothing else touched. The order counts.

load helpers

setup_file() {
  make_cluster_file test 1 80
  chmod 755 "$FOLDER" # as a home or a project often is: what other users cannot reach is closed by the cluster itself
  start_foreign_ray &
  01_up.sh >"$FOLDER/up.out" 2>"$FOLDER/up.err" || { cat "$FOLDER/up.err" >&2 && false; }
  wait "$!"
}

teardown_file() {
  02_down.sh 2>/dev/null || true
  kill "$(<"$FOLDER/foreign.pid")" 2>/dev/null || true
  for _ in {1..100}; do kill -0 "$(<"$FOLDER/foreign.pid")" 2>/dev/null || break && sleep 0.1; done
  rm -rf "$FOLDER"
}

start_foreign_ray() { # somebody else's Ray on this machine, without a token, started as its manual says, from a path without spaces
  ln -s "$PROJECT/.venv" "$FOLDER/venv"
  RAY_AUTH_MODE=disabled setsid "$FOLDER/venv/bin/python" -m ray.scripts.scripts start --head --block --node-ip-address=127.0.1.20 --port=6487 --dashboard-host=127.0.1.20 \
    --dashboard-port=8387 --ray-client-server-port=10187 --dashboard-agent-listen-port=8487 --num-cpus=1 --temp-dir="$FOLDER/foreign" \
    --min-worker-port=0 --max-worker-port=0 --object-store-memory=80000000 --disable-usage-stats &>"$FOLDER/foreign.log" 3>&- 4>&- &
  echo "$!" >"$FOLDER/foreign.pid"
  for _ in {1..300}; do ! foreign_lives 2>/dev/null || return 0 && sleep 0.2; done
  cat "$FOLDER/foreign.log" >&2 && return 1
}

foreign_lives() {
  kill -0 "$(<"$FOLDER/foreign.pid")" && [[ $(ask_ray http://127.0.1.20:8387 '/api/v0/nodes?detail=1') == *'"ALIVE"'* ]]
}

raylet_of() { # <host>
  local pid instance
  while read -r pid instance; do
    [[ $instance != "test.$1."* || $(tr '\0' ' ' <"/proc/$pid/cmdline") != */raylet/raylet\ * ]] || echo "$pid"
  done < <(instances test)
}

@test "up prints the dashboard's address and that it started the cluster" {
  [[ $(<"$FOLDER/up.out") == 'http://127.0.1.10:8380 started' ]] || fail "up said: $(<"$FOLDER/up.out")"
  [[ $(<"$FOLDER/up.err") == *"cluster 'test' (3 nodes): started after "*' s' ]] || fail "up told: $(<"$FOLDER/up.err")"
  foreign_lives
}

@test "up again leaves every process alone" {
  before=$(instances test | sort)
  run --separate-stderr 01_up.sh
  assert_status 0
  assert_output 'http://127.0.1.10:8380 already up'
  run --separate-stderr 20_start_head.sh
  assert_output 'already running'
  [[ $(raylet_of head) == "$(grep -f <(raylet_of head) <<<"$before" | cut -d' ' -f1)" ]] || fail 'the head was started again'
  run --separate-stderr 01_up.sh --check
  assert_status 0
  assert_output 'up'
}

@test "only the token opens the dashboard, and only its owner can read the token" {
  run --separate-stderr ask_ray http://127.0.1.10:8380 /api/version
  assert_status 1
  assert_stderr_has 'HTTP Error 401'
  [[ $(stat -c %a "$FOLDER/state/ray_token") == 600 ]] || fail "mode $(stat -c %a "$FOLDER/state/ray_token")"
  run --separate-stderr ask_ray http://127.0.1.10:8380 /api/version "Authorization: Bearer $(<"$FOLDER/state/ray_token")"
  assert_output '*ray_version*'
}

status_is_whole() { # Ray's head writes it every few seconds
  [[ $(ray.sh status) == */4.0\ CPU*/200.0\ worker_node* ]]
}

@test "any command of Ray runs on this cluster, whatever RAY_ADDRESS and HTTP_PROXY say; its exit code comes back" {
  local -x RAY_ADDRESS=http://127.0.1.20:8387 HTTP_PROXY=http://127.0.1.20:9
  run --separate-stderr ray.sh list nodes
  assert_status 0
  for address in 127.0.1.10 127.0.1.11 127.0.1.12; do assert_output "*$address*"; done
  [[ $output != *127.0.1.20* ]] || fail 'the foreign node is listed'
  wait_for 10 "the nodes' resources in ray status" status_is_whole
  run --separate-stderr ray.sh job list
  assert_status 0
  run --separate-stderr ray.sh --cluster "$MVP_CLUSTER" job status no-such-job --log-style=record
  assert_status 1
  [[ $stderr$output == *no-such-job* ]] || fail 'not what Ray says'
  run --separate-stderr ray.sh stop --force
  assert_status 2
  assert_stderr_has 'try: ./scripts/02_down.sh'
  run --separate-stderr ray.sh --dry-run job list
  assert_output 'would run: helper_on head ray -- job list'
}

@test "the folders of the shared root exist: shared ones like /tmp, secrets for their owner alone" {
  local root=$FOLDER/private
  run stat -c '%a %n' "$root"/{datasets,hf,jobs,ray,outputs,common,common/{models,datasets,code},user,user/{code,secrets}}
  assert_output "755 $root/datasets
755 $root/hf
755 $root/jobs
755 $root/ray
1777 $root/outputs
1777 $root/common
1777 $root/common/models
1777 $root/common/datasets
1777 $root/common/code
1777 $root/user
1777 $root/user/code
700 $root/user/secrets"
}

@test "Ray's files lie in the state directory, its sockets have short paths, ray start's words are kept" {
  compgen -G "$FOLDER/state/worker-1/ray/session_*/logs/raylet.out" >/dev/null || fail 'no Ray logs in the state directory'
  [[ $(<"$FOLDER/state/head/ray_start.log") == *'ray_command start --block'*'Ray runtime started'* ]] || fail 'no words kept'
}

as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

@test "another user of the machine reaches neither Ray's logs nor its sockets" {
  ((EUID == 0)) || skip 'only root can be another user'
  as_nobody ls "$FOLDER/state" >/dev/null || fail 'nobody cannot even reach the state directory'
  links=$(find "${TMPDIR:-/tmp}" -maxdepth 1 -lname "$FOLDER/state/*")
  [[ $(wc -l <<<"$links") == 3 && $(find "$FOLDER/state" -path '*/sockets/*' -type s | wc -l) -ge 6 ]] || fail 'not where they were'
  for place in $links "$FOLDER"/state/{head,worker-0,worker-1}/ray; do
    run as_nobody ls "$place/"
    [[ $output == *'Permission denied' ]] || fail "$place is open"
  done
  for place in $links; do
    run --separate-stderr python "$PROJECT/tests/lab/as_nobody.py" "$place/"
    assert_status 0
    assert_output '* sockets and 3 folders are closed'
  done
  run as_nobody find "$FOLDER/state" ! -name seals -type d -perm -o+w
  [[ $output == "find: "*'Permission denied'* && $output != *session* ]] || fail 'open folders'
}

@test "up after kill -9 of a raylet repairs that node and no other" {
  head=$(raylet_of head)
  kill -9 "$(raylet_of worker-0)"
  run --separate-stderr 01_up.sh
  assert_status 0
  assert_output 'http://127.0.1.10:8380 repaired'
  assert_stderr_has 'worker-0: its Ray node is not fully alive'
  [[ $(raylet_of head) == "$head" && -n $(raylet_of worker-0) ]] || fail 'wrong nodes were started'
  foreign_lives
}

@test "down ends the whole tree of a running driver, and nothing of the foreign Ray" {
  cat >"$FOLDER/driver.sh" <<'SH'
setsid sleep 987654 & echo $! >"$1/stray.pid"
trap '' TERM
echo $$ >"$1/driver.pid"
while :; do sleep 1; done
SH
  RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$FOLDER/state/ray_token ray job submit --address=http://127.0.1.10:8380 --no-wait \
    --entrypoint-resources='{"worker_node": 1}' -- bash "$FOLDER/driver.sh" "$FOLDER" >/dev/null 2>&1
  for _ in {1..200}; do [[ ! -s $FOLDER/driver.pid ]] || break && sleep 0.1; done
  kill -0 "$(<"$FOLDER/driver.pid")" "$(<"$FOLDER/stray.pid")" || fail 'the driver did not start'
  run --separate-stderr 02_down.sh
  assert_status 0
  wait_until_gone "$(<"$FOLDER/driver.pid")"
  wait_until_gone "$(<"$FOLDER/stray.pid")"
  [[ -z $(instances test) ]] || fail "left: $(instances test)"
  [[ -z $(find "$FOLDER/state" -name node.json) ]] || fail 'records are left'
  [[ -z $(find "${TMPDIR:-/tmp}" -maxdepth 1 -lname "$FOLDER/state/*") ]] || fail 'links are left'
  foreign_lives
}

@test "down twice is fine, and a cluster that is down says so" {
  run --separate-stderr 02_down.sh
  assert_status 0
  run --separate-stderr 01_up.sh --check
  assert_status 1
  assert_output 'down'
}

@test "a folder of somebody else at the place for Ray's sockets blocks up in one line, and is left alone" {
  ((EUID == 0)) || skip 'only root can give a folder away'
  place=$(MVP_CLUSTER_JSON='' PYTHONPATH=$PROJECT/lib python -c 'import sys
from mvp_helpers.cluster import cluster_file, node_record
print(node_record.NodePaths(cluster_file.load(sys.argv[1]), "head").temp_dir)' "$MVP_CLUSTER")
  install -d -o 65534 "$place"
  run --separate-stderr 01_up.sh
  rmdir "$place"
  assert_status 3
  assert_output ''
  assert_stderr_has "blocked: $place, the place for Ray's sockets, belongs to user nobody"
  [[ -z $(instances test)$(find "$FOLDER/state" -name node.json) ]] || fail 'something is left'
}

@test "a recorded pid that belongs to another process by now is not ended" {
  sleep 300 3>&- &
  sleeper=$!
  printf '{"pid": %s, "pid_start_time": 1, "boot_id": "%s", "instance": "test.head.0", "role": "head", "ip": "127.0.1.10",
    "ray_version": "2", "python_version": "3", "started_at": ""}' "$sleeper" "$(</proc/sys/kernel/random/boot_id)" >"$FOLDER/state/head/node.json"
  run --separate-stderr 02_down.sh
  assert_status 0
  [[ ! -e $FOLDER/state/head/node.json ]] || fail 'the stale record is left'
  kill "$sleeper" || fail 'it was ended'
}

@test "a port that is taken is named with its holder and the variable that moves it" {
  python -m http.server --bind 127.0.1.10 8380 &>/dev/null 3>&- &
  holder=$!
  for _ in {1..50}; do ! ask_ray http://127.0.1.10:8380 / &>/dev/null || break && sleep 0.1; done
  run --separate-stderr 01_up.sh
  kill "$holder"
  assert_status 3
  assert_output ''
  assert_stderr_has "head: port 8380 is taken by pid $holder ("
  assert_stderr_has 'MVP_DASHBOARD_PORT='
  [[ -z $(instances test)$(find "$FOLDER/state" -name node.json) ]] || fail 'something is left'
}

@test "workers without a head are blocked" {
  run --separate-stderr 21_start_workers.sh
  assert_status 3
  assert_stderr_has 'worker-1: no head answers at 127.0.1.10:6480'
  assert_stderr_has 'start worker: worker-0 worker-1'
}

@test "Ctrl-C while the head starts leaves nothing running" {
  # A terminal's Ctrl-C reaches the whole foreground process group.
  run --separate-stderr python - <<'PY'
import glob, os, signal, subprocess, time
def begun():
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            if b"MVP_RAY_INSTANCE=test." in open(path, "rb").read():
                return True
        except OSError:
            pass
process = subprocess.Popen(["01_up.sh"], start_new_session=True)
while not begun() and process.poll() is None:
    time.sleep(0.02)
os.killpg(process.pid, signal.SIGINT)
raise SystemExit(process.wait(30))
PY
  assert_status 130
  [[ -z $(instances test)$(find "$FOLDER/state" -name node.json) ]] || fail "left: $(instances test)"
  foreign_lives
}
