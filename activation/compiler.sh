# shellcheck shell=bash disable=SC2154 # _smf_* are set by activate.sh
# The host compiler: CC and CXX. _smf_own is the environment's, _smf_compiler what it is keyed by.

# _smf_which NAME: true when NAME is a program; _smf_found is its path.
_smf_which() {
  local - dir IFS=:
  set -f
  _smf_found=""
  if [[ $1 == */* ]]; then
    if [[ -f $1 && -x $1 ]]; then _smf_found=$1; fi
  else
    for dir in $PATH; do
      if [[ -f $dir/$1 && -x $dir/$1 ]]; then _smf_found=$dir/$1 && break; fi
    done
  fi
  [[ -n $_smf_found ]]
}

# _smf_choose VARIABLE OWN SYSTEM: OWN where the environment has one; else the variable as it came
# where it names a program; else SYSTEM from PATH, and the variable stays unset where it was.
_smf_choose() {
  local value=${!1-} put=$2 why="names no program"
  if _smf_which "${value:-/}"; then
    if [[ -z $put || $value == "$CONDA_PREFIX"/bin/* ]]; then return; fi
    why="is not this environment's"
  elif [[ -d $value ]]; then
    why="is a folder"
  elif [[ $value == *[[:space:]\;]* ]]; then
    why="is a list, not one program"
  fi
  if [[ -z $put ]] && _smf_which "$3"; then put=$_smf_found; fi
  if [[ -n $value && -n $put ]]; then
    _smf_report "" "$1=$value $why, $put is used"
  elif [[ -n $value ]]; then
    _smf_report bad-cc "$1=$value $why, and there is no $3 to take instead; run: unset $1"
  elif [[ -z $put ]]; then
    _smf_report no-gcc "no $3: Triton's launcher, torch.compile on the CPU and extensions need it;\
 install the system's gcc and g++"
  fi
  if [[ -n $put && -n $value$2 ]]; then export "$1=$put"; fi
}

_smf_find_compiler() {
  local prefix=$CONDA_PREFIX/bin/x86_64-conda-linux-gnu folder
  if [[ -x $prefix-gcc && -x $prefix-g++ ]]; then _smf_own=$prefix; fi
  _smf_choose CC "${_smf_own:+$prefix-gcc}" gcc
  _smf_choose CXX "${_smf_own:+$prefix-g++}" g++
  if [[ -n $_smf_own ]]; then return; fi # the key of the packages covers it
  for folder in /usr/lib*/gcc/*-linux*/*/; do
    folder=${folder%/} _smf_compiler=${folder##*/}
  done
  _smf_compiler=${CC:-gcc}-$_smf_compiler _smf_compiler=${_smf_compiler##*/}
  _smf_compiler=-${_smf_compiler//[!A-Za-z0-9._-]/_}
}
