# shellcheck shell=bash
# smforge activation for bash, sourced by pixi and by the wheel engine. The contract is README.md
# beside it. Prints nothing, never exits, and starts no process once its cache folder exists.

export SMFORGE_STATUS=aborted SMFORGE_REASON=""

# _smf_report STATUS REASON: the first status stands, every reason is kept. STATUS may be empty.
_smf_report() {
  if [[ -n $1 && $_smf_status == ok ]]; then _smf_status=$1; fi
  SMFORGE_REASON+="${SMFORGE_REASON:+; }${2//[$'\n\r']/ }"
}

_smf_python() {
  local src=${_smf_here%/*}/src
  export PYTHONUTF8=1 PYTHONNOUSERSITE=1
  if [[ ! -d $src/smforge ]]; then return 0; fi
  if [[ ${PYTHONPATH:-$src} != "$src" ]]; then
    _smf_report "" "PYTHONPATH=$PYTHONPATH is left out"
  fi
  export PYTHONPATH=$src
}

_smf_activate() {
  # Of the shell's own settings nothing changes: local - brings its options back.
  local - IFS=$' \t\n' _smf_here=${BASH_SOURCE[0]} _smf_status=ok _smf_found=""
  local _smf_cuda="" _smf_key="" _smf_own="" _smf_compiler="" _smf_helper
  set +fu
  if [[ $_smf_here != /* ]]; then _smf_here=$PWD/$_smf_here; fi
  _smf_here=${_smf_here//\/.\//\/} _smf_here=${_smf_here%/*}
  for _smf_helper in stack compiler toolkit caches; do
    # shellcheck source=/dev/null # each is checked by itself
    . "$_smf_here/$_smf_helper.sh" 2>/dev/null || return
  done
  if _smf_read_stack; then
    _smf_find_compiler && _smf_find_toolkit && _smf_python && _smf_make_caches || return
  else
    _smf_report no-prefix "CONDA_PREFIX=${CONDA_PREFIX-} is no installed environment; run: pixi install"
  fi
  SMFORGE_STATUS=$_smf_status
}

_smf_activate || : # a helper that is missing or broken leaves the status aborted
unset -f _smf_report _smf_python _smf_activate _smf_read_stack _smf_which _smf_choose \
  _smf_find_compiler _smf_check_newest _smf_find_toolkit _smf_shadow _smf_make_caches
