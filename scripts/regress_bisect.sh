#!/usr/bin/env bash
# Find the commit from which on jobs learn less, are slower, or fail another gate: search a git range of verl, or of this project, by
# running jobs. Prints the first bad commit, its difference, and a page that compares the jobs on both sides of it.
#
# usage: ./scripts/regress_bisect.sh --good CODE --bad CODE --spec SPEC [--source DIR] [--gates FILE] [--gate NAME]... [--baseline NAME]
#                                    [--set KEY=VALUE]... [--json] [--cluster NAME|FILE] [--dry-run]
#
# First the two ends are tested; then the commit that halves the rest (git rev-list --bisect), about log2(n) of n commits. A test
# is a job with the commit's code and its own job folder; the gates judge it as 54_verify.sh --gates does. Between the ends only the
# gates count that the bad end fails. A commit is skipped when its code cannot be used, or its job does not succeed. The work tree,
# index and refs of the repository stay as they are, and so does common/code/verl/current.
#
# Ctrl-C or a lost connection lose nothing: the same command continues the search (common/bisect/<name>/ on the shared root), and
# follows a job that still runs. When the search has ended it prints the result again. A cluster that this script started is stopped at
# the end; KEEP=1 keeps it. CLUSTER names the cluster as --cluster does.
#
#   --good CODE        a commit (its hash, a tag or a branch) whose jobs pass, or the path of a snapshot that 31 took of a git checkout
#   --bad CODE         a commit that contains it, and whose jobs fail a gate
#   --spec SPEC        the JobSpec of every job; its code_path and submission_id are replaced (of this project's range: only the latter)
#   --source DIR       the repository, a checkout or a bare one, as the head sees it; default: that of the snapshots, or the path in the
#                      cluster file's "code". Commits that contain lib/mvp_helpers/ are of this project: their toolkit runs the jobs
#   --gates FILE       judge by these gates instead of templates/gates/<workload>.yaml
#   --gate NAME        judge by this gate alone; may be repeated
#   --baseline NAME    the recorded runs (56_report.sh --baseline) of relative gates; by default the good end is run three times for them
#   --set KEY=VALUE    add a trainer override, for example fewer steps; may be repeated
#   --json             print the result as one JSON object
#
# exit codes: 0 found, 1 only commits that cannot be run are left, and one of them may be it, 2 bad input; also when the good end fails a
# gate or the bad end passes all, 3 blocked, for example an end whose job does not succeed
#
# examples:
#   ./scripts/regress_bisect.sh --source ~/verl --good v0.9.0 --bad main --spec templates/ppo.json --gate learning
#   ./scripts/regress_bisect.sh --source ~/verl --good 1a2b3c4 --bad main --spec my.json --gates my_gates.yaml --dry-run
#   ./scripts/regress_bisect.sh --source . --good v1.0 --bad HEAD --spec templates/sft.json --gate start
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/regression.sh
source "$SCRIPTS/lib/regression.sh"
parse_options '--good= --bad= --spec= --source= --gates= --gate= --baseline= --set= --json' "$@"
for option in --good --bad --spec; do given "$option" || bad_usage "$option is missing"; done
spec=$(value_of --spec) gates=$(value_of --gates) words=()
for word in "${OPTS[@]}"; do [[ $word == --spec=* || $word == --gates=* ]] || words+=("$word"); done
[[ -z $gates || (-f $gates && -r $gates) ]] || die 2 "cannot read the gates $gates: not a readable file" 'a copy of templates/gates/ppo.yaml'
[[ -z $gates ]] || words+=("--gates-text=$(<"$gates")")

bisection() { # [--dry-run]: its JobSpec goes through stdin, because it may name secrets of this environment
  "$PYTHON" -m mvp_helpers pack-spec --spec-name "$spec" <"$file" |
    helper_for_plan -i bisect --packed --spec-name "$spec" "${words[@]}" "$@" || exit # the message was printed in the pipe
}

if [[ -z $DRY_RUN && -x $PROJECT/.venv/bin/python ]]; then # with a running head, report a mistake before anything starts
  load_cluster
  find_spec "$spec"
  ! answers "$HEAD" || (bisection --dry-run >/dev/null) || exit
fi
start_regression
step 30_prepare_data_and_model.sh >&2
find_spec "$spec"
bisection ${DRY_RUN:+--dry-run}
