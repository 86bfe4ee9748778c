#!/usr/bin/env bats
# Bisection with verl's own trainer over histories with planted regressions: the reward's sign, the speed of a step; and of this project.

# long: real trainers, one after another

load helpers

setup_file() {
  make_job_cluster bisect 79 790
  01_up.sh && 30_prepare_data_and_model.sh
  cat >"$FOLDER/reward.yaml" <<'YAML'
workload: ppo
gates:
  reward:
    subject: learning
    expect: mean(data["critic/score/mean"]) > 0
    why: a share of digits is never negative
YAML
  cat >"$FOLDER/speed.yaml" <<'YAML'
workload: grpo
gates:
  step-time:
    subject: throughput
    expect: median(data["perf/time_per_step"], range_start=2) <= 2 * baseline + 3 * spread
    why: a step after the first, which warms up, takes no longer than at the good end
    hardware: true
YAML
}

teardown_file() {
  end_cluster
}

commit() { # <repository> <subject>: prints nothing
  git -C "$1" add --all
  git -C "$1" -c user.name=a -c user.email=a@b commit --quiet --allow-empty --message "$2"
}

plant() { # <repository> <file> <sed script>: fails when it changes nothing
  sed -i "$3" "$1/$2"
  ! git -C "$1" diff --quiet || fail "nothing was planted in $2"
}

make_history() { # VERL: a good commit, then harmless, slow, broken, whole again, reward turned, harmless
  VERL=$FOLDER/verl
  [[ ! -d $VERL ]] || return 0
  local trainer=verl/trainer/ppo/v1/trainer_base.py
  mkdir "$VERL"
  cp -r "$(python -c 'import importlib.util as u; print(u.find_spec("verl").submodule_search_locations[0])')" "$VERL/verl"
  find "$VERL" -name __pycache__ -prune -exec rm -r {} +
  git -C "$VERL" init --quiet --initial-branch=main
  commit "$VERL" 'start'
  git -C "$VERL" tag good
  printf '# harmless\n' >>"$VERL/verl/protocol.py"
  commit "$VERL" 'add a comment'
  plant "$VERL" $trainer 's/^\( *\)self.on_step_begin()$/&\n\1time.sleep(20)/; 1i import time'
  commit "$VERL" 'wait for a logger'
  git -C "$VERL" tag slow
  printf 'import no_such_module\n' >>"$VERL/verl/__init__.py"
  commit "$VERL" 'split a module'
  git -C "$VERL" checkout --quiet HEAD~2 -- verl/__init__.py
  plant "$VERL" $trainer '/time.sleep(20)/d'
  commit "$VERL" 'add the module'
  plant "$VERL" $trainer 's/\["token_level_scores"\] = \(data[a-z.]*\["rm_scores"\]\)/["token_level_scores"] = -\1/'
  commit "$VERL" 'rename a field'
  git -C "$VERL" tag turned
  printf '# harmless\n' >>"$VERL/verl/protocol.py"
  commit "$VERL" 'add another comment'
}

state_of_repository() { # <repository>
  git -C "$1" for-each-ref
  git -C "$1" rev-parse HEAD
  git -C "$1" status --porcelain
}

bisect() { # <repository> <good> <bad> <gate file> [<option>...]: WORKLOAD (default ppo)
  regress_bisect.sh --source "$1" --good "$2" --bad "$3" --spec "$PROJECT/templates/${WORKLOAD:-ppo}.json" --gates "$4" --json \
    --set trainer.total_training_steps=2 --set trainer.save_freq=-1 "${@:5}"
}

field() { # <Python expression of found>: of the JSON in output
  python -c 'import json, sys; found = json.loads(sys.argv[1]); print(eval(sys.argv[2]))' "$output" "$1"
}

jobs_begun() { # <number>: whether that many jobs of bisections have been claimed
  (($(find "$JOBS" -maxdepth 1 -name 'bisect-*' | wc -l) >= $1))
}

assert_found() { # <repository> <revision>: it is the first bad commit, with its difference and a comparison page
  assert_status 0
  printf '# %s\n' "$(grep -E '^(step|good end|bad end|  (good|bad|skipped))' <<<"$stderr")" >&3
  [[ $(field 'found["first_bad"]["commit"]') == "$(git -C "$1" rev-parse "$2")" ]] || fail 'another commit'
  [[ -s $(field 'found["page"]') ]] || fail 'no page'
  grep -q '^[-+]' "$(field 'found["diff"]')" || fail 'no difference'
}

# bats test_tags=nightly
@test "the commit that turned the reward's sign is found, past one that cannot be imported, by a search that was killed" {
  make_history
  before=$(state_of_repository "$VERL")
  setsid regress_bisect.sh --source "$VERL" --good good --bad main --spec "$PROJECT/templates/ppo.json" --gates "$FOLDER/reward.yaml" --json \
    --set trainer.total_training_steps=2 --set trainer.save_freq=-1 &>"$FOLDER/killed.log" &
  search=$!
  wait_for 400 'the third job' jobs_begun 3 || fail "$(<"$FOLDER/killed.log")"
  kill -KILL -- "-$search"
  wait "$search" || true
  ended=$(grep -l '"state": "SUCCEEDED"' "$JOBS"/bisect-*/result.json | wc -l)
  run --separate-stderr bisect "$VERL" good main "$FOLDER/reward.yaml"
  assert_found "$VERL" turned
  ((ended == 2)) || fail "$ended jobs had ended before the search was killed"
  [[ $(field '[len(step["jobs"]) for step in found["steps"][:2]]') == '[1, 1]' ]] || fail 'the ends were run again'
  [[ $(field '[step["subject"] for step in found["steps"] if step["verdict"] == "skipped"]') == "['split a module']" ]] || fail 'skipped others'
  [[ $(state_of_repository "$VERL") == "$before" ]] || fail 'the repository changed'
  begun=$(find "$JOBS" -maxdepth 1 -name 'bisect-*' | wc -l)
  run --separate-stderr bisect "$VERL" good main "$FOLDER/reward.yaml"
  assert_found "$VERL" turned
  [[ $(find "$JOBS" -maxdepth 1 -name 'bisect-*' | wc -l) == "$begun" ]] || fail 'an ended search ran jobs'
}

# bats test_tags=nightly
@test "the commit that made steps slower is found, with three runs of the good end as the baseline" {
  make_history
  WORKLOAD=grpo run --separate-stderr bisect "$VERL" good slow "$FOLDER/speed.yaml"
  assert_found "$VERL" slow
  [[ $(field 'len(found["steps"][0]["judged"])') == 3 ]] || fail 'the good end was not run three times'
}

# bats test_tags=nightly
@test "a commit of this project that spoils the reward is found" {
  31_snapshot_verl_code.sh
  mkdir "$FOLDER/toolkit" && cp -r "$PROJECT/lib" "$PROJECT/templates" "$PROJECT/pyproject.toml" "$FOLDER/toolkit"
  find "$FOLDER/toolkit" -name __pycache__ -prune -exec rm -r {} +
  git -C "$FOLDER/toolkit" init --quiet --initial-branch=main
  commit "$FOLDER/toolkit" 'start'
  git -C "$FOLDER/toolkit" tag good
  printf '# harmless\n' >>"$FOLDER/toolkit/lib/mvp_verl/digits.py"
  commit "$FOLDER/toolkit" 'add a comment'
  plant "$FOLDER/toolkit" lib/mvp_verl/digits.py 's/^    return /    return -1.0 * /'
  commit "$FOLDER/toolkit" 'change the reward'
  run --separate-stderr bisect "$FOLDER/toolkit" good main "$FOLDER/reward.yaml"
  assert_found "$FOLDER/toolkit" main
}
