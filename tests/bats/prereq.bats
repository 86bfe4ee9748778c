#!/usr/bin/env bats
# Script 00 on hosts with GPUs (nvidia-smi only pretends), and its all-reduce between the workers, for real, with gloo. No Ray runs.

load helpers

setup() {
  make_cluster_file prereq 71 710
}

teardown() {
  rm -rf "$FOLDER"
}

on_worker_1() { # <command>...: what runs its all-reduce processes, instead of nothing
  cat >"$FOLDER/python" <<SH
#!/bin/bash
# What a real host could do to them: everything else is the project's own Python.
[[ \$MVP_HOST != worker-1 || \$* != *" all-reduce "* ]] || exec $* "$PROJECT/.venv/bin/python" "\$@"
exec "$PROJECT/.venv/bin/python" "\$@"
SH
  chmod +x "$FOLDER/python"
  printf 'python: %s\n' "$FOLDER/python" >>"$MVP_CLUSTER"
}

all_reduce_pids() { # what runs of it on this test's cluster, which stands in their environment
  local pid command
  while IFS=/ read -r _ _ pid _; do
    command=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || continue
    [[ $command != *all?reduce* && $command != sleep* ]] || printf '%s ' "$pid"
  done < <(grep -lsz "^MVP_CLUSTER_JSON=.*$FOLDER/private" /proc/[0-9]*/environ)
}

@test "the workers add up a tensor between them, and its bandwidths are a row of the table and figures in --json" {
  run --separate-stderr 00_prereq_check.sh --nccl
  assert_status 0
  assert_output '*✓ Pass     all-reduce between the workers *16 MiB over n = 2 processes (gloo): algorithm *.* GB/s, bus *.* GB/s (algorithm × 2(n-1)/n)'
  00_prereq_check.sh --nccl --json | python -c '
import json, sys
rows = json.load(sys.stdin)
sizes = rows[-1]["sizes"]
assert [size["bytes"] for size in sizes] == [1 << 16, 1 << 20, 1 << 24], sizes
for size in sizes:  # two processes: 2(n-1)/n is 1
    assert size["algorithm_gb_s"] == size["bytes"] / size["seconds"] / 1e9 == size["bus_gb_s"] > 0, size
assert not any("sizes" in row for row in rows[:-1])'
  [[ -z $(all_reduce_pids) ]] || fail "left running: $(all_reduce_pids)"
}

@test "a worker that is cut off is named by itself and by those who wait for it, and nothing is left running" {
  unshare --net true 2>/dev/null || skip 'a worker cannot be cut off here: unshare --net is not permitted'
  on_worker_1 unshare --net
  run --separate-stderr 00_prereq_check.sh --nccl --timeout 24
  assert_status 3
  assert_output '*✗ Blocked  all-reduce between the workers *worker-0: worker-1 did not join at 127.0.71.11:* in time; worker-1: cannot reach worker-0 at 127.0.71.11:*: Network is unreachable*'
  assert_output '*→ let the workers reach each other*'
  [[ -z $(all_reduce_pids) ]] || fail "left running: $(all_reduce_pids)"
}

@test "Ctrl-C ends the processes on all workers" {
  on_worker_1 sleep 600 '#'
  run --separate-stderr python - <<'PY'
import os, pathlib, signal, subprocess, time
process = subprocess.Popen(["00_prereq_check.sh", "--nccl"], start_new_session=True)
def running():
    commands = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.environ["FOLDER"].encode() in (path / "environ").read_bytes():
                commands.append((path / "cmdline").read_bytes())
        except OSError:
            pass
    return commands
while not (any(b"mvp_helpers.cluster.all_reduce" in one for one in running()) and any(b"sleep" in one for one in running())):
    assert process.poll() is None
    time.sleep(0.1)
os.killpg(process.pid, signal.SIGINT)
raise SystemExit(process.wait(30))
PY
  assert_status 130
  local _
  for _ in {1..50}; do [[ -n $(all_reduce_pids) ]] || return 0 && sleep 0.1; done
  fail "left running: $(all_reduce_pids)"
}

@test "on a worker with GPUs: its driver, what it sees, its links; two variables that verl refuses are named with host and values" {
  sed -i 's/^device: cpu/device: cuda/; s/num_cpus: 2/num_cpus: 2, num_gpus: auto/' "$MVP_CLUSTER"
  export NVIDIA_SMI=$BATS_TEST_DIRNAME/../doubles/recorded/nvidia-smi-h200 NVIDIA_SMI_UNEXPECTED=$FOLDER/unexpected
  PATH=$BATS_TEST_DIRNAME/../doubles/bin:$PATH CUDA_VISIBLE_DEVICES=1,2 ROCR_VISIBLE_DEVICES=0 run --separate-stderr 00_prereq_check.sh
  [[ ! -e $FOLDER/unexpected ]] || fail "unexpected: $(<"$FOLDER/unexpected")"
  assert_status 3
  local host
  for host in worker-0 worker-1; do
    assert_output "*✓ Pass     $host: NVIDIA driver  *570.124.06
✓ Pass     $host: GPUs (all visible wanted)  *4 × NVIDIA H200, 143771 MiB
✗ Blocked  $host: one variable chooses GPUs *CUDA_VISIBLE_DEVICES=1,2 and ROCR_VISIBLE_DEVICES=0: verl refuses both
*→ unset ROCR_VISIBLE_DEVICES where $host is started*
✓ Pass     $host: visible GPUs *2 of 4 by CUDA_VISIBLE_DEVICES=1,2
*– Skipped  $host: NVLink  *NV18 between all GPUs, 26.562 GB/s a link
– Skipped  $host: InfiniBand *"
  done
  # Two workers of one machine with the same choice: Ray would give both the same GPUs.
  assert_output '*✗ Blocked  no GPU belongs to two workers *worker-0 and worker-1 share GPU-7be4402d*'
  assert_output '*– Skipped  a training uses *2 nodes with 2 processes each (worker-0, worker-1: 2 GPUs)*'
  [[ $output != *'head: GPU'* && $output != *'head: NV'* ]] || fail 'the head needs no GPU'
  # What was counted is what a plan uses, although no Ray runs.
  run --separate-stderr 43_submit_jobspec.sh "$PROJECT/templates/grpo.json" --dry-run
  assert_status 3
  assert_output '*processes_per_node: 2*shape: ?2 nodes with 2 processes each (worker-0, worker-1: 2 GPUs)?*- trainer.n_gpus_per_node=2*'
}
