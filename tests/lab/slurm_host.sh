# shellcheck shell=bash
# LAB_SETUP of the Slurm hosts: munged on each, the controller on "control", slurmd on the others. $LAB_DIR/slurm is made before.

slurm=$LAB_DIR/slurm
mkdir -p /run/munge /run/slurmd
chown munge: /run/munge
setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged --socket=/run/munge/munge.socket --key-file="$slurm/munge.key" \
  --pid-file=/run/munge/munged.pid --log-file=/run/munge/munged.log --seed-file=/run/munge/seed --force
if [[ $1 == control ]]; then
  /usr/sbin/slurmctld -f "$slurm/slurm.conf" -c
else
  /usr/sbin/slurmd -f "$slurm/slurm.conf" -N "$1"
fi
