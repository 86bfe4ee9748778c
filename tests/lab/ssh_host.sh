# shellcheck shell=bash
# LAB_SETUP of the ssh hosts: this project is not there (but its interpreter is), rc files do what users' rc files do, sshd runs.

project=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/../.." && pwd)
mkdir /run/venv
mount --bind "$project/.venv" /run/venv
mount -t tmpfs tmpfs "$project"
mkdir "$project/.venv"
mount --move /run/venv "$project/.venv" 2>/dev/null || mount --bind /run/venv "$project/.venv"

# As Debian has it: the host's own name is a loopback address, where no other host reaches what listens at it.
{ echo "127.0.1.1 $1" && cat /etc/hosts; } >/run/hosts
mount --bind /run/hosts /etc/hosts

cd ~ || exit
mkdir -p bin .ssh
printf '#!/bin/sh\necho "the wrong interpreter" >&2\nexit 66\n' >bin/python3
chmod +x bin/python3
cp bin/python3 bin/python
cat >.bashrc <<'RC'
export PATH=~/bin:$PATH RAY_ADDRESS=http://192.0.2.9:8265 PYTHONPATH=/nonexistent
alias python=false
RC
cp "$LAB_DIR/id.pub" .ssh/authorized_keys
cp "$LAB_DIR/id" .ssh/id_ed25519 # from here to the others
printf 'StrictHostKeyChecking accept-new\n' >.ssh/config
chmod 700 ~ .ssh && chmod 600 .ssh/*
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f /run/hostkey
cat >/run/sshd_config <<'CONF'
Port 22
HostKey /run/hostkey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile /run/sshd.pid
PrintMotd no
CONF
/usr/sbin/sshd -f /run/sshd_config -E /run/sshd.log
