# shellcheck shell=bash
# Tab completion of the numbered scripts for bash: options, clusters, job ids (newest first), levels, variants, JobSpecs.
#
# usage: source scripts/completion.bash      for good: source /path/to/scripts/completion.bash in ~/.bashrc
#
# Everything is read from the project's files by bash alone: a script's options from its own parse_options line. Job ids are
# offered where this machine sees the shared root.

_MVP_PROJECT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
_MVP_MOST_IDS=50

_mvp_complete() { # as bash calls it: fills COMPREPLY from COMP_WORDS and COMP_CWORD
  local script=$_MVP_PROJECT/scripts/${COMP_WORDS[0]##*/} cur=${COMP_WORDS[COMP_CWORD]} option='' head='' spec
  COMPREPLY=()
  [[ -r $script ]] || return 0
  spec=" $(_mvp_spec "$script") --cluster= --dry-run --help "
  # "=" separates words for bash, unless COMP_WORDBREAKS was changed.
  if [[ $cur == '=' ]]; then
    option=${COMP_WORDS[COMP_CWORD - 1]} cur=''
  elif ((COMP_CWORD > 2)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == '=' ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $cur == --*=* ]]; then
    option=${cur%%=*} head=$option= cur=${cur#*=}
  elif ((COMP_CWORD > 1)); then
    option=${COMP_WORDS[COMP_CWORD - 1]}
  fi
  if [[ $option == -* && $spec == *" $option= "* ]]; then
    _mvp_value "$option"
  elif [[ $cur == -* ]]; then
    _mvp_words "${spec//=/}"
    _mvp_only_options
  else
    _mvp_argument
  fi
  [[ -z $head ]] || COMPREPLY=("${COMPREPLY[@]/#/$head}")
}

_mvp_spec() { # <script>: its own options and arguments, as in its parse_options line
  local line own='' spec=''
  while IFS= read -r line; do
    case $line in
      "own='"*) own=${line#*\'} own=${own%%\'*} ;;
      'parse_options '*)
        spec=${line#parse_options ?} spec=${spec%%[\"\']*}
        printf '%s' "${spec//\$own/$own}"
        return
        ;;
    esac
  done <"$1"
}

_mvp_words() { # <words>: those that begin with cur
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_mvp_only_options() {
  local word options=()
  for word in "${COMPREPLY[@]}"; do [[ $word != -* ]] || options+=("$word"); done
  COMPREPLY=("${options[@]}")
}

_mvp_files() { # <ending>...: adds such files that begin with cur; folders too when it is not empty
  local ending found=()
  compopt -o filenames 2>/dev/null
  for ending; do
    mapfile -t found < <(compgen -f -X "!*.$ending" -- "$cur")
    COMPREPLY+=("${found[@]}")
  done
  [[ -n $cur ]] || return 0
  mapfile -t found < <(compgen -d -- "$cur")
  COMPREPLY+=("${found[@]}")
}

_mvp_given() { # <option> [<else>]: its value on the command line
  local at value=${2-}
  for ((at = 1; at < ${#COMP_WORDS[@]} - 1; at++)); do
    ((at != COMP_CWORD)) || continue
    case ${COMP_WORDS[at]} in
      "$1"=*) value=${COMP_WORDS[at]#*=} ;;
      "$1") [[ ${COMP_WORDS[at + 1]} == '=' ]] && value=${COMP_WORDS[at + 2]-} || value=${COMP_WORDS[at + 1]} ;;
    esac
  done
  printf '%s' "$value"
}

_mvp_value() { # <option>: the values of an option; none where any file or word will do
  case $1 in
    --cluster)
      _mvp_words "$(_mvp_stems "$_MVP_PROJECT"/templates/ray/*.yaml)"
      ((${#COMPREPLY[@]})) || _mvp_files yaml
      ;;
    --follow) _mvp_job_ids ;;
    --rescore) _mvp_files py ;;
    --spec) _mvp_jobspecs ;;
    --gates) _mvp_files yaml ;;
    --level | --variant) _mvp_levels "$1" ;;
    --description)
      _mvp_words "$(_mvp_stems "$_MVP_PROJECT"/templates/e2e/*.yaml)"
      ((${#COMPREPLY[@]})) || _mvp_files yaml
      ;;
    --via) _mvp_words "$(_mvp_keys "$_MVP_PROJECT/templates/launchers.yaml" ways) ray" ;;
    --resume) _mvp_newest_first "$(_mvp_given --runs-dir "$_MVP_PROJECT/.mvp/e2e")"/*-[0-9]*-*/ ;;
  esac
}

_mvp_argument() { # job ids and JobSpecs for the scripts that take them
  case $spec in
    *' ID|LOG '*)
      _mvp_job_ids
      [[ -z $cur ]] || _mvp_files log out txt
      ;;
    *' ID '* | *' [ID] '* | *' ID... '*) _mvp_job_ids ;;
    *' COMMAND... '*) _mvp_ray_commands ;;
    *' SPEC '*) _mvp_jobspecs ;;
  esac
}

_mvp_ray_commands() { # Ray's commands that ask, and the subcommands of those that have some
  case ${COMP_WORDS[COMP_CWORD - 1]} in
    job) _mvp_words 'list logs status stop submit' ;;
    list) _mvp_words 'actors cluster-events jobs nodes objects placement-groups runtime-envs tasks workers' ;;
    summary) _mvp_words 'actors objects tasks' ;;
    *) _mvp_words 'get job list logs memory stack status summary timeline' ;;
  esac
}

_mvp_stems() { # <file>...: their names without folder and ending
  local file
  for file; do
    file=${file##*/}
    printf '%s ' "${file%.*}"
  done
}

_mvp_jobspecs() { # the templates, by a path from here, and any file of that kind
  local path templates=${_MVP_PROJECT#"$PWD"/}/templates
  [[ $PWD != "$_MVP_PROJECT" ]] || templates=templates
  if [[ -z $cur ]]; then
    compopt -o filenames 2>/dev/null
    for path in "$templates"/*.{json,yaml}; do
      [[ ! -e ${path%.*}.json || $path == *.schema.json ]] || COMPREPLY+=("$path")
    done
  fi
  _mvp_files json yaml
}

_mvp_keys() { # <YAML file> <key>: the names below a key at the margin
  local line inside=''
  while IFS= read -r line; do
    [[ $line != [a-z]* ]] || inside=''
    [[ $line != "$2:"* ]] || inside=1
    [[ -z $inside || ! $line =~ ^'  '([a-z0-9.-]+): ]] || printf '%s ' "${BASH_REMATCH[1]}"
  done <"$1"
}

_mvp_levels() { # <--level | --variant>: of the procedure that --description names
  local file number='' variants=() line inside='' key='' names='' chosen before=''
  [[ ${COMP_WORDS[0]} == *61_* ]] && file=nemo-rl || file=verl
  file=$(_mvp_given --description "$file")
  [[ $file == *.yaml ]] || file=$_MVP_PROJECT/templates/e2e/$file.yaml
  [[ -r $file ]] || return 0
  if [[ $1 == --level ]]; then
    names=$(_mvp_keys "$file" levels)
  else
    chosen=,$(_mvp_given --level),
    while IFS= read -r line; do
      [[ $line != [a-z]* ]] || inside=''
      [[ $line != levels:* ]] || inside=1
      if [[ $inside && $line =~ ^'  '([0-9]+): ]]; then
        ((${#variants[@]} < 2)) || names+=" ${variants[*]}" # a single variant needs no choice
        variants=() number=${BASH_REMATCH[1]}
      elif [[ $inside && $line =~ ^'    '([a-z_]+): ]]; then
        key=${BASH_REMATCH[1]}
      elif [[ $inside && $key == variants && $line =~ ^'      '([a-z0-9-]+): && ($chosen == ,, || $chosen == *,$number,*) ]]; then
        variants+=("${BASH_REMATCH[1]}")
      fi
    done <"$file"
    ((${#variants[@]} < 2)) || names+=" ${variants[*]}"
  fi
  [[ $cur != *,* ]] || before=${cur%,*},
  cur=${cur##*,}
  _mvp_words "$names"
  COMPREPLY=("${COMPREPLY[@]/#/$before}")
}

_mvp_shared_root() { # where this machine sees the shared root of the chosen cluster
  local file line root='' driver='' default
  file=$(_mvp_given --cluster "${MVP_CLUSTER:-local}")
  [[ $file == */* || $file == *.yaml ]] || file=$_MVP_PROJECT/templates/ray/$file.yaml
  [[ -r $file ]] || return 1
  while IFS= read -r line; do
    case $line in
      'shared_root: '*) root=${line#* } ;;
      'host_driver: '*) driver=${line#* } ;;
    esac
  done <"$file"
  # shellcheck disable=SC2016 # as the file has it
  if [[ $root == '${MVP_SHARED_ROOT:-'*'}' ]]; then
    default=${root#*:-}
    root=${MVP_SHARED_ROOT:-${default%\}}}
  fi
  [[ $driver != docker ]] || root=${MVP_SHARED_DIR:-.mvp/dev} # what docker-compose.yaml mounts
  [[ $root == /* ]] || root=$_MVP_PROJECT/${root#./}
  printf '%s' "$root"
}

_mvp_job_ids() { # the newest ids that begin with cur and are not on the command line yet
  local root
  root=$(_mvp_shared_root) || return 0
  _mvp_newest_first "$root"/jobs/.index/*_*
}

_mvp_newest_first() { # <path>...: whose names sort by time; of an index entry only the id behind its time
  local at path name
  compopt -o nosort 2>/dev/null # they are in order
  for ((at = $#; at > 0 && ${#COMPREPLY[@]} < _MVP_MOST_IDS; at--)); do
    path=${!at} name=${path%/}
    name=${name##*/}
    if [[ $path == */.index/* ]]; then
      name=${name#*_}
      [[ -d ${path%/.index/*}/$name ]] || continue # the name of a job folder that was removed stays in the index
    fi
    [[ $name == "$cur"* && $name != *'*'* && " ${COMP_WORDS[*]:1} " != *" $name "* ]] || continue
    COMPREPLY+=("$name")
  done
}

_mvp_register() {
  local script
  for script in "$_MVP_PROJECT"/scripts/{[0-9][0-9]_*,ray,regress_bisect}.sh; do
    complete -o default -F _mvp_complete "${script##*/}" # also for ./scripts/NAME and any other path to it
  done
}
_mvp_register
