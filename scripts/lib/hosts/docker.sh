# shellcheck shell=bash
# Host driver "docker": a host is a container of a compose project on this machine, named after its service.
#
# Running containers are not changed: a new image or setting takes effect after 02_down.sh. Containers run as the user who starts the
# script, also through sudo.

# shellcheck disable=SC2034 # for 02_down.sh: what runs in a container ends with it
DOWN_ENDS_RAY=1

find_containers() { # set CONTAINERS, CONTAINER_IPS, IMAGES and IMAGE_IDS of the project's running containers, by host
  local out ids host id image image_id ip
  declare -gA CONTAINERS=() CONTAINER_IPS=() IMAGES=() IMAGE_IDS=()
  command -v docker >/dev/null || [[ -z $DRY_RUN ]] || return 0 # a dry run needs no docker
  command -v docker >/dev/null || die 3 'docker is not installed on this machine' 'https://docs.docker.com/engine/install, or --cluster local'
  out=$(docker ps -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT" 2>&1) || { [[ -z $DRY_RUN ]] || return 0 && explain "docker ps" "$out"; }
  mapfile -t ids <<<"$out"
  [[ -n $out ]] || return 0
  while read -r host id image image_id ip _; do
    [[ -n $ip && " ${HOSTS[*]} " == *" $host "* ]] || continue # it has just ended, or is not one of the hosts
    CONTAINERS[$host]=$id CONTAINER_IPS[$host]=$ip IMAGES[$host]=$image IMAGE_IDS[$host]=$image_id
  done < <(docker inspect --format '{{index .Config.Labels "com.docker.compose.service"}} {{.Id}} {{.Config.Image}} {{.Image}}
    {{- range .NetworkSettings.Networks}} {{.IPAddress}}{{end}}' "${ids[@]}" 2>/dev/null)
}

explain() { # <command> <its output>: end with a message and a hint for the cause
  local what=${2%$'\n'} line
  line=${what##*$'\n'}
  shopt -s nocasematch
  case $what in
    *'permission denied'*docker*sock* | *docker*sock*'permission denied'*)
      die 3 "user $(id -un) may not use docker's socket" "sudo usermod -aG docker $(id -un) and a new login, or the script with sudo"
      ;;
    *'cannot connect to the docker daemon'* | *'is the docker daemon running'* | *"failed to connect to the docker API"*)
      die 3 "no docker daemon answers${DOCKER_HOST:+ at $DOCKER_HOST}" 'sudo systemctl start docker'
      ;;
    *'runtime name'*nvidia* | *'unknown runtime'*nvidia* | *nvidia-container-runtime*'not found'*)
      die 3 "docker has no GPU runtime 'nvidia'" \
        "install NVIDIA's container toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker; without GPUs: --cluster dev-cpu"
      ;;
    *'unknown device'* | *'unresolvable CDI devices'*)
      die 3 "this machine lacks a GPU that a worker asks for (MVP_GPUS_0=${MVP_GPUS_0:-0,1,2,3} MVP_GPUS_1=${MVP_GPUS_1:-4,5,6,7}): $line" \
        'nvidia-smi -L lists them; for example MVP_GPUS_0=0 MVP_GPUS_1=1'
      ;;
    *nvidia-container-cli*) die 3 "the NVIDIA driver does not work for containers: $line" 'nvidia-smi, as root, on this machine' ;;
    *'container name'*'already in use'*)
      line=${what#*container name \"/}
      die 3 "a container that is not this cluster's has the name ${line%%\"*}" "docker rm -f ${line%%\"*}, when nobody needs it"
      ;;
    *'port is already allocated'* | *'address already in use'*)
      die 3 "a port that the compose files publish is taken: $line" 'another port in your compose file, or end the process that holds it'
      ;;
  esac
  die 3 "$1: $what"
}

find_compose() { # set COMPOSE to the command with project and files
  local file files=("${COMPOSE_FILES[@]}")
  if docker compose version &>/dev/null; then
    COMPOSE=(docker compose)
  elif command -v docker-compose >/dev/null; then
    COMPOSE=(docker-compose)
    without_names
  else
    die 3 'docker compose is not installed' "install the package docker-compose-plugin (v2) or docker-compose (1.29)"
  fi
  COMPOSE+=(-p "$COMPOSE_PROJECT" --project-directory "$PROJECT")
  for file in "${files[@]}"; do COMPOSE+=(-f "$file"); done
}

without_names() { # compose 1.29 refuses a project's name in a file: set files to copies without it
  local at copies=$PROJECT/.mvp/$CLUSTER_NAME/compose-1.29
  mkdir -p "$copies"
  for at in "${!files[@]}"; do
    sed '/^name:/d' "${files[at]}" >"$copies/$at.yaml" || die 2 "cannot read the compose file ${files[at]}" "docker.compose in $MVP_CLUSTER"
    files[at]=$copies/$at.yaml
  done
}

check_gpus() { # the ids in MVP_GPUS_0 and MVP_GPUS_1: of GPUs that this machine has, each for one worker
  local here name other id
  [[ -n ${MVP_GPUS_0:-}${MVP_GPUS_1:-} ]] || return 0
  mapfile -t here < <({ nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null || true; } | sed -n '/^[0-9]\+$/p')
  for name in MVP_GPUS_0 MVP_GPUS_1; do
    [[ ${!name:-} == @(|all|none|void) ]] && continue
    other=MVP_GPUS_$((1 - ${name: -1}))
    while IFS= read -r id; do
      [[ $id =~ ^([0-9]+(:[0-9]+)?|(GPU|MIG)-[0-9A-Za-z/-]+)$ ]] ||
        die 2 "$name=${!name}: '$id' is not a GPU id" "ids separated by commas, as nvidia-smi -L lists them: $name=0,1"
      [[ ! $id =~ ^[0-9]+$ || ${#here[@]} == 0 || " ${here[*]} " == *" $id "* ]] ||
        die 2 "$name=${!name}: this machine has no GPU $id; it has ${here[*]}" "$name=${here[0]}"
      [[ ,${!other:-}, != *",$id,"* ]] || die 2 "GPU $id is in MVP_GPUS_0 and in MVP_GPUS_1" 'give each GPU to one worker only'
    done < <(tr , '\n' <<<"${!name}")
  done
}

name_invoker() { # export for the compose files the user that the containers run as, and the shared folder
  export MVP_UID=$EUID MVP_GID MVP_USER MVP_SHARED_DIR
  MVP_GID=$(id -g) MVP_USER=$(id -un)
  # shellcheck disable=SC2153 # sudo's own names
  ((EUID)) || [[ -z ${SUDO_UID:-} ]] || MVP_UID=$SUDO_UID MVP_GID=$SUDO_GID MVP_USER=$SUDO_USER
  MVP_SHARED_DIR=$(realpath -m "${MVP_SHARED_DIR:-$PROJECT/.mvp/$CLUSTER_NAME}")
}

share_gpus() { # export MVP_GPUS_0, MVP_GPUS_1 … for the compose files: this machine's GPUs, where you have not set them
  local at name chosen=() assignments
  for at in "${!WORKERS[@]}"; do name=MVP_GPUS_$at && chosen+=("${!name:-}"); done
  assignments=$("$PYTHON" -m mvp_helpers share-gpus "${chosen[@]}") || exit
  set -a
  eval "$assignments"
  set +a
}

make_shared_folder() { # as the invoker, because docker would create it as root
  local as=()
  ((EUID)) || as=(setpriv --reuid "$MVP_UID" --regid "$MVP_GID" --clear-groups)
  { "${as[@]}" mkdir -p "$MVP_SHARED_DIR" && "${as[@]}" test -w "$MVP_SHARED_DIR"; } 2>/dev/null ||
    die 3 "$MVP_USER cannot write the shared folder $MVP_SHARED_DIR" "MVP_SHARED_DIR=<a folder of $MVP_USER's>"
}

start_containers() {
  local image host out old before=${#CONTAINERS[@]}
  old=$(docker ps --filter name='^/?mvp-ray-(head|worker-[0-9]+)$' --format '{{.Names}}')
  [[ -z $old ]] || die 3 "containers of version 1 run: ${old//$'\n'/, }" './scripts/03_cleanup_v1_legacy.sh'
  find_compose
  name_invoker
  check_gpus
  make_shared_folder
  share_gpus
  out=$("${COMPOSE[@]}" config 2>&1) || explain "${COMPOSE[*]} config" "$out"
  while read -r image; do
    docker image inspect "$image" &>/dev/null || {
      say "image $image is not on this machine: pulling it"
      docker pull "$image" >&2 || die 3 "image $image is not on this machine and cannot be pulled" 'MVP_IMAGE=<an image with Ray and verl>, or docker load'
    }
  done < <(sed -n 's/^ *image: *//p' <<<"$out" | sort -u)
  out=$("${COMPOSE[@]}" up -d --no-recreate 2>&1) || {
    ((before)) || hosts_down
    explain "${COMPOSE[*]} up" "$out"
  }
  find_containers
  for host in "${HOSTS[@]}"; do
    [[ -n ${CONTAINERS[$host]:-} ]] || die 3 "the container of $host does not stay up" "${COMPOSE[*]} logs $host"
    docker exec "${CONTAINERS[$host]}" bash -c 'command -v -- "$1"' - "$CLUSTER_PYTHON" &>/dev/null || {
      ((before)) || hosts_down
      die 3 "image ${IMAGES[$host]} of $host lacks bash, or the interpreter $CLUSTER_PYTHON (python in the cluster file)" \
        'MVP_IMAGE=<an image with Ray and verl> ./scripts/01_up.sh'
    }
  done
  # shellcheck disable=SC2034 # for locate_hosts: a started container may have another address than before
  HOST_IPS=("${HOSTS[@]//*/}")
}

hosts_up() {
  local host
  ((${#CONTAINERS[@]} == ${#HOSTS[@]})) || start_containers
  for host in "${HOSTS[@]}"; do
    [[ ${IMAGES[$host]} == "${MVP_IMAGE:-${IMAGES[$host]}}" ]] ||
      die 3 "$host runs image ${IMAGES[$host]}, not MVP_IMAGE=$MVP_IMAGE" "./scripts/02_down.sh --cluster $MVP_CLUSTER, then 01_up.sh"
    [[ $NETWORK_INTERFACE == auto ]] || host_ip "$host" >/dev/null || exit 3
  done
}

hosts_down() {
  local out
  find_compose
  name_invoker
  out=$("${COMPOSE[@]}" down -t 3 2>&1) || explain "${COMPOSE[*]} down" "$out"
}

hosts_list() { printf '%s\n' "${HOSTS[@]}"; }

host_ip() { # <host>
  [[ -n ${CONTAINER_IPS[$1]:-} ]] || return 3
  if [[ $NETWORK_INTERFACE == auto ]]; then
    printf '%s\n' "${CONTAINER_IPS[$1]}"
  else
    helper_on "$1" own-address || return 1
  fi
}

# In the container. $1: the quoted words, in ASCII because docker passes on only UTF-8.
# shellcheck disable=SC2016
IN_CONTAINER='unset "${!RAY_@}"; eval "exec -- $1"'

host_exec() {              # <host> [-i] -- <argv>...
  (exec_in_container "$@") # a subshell, because it sets traps
}

exec_in_container() { # as host_exec; exits the shell it is called in
  local host=$1 container=${CONTAINERS[$1]:-} mark=$BASHPID.$EPOCHREALTIME code=0 words stdin=() client
  [[ -n $container ]] || die 3 "$host: its container does not run" "./scripts/01_up.sh --cluster $MVP_CLUSTER"
  shift
  [[ $1 != -i ]] || { stdin=(-i) && shift; }
  LC_ALL=C printf -v words ' %q' "${@:2}"
  trap 'pass_on INT 130' INT
  trap 'pass_on TERM 143' TERM
  # In a session of its own: at Ctrl-C docker's client would exit at once, while the command in the container still has to clean up.
  setsid docker exec "${stdin[@]}" -e MVP_EXEC="$mark" -e MVP_HOST="$host" -e MVP_HOST_IP="${CONTAINER_IPS[$host]}" -e MVP_CLUSTER_JSON \
    -e MVP_IMAGE_ID="${IMAGE_IDS[$host]}" -e PYTHONPATH="$TOOLS_DIR/lib" "$container" bash -c "$IN_CONTAINER" "$host" "$words" <&0 &
  client=$!
  wait "$client" || code=$?
  # The reader of the output is gone: end the writer too.
  ((code != 128 + 13)) || docker exec "$container" sh -c "$END_MARKED" mvp PIPE "$mark" || true
  ((code == 0)) || [[ -n $(docker ps -q --no-trunc --filter "id=$container") ]] ||
    die 3 "$host: its container no longer runs" "./scripts/01_up.sh --cluster $MVP_CLUSTER"
  exit "$code"
}

pass_on() { # <signal> <exit code>: trap of exec_in_container; exits when no process of its command is left in the container
  trap '' INT TERM
  while kill -0 "$client" 2>/dev/null; do # docker may not have started it yet
    docker exec "$container" sh -c "$END_MARKED" mvp "$1" "$mark" || break
  done
  exit "$2"
}

if [[ -z $DRY_RUN ]] || (find_containers) &>/dev/null; then
  find_containers
else # a dry run needs no docker
  declare -gA CONTAINERS=() CONTAINER_IPS=() IMAGES=() IMAGE_IDS=()
fi
