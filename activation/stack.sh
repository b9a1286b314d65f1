# shellcheck shell=bash disable=SC2034 # read by the other helpers
# What is installed: sets _smf_cuda (its CUDA version) and _smf_key (changes with any package).

_smf_read_stack() {
  local meta=${CONDA_PREFIX-}/conda-meta file line size=0 stamp=""
  if [[ -z ${CONDA_PREFIX-} ]]; then return 1; fi
  for file in "$meta"/cuda-version-*.json; do
    if [[ -e $file ]]; then file=${file##*/cuda-version-} && _smf_cuda=${file%%-*}; fi
  done
  if [[ -r $meta/pixi ]]; then
    while IFS= read -r line || [[ -n $line ]]; do
      if [[ $line =~ \"environment_lock_file_hash\":\ *\"([0-9a-f]{8}) ]]; then
        _smf_key=${BASH_REMATCH[1]}
      fi
    done <"$meta/pixi"
  fi
  if [[ -z $_smf_key && -r $meta/history ]]; then # an environment of conda or mamba
    while IFS= read -r line || [[ -n $line ]]; do
      size=$((size + ${#line} + 1))
      if [[ $line == "==> "* ]]; then stamp=${line//[^0-9]/}; fi
    done <"$meta/history"
    _smf_key=h$size-${stamp:-0}
  fi
  [[ -n $_smf_key ]]
}
