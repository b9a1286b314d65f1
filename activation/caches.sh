# shellcheck shell=bash disable=SC2154 # _smf_* are set by activate.sh
# TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR: this user's alone, one pair for each set of packages.

_smf_make_caches() {
  local base=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}} why="" name root
  root=$base/smforge
  if [[ $base != /* ]]; then
    why="neither XDG_CACHE_HOME nor HOME is a whole path"
  elif [[ $root == *[[:space:]]* ]]; then
    why="$root holds a blank, which breaks g++"
  elif [[ ! -d $root ]]; then # the one process, on the first activation of this user
    (umask 077 && mkdir -p -- "$root") 2>/dev/null || why="$root cannot be made"
  fi
  for name in "" "/i-$_smf_key$_smf_compiler" "/t-$_smf_key$_smf_compiler"; do
    if [[ -z $why && -e $root$name && ! -O $root$name ]]; then
      why="$root$name belongs to somebody else"
    elif [[ -z $why && -e $root$name && ! (-d $root$name && -w $root$name) ]]; then
      why="$root$name is no folder that you can write"
    fi
  done
  if [[ -n $why ]]; then
    _smf_report cache-refused "no compile cache: $why; set XDG_CACHE_HOME to a folder of yours"
    return 0
  fi
  export TORCHINDUCTOR_CACHE_DIR=$root/i-$_smf_key$_smf_compiler
  export TRITON_CACHE_DIR=$root/t-$_smf_key$_smf_compiler
}
