# shellcheck shell=bash
# A real Slurm of three nodes (n1, n2, n3) and a controller, and a cluster file for it: for setup_file. We are its login node.

lacks_slurm() { lacks_commands srun sbatch slurmctld slurmd munged; }

make_slurm_lab() { # <prefix> <subnet>: sets MVP_CLUSTER, SLURM_CONF
  LAB_DIR=$(mktemp -d "${TMPDIR:-/tmp}/mvp-lab.XXXXXX")
  export LAB_DIR LAB_HOSTS='control n1 n2 n3' PATH=$PATH:/usr/sbin:/sbin
  local slurm=$LAB_DIR/slurm
  chmod 755 "$LAB_DIR"
  mkdir -p "$slurm/state"
  head -c 1024 /dev/urandom >"$slurm/munge.key"
  chown munge: "$slurm/munge.key" && chmod 400 "$slurm/munge.key"
  cat >"$slurm/slurm.conf" <<CONF
ClusterName=$1
SlurmctldHost=control($2.1)
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket
SlurmUser=root
StateSaveLocation=$slurm/state
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/run/slurmd
SlurmdLogFile=$slurm/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
ReturnToService=2
MessageTimeout=2
SlurmdTimeout=60
KillWait=5
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=n1 NodeAddr=$2.2 CPUs=4 State=UNKNOWN
NodeName=n2 NodeAddr=$2.3 CPUs=4 State=UNKNOWN
NodeName=n3 NodeAddr=$2.4 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  # From here the same, with the munged of the controller.
  sed "s|socket=/run|socket=$LAB_DIR/control/run|" "$slurm/slurm.conf" >"$slurm/here.conf"
  export SLURM_CONF=$slurm/here.conf
  make_lab "$1" "$2" "$PROJECT/tests/lab/slurm_host.sh"
  wait_for 30 'three idle nodes' nodes_are_idle 3
  export TEST_CLUSTER=$LAB_DIR/$1.yaml MVP_CLUSTER=$LAB_DIR/$1.yaml
  write_cluster_file
}

nodes_are_idle() { # <how many>
  [[ $(in_lab sinfo -h -N -o %T | grep -c idle) == "$1" ]]
}

write_cluster_file() {
  cat >"$MVP_CLUSTER" <<YAML
name: $LAB_PREFIX
host_driver: slurm
shared_root: $LAB_DIR/shared
device: cpu
hosts:
  - {name: head, role: head}
  - {name: worker-0, role: worker}
  - {name: worker-1, role: worker}
worker: {num_cpus: 8, resources: {worker_node: 100}}
slurm: {sbatch: ["--cpus-per-task=2"], pending_timeout_s: 60}
ray: {object_store_mb: 100}
YAML
}

end_slurm_lab() { # for teardown_file
  [[ -z ${MVP_CLUSTER:-} ]] || in_lab "$PROJECT/scripts/02_down.sh" &>/dev/null || true
  rm -rf "$PROJECT/.mvp/$LAB_PREFIX"
  end_lab
}
