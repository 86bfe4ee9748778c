# shellcheck shell=bash
# Host driver "slurm": hosts are the nodes of one allocation, in their order; every command on a node is a step of the allocation.
#
# $ALLOCATION is its record on the launching machine: "<job id> own|adopted", then a line "<host> <node> <address>" for each host.

# shellcheck disable=SC2034 # for hosts.sh: a host's process ends with the step that started it
HOST_STEPS=1 DOWN_ENDS_RAY=1
ALLOCATION=$PROJECT/.mvp/$CLUSTER_NAME/allocation
STEP_NAME=mvp-$CLUSTER_NAME

read_allocation() { # set JOB ("" without an allocation), OWNER, and NODES and ADDRESSES by host
  local host node address
  declare -g JOB='' OWNER=''
  declare -gA NODES=() ADDRESSES=()
  [[ -r $ALLOCATION ]] || return 0
  {
    read -r JOB OWNER
    while read -r host node address; do NODES[$host]=$node ADDRESSES[$host]=$address; done
  } <"$ALLOCATION"
}

write_allocation() { # [<host> <node> <address>]...
  mkdir -p "${ALLOCATION%/*}"
  { printf '%s %s\n' "$JOB" "$OWNER" && (($# == 0)) || printf '%s %s %s\n' "$@"; } >"$ALLOCATION.new"
  mv "$ALLOCATION.new" "$ALLOCATION"
}

forget_allocation() {
  rm -rf "$ALLOCATION" "$STEPS"
  read_allocation
}

job_state() { # print state and reason of the allocation in Slurm's words; GONE when Slurm has forgotten it
  local out
  out=$(squeue -h -j "$JOB" -t all -o '%T %r' 2>&1) || {
    [[ $out == *'Invalid job id'* ]] || die 3 "Slurm does not answer: ${out##*error: }" 'sinfo, on this machine'
  }
  [[ $out != *'Invalid job id'* && -n $out ]] || out='GONE'
  printf '%s\n' "$out"
}

hosts_up() {
  local state
  command -v srun >/dev/null || [[ -n $DRY_RUN ]] || die 3 'Slurm is not installed on this machine: srun is missing' 'a login node, or --cluster local'
  if [[ -n $JOB && -z $DRY_RUN ]]; then
    state=$(job_state)
    case ${state%% *} in
      PENDING | CONFIGURING | RUNNING) ;;
      *)
        say "allocation $JOB has ended: $state"
        forget_allocation
        ;;
    esac
  fi
  [[ -n $JOB ]] || get_allocation
  [[ -z $DRY_RUN ]] || return 0
  ((${#NODES[@]})) || { wait_for_allocation && find_nodes; }
}

get_allocation() { # adopt the allocation that this shell runs in, or request one
  local sbatch out
  if [[ -n ${SLURM_JOB_ID:-} ]]; then
    JOB=$SLURM_JOB_ID OWNER=adopted
    say "allocation $JOB: adopted; 02_down.sh will not end it"
  else
    sbatch=(sbatch --parsable --job-name="$STEP_NAME" --nodes="${#HOSTS[@]}" --ntasks-per-node=1 --no-kill --no-requeue
      --output="${ALLOCATION%/*}/allocation.log" "${SBATCH_OPTIONS[@]}" --wrap 'exec sleep infinity')
    [[ -z $DRY_RUN ]] || { run "${sbatch[@]}" && return; }
    mkdir -p "${ALLOCATION%/*}"
    trap '' INT TERM # an interrupt here would leave an allocation that nothing knows
    out=$("${sbatch[@]}" 2>&1) || die 3 "Slurm refuses the allocation: ${out##*error: }" "slurm.sbatch in $MVP_CLUSTER; sinfo shows the partitions"
    out=${out##*$'\n'}
    JOB=${out%%;*} OWNER=own
    say "allocation $JOB: asked for ${#HOSTS[@]} nodes"
  fi
  [[ -n $DRY_RUN ]] || write_allocation
}

wait_for_allocation() {
  local began=$SECONDS shown='' state
  trap 'give_up_allocation; exit 130' INT
  trap 'give_up_allocation; exit 143' TERM
  while state=$(job_state) && [[ $state != RUNNING* ]]; do
    case $state in
      PENDING* | CONFIGURING*) ;;
      *)
        forget_allocation
        die 3 "the allocation has ended: $state" "${ALLOCATION%/*}/allocation.log"
        ;;
    esac
    [[ $state == "$shown" ]] || say "waiting: allocation $JOB is $state"
    shown=$state
    if ((SECONDS - began >= SLURM_PENDING_TIMEOUT)); then
      give_up_allocation
      die 4 "no allocation after $SLURM_PENDING_TIMEOUT s (slurm.pending_timeout_s): $state" "slurm.sbatch in $MVP_CLUSTER; squeue and sinfo show more"
    fi
    sleep "$((SECONDS - began < 3 ? 0 : SECONDS - began < 60 ? 1 : 5)).3"
  done
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

give_up_allocation() {
  trap '' INT TERM
  [[ $OWNER != own ]] || { scancel "$JOB" && say "allocation $JOB: cancelled"; }
  forget_allocation
}

find_nodes() { # assign nodes to hosts and find their addresses, with one step on all of them, which proves that steps work
  local nodes list=() output host at
  nodes=$(squeue -h -j "$JOB" -o %N)
  mapfile -t nodes < <(scontrol show hostnames "$nodes")
  ((${#nodes[@]} >= ${#HOSTS[@]})) ||
    die 3 "allocation $JOB has ${#nodes[@]} nodes, the cluster file ${#HOSTS[@]} hosts" "an allocation with --nodes=${#HOSTS[@]}"
  nodes=("${nodes[@]:0:${#HOSTS[@]}}")
  output=$(MVP_HOST='each node' step_on "$(IFS=, && echo "${nodes[*]}")" "${#nodes[@]}" --input=none --label -- "$CLUSTER_PYTHON" -m mvp_helpers own-address) ||
    die 3 "allocation $JOB: the helper does not run on all of ${nodes[*]}" "srun's message above; python and slurm.srun in $MVP_CLUSTER"
  for at in "${!HOSTS[@]}"; do
    host=${HOSTS[at]}
    NODES[$host]=${nodes[at]} ADDRESSES[$host]=$(sed -n "s/^ *$at: //p" <<<"$output")
    list+=("$host" "${NODES[$host]}" "${ADDRESSES[$host]}")
  done
  write_allocation "${list[@]}"
  HOST_IPS=("${HOSTS[@]//*/}") # not those of an earlier allocation
  say "allocation $JOB: ${nodes[*]}"
}

# shellcheck disable=SC2030,SC2031 # subshells on purpose: their variables are for the command that replaces them
step_on() ( # <node>[,<node>...] <how many> <srun option>... -- <argv>...
  local words=(--jobid="${JOB:-JOB}" --nodes="$2" --ntasks="$2" --ntasks-per-node=1 --nodelist="$1" --overlap
    --export=ALL --disable-status --job-name="$STEP_NAME" "${SRUN_OPTIONS[@]}")
  # Variables of another Ray cluster would direct the command there; those of the surrounding allocation change its steps.
  for name in "${!RAY_@}" "${!SLURM_@}"; do [[ $name == SLURM_CONF ]] || unset "$name"; done
  # Without Ray .venv is for this machine only, and python3 means that of the node.
  [[ ! -e $PROJECT/.venv/bin/ray ]] || PATH=$PROJECT/.venv/bin:$PATH
  [[ $CLUSTER_PYTHON != /* ]] || PATH=${CLUSTER_PYTHON%/*}:$PATH # the command ray is there
  export PATH PYTHONPATH=$TOOLS_DIR/lib
  [[ -z ${WOULD:-} ]] || { run srun "${words[@]}" "${@:3}" && exit; }
  exec ${KEEP:+setsid --fork "$SCRIPTS/lib/keep_step.sh" "$KEEP"} srun "${words[@]}" "${@:3}"
)

hosts_down() {
  [[ -n $JOB ]] || return 0
  local ours out tick
  mapfile -t ours < <(own_jobs_or_steps)
  if [[ -n $DRY_RUN ]]; then
    run scancel "${ours[@]}"
    return
  fi
  ((${#ours[@]} == 0)) || out=$(scancel "${ours[@]}" 2>&1) || [[ $out == *'Invalid job id'* ]] || die 3 "Slurm does not end ${ours[*]}: $out"
  for ((tick = 0; tick < 300; tick++)); do # until the nodes are free again
    [[ -n $(own_jobs_or_steps) ]] || break
    sleep 0.2
  done
  say "allocation $JOB: $([[ $OWNER == own ]] && echo ended || echo 'stays, because it was adopted')"
  forget_allocation
}

own_jobs_or_steps() { # print what scancel may end: the allocation that was requested, or the own steps in an adopted one
  if [[ $OWNER == own ]]; then
    squeue -h -j "$JOB" -o %i 2>/dev/null || true
  else
    { squeue -h -s -j "$JOB" -o '%i %j' 2>/dev/null || true; } | sed -n "s/ $STEP_NAME\$//p"
  fi
}

hosts_list() { printf '%s\n' "${HOSTS[@]}"; }

host_ip() { # <host>
  [[ -n ${ADDRESSES[$1]:-} ]] || return 1
  printf '%s\n' "${ADDRESSES[$1]}"
}

host_exec() { # <host> [-i] -- <argv>...
  local host=$1 node=${NODES[$1]:-} stdin=(--input=none) code=0 probe
  if [[ $host == "$HEAD" && -z $node && -z ${WOULD:-} && -d $SHARED_ROOT/jobs ]]; then
    say "$host: cluster '$CLUSTER_NAME' has no allocation; reading the shared root from this machine"
    read_here "$@"
    return
  fi
  [[ -n $node || -n ${WOULD:-} ]] || die 3 "$host: cluster '$CLUSTER_NAME' has no allocation" "./scripts/01_up.sh --cluster $MVP_CLUSTER"
  shift
  [[ $1 != -i ]] || { stdin=() && shift; }
  # -QQ: srun would add a line about the exit code to the command's stderr. sh, because srun does not return 126 and 127.
  MVP_HOST=$host MVP_HOST_IP=${ADDRESSES[$host]:-} step_on "${node:-"NODE_OF_$host"}" 1 -QQ "${stdin[@]}" -- \
    /bin/sh -c 'exec "$@"' sh "${@:2}" || code=$?
  ((code == 0 || code == 130)) || probe=$(KEEP='' step_on "$node" 1 --input=none -- true 2>&1) ||
    die 3 "$host: node $node of allocation $JOB does not answer: ${probe##*error: }" \
      "sinfo -n $node; when the allocation has lost it: ./scripts/02_down.sh, then 01_up.sh"
  return "$code"
}

# shellcheck disable=SC2030,SC2031
read_here() ( # <host> [-i] -- <argv>...
  for name in "${!RAY_@}"; do unset "$name"; done
  export MVP_HOST=$1 PATH=$PROJECT/.venv/bin:$PATH
  if [[ $2 == -i ]]; then exec "${@:4}"; else exec "${@:3}" </dev/null; fi
)

read_allocation
# Ask Slurm only when a step has ended: the allocation may have reached its time limit or been cancelled.
if [[ -n $JOB ]] && compgen -G "$STEPS/*/code" >/dev/null; then
  allocation_state=$(job_state)
  [[ $allocation_state == RUNNING* ]] || {
    say "allocation $JOB has ended: $allocation_state"
    NODES=() ADDRESSES=()
  }
fi
