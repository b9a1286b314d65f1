# shellcheck shell=bash disable=SC2154 # _smf_* are set by activate.sh
# The CUDA toolkit: CUDA_PATH, CUDA_HOME, NVCC_PREPEND_FLAGS, and gcc against what nvcc accepts.

# Another toolkit, first on PATH or behind: the environment's comes first and the other is named.
_smf_shadow() {
  local - dir IFS=: bin=$CONDA_PREFIX/bin
  set -f
  for dir in $PATH; do
    if [[ $dir != "$bin" && -x $dir/nvcc ]]; then
      _smf_report "" "$dir/nvcc is another CUDA toolkit's (not used)"
    fi
  done
  if _smf_which nvcc && [[ $_smf_found != "$bin/nvcc" ]]; then export PATH=$bin:$PATH; fi
}

# The newest gcc that nvcc accepts stands in toolsets.txt; the installed one in a file name.
_smf_check_newest() {
  local cuda newest file
  while IFS="=," read -r cuda _ _ newest; do
    for file in "$CONDA_PREFIX"/conda-meta/gcc_impl_linux-64-*.json; do
      file=${file##*/gcc_impl_linux-64-} file=${file%%.*}
      if [[ $cuda == "$_smf_cuda" && $file =~ ^[0-9]+$ && $file -gt $newest ]]; then
        _smf_report no-gcc "gcc $file is newer than the nvcc of CUDA $cuda accepts ($newest)"
      fi
    done
  done <"$_smf_here/toolsets.txt"
}

_smf_find_toolkit() {
  local name root="" target=$CONDA_PREFIX/targets/x86_64-linux
  if [[ -x $CONDA_PREFIX/bin/ptxas ]] &&
    [[ -e $target/include/cuda.h || -e $CONDA_PREFIX/include/cuda.h ]] &&
    [[ -e $target/lib/libcudart.so || -e $CONDA_PREFIX/lib/libcudart.so ]]; then
    root=$CONDA_PREFIX
  fi
  for name in CUDA_PATH CUDA_HOME; do
    if [[ -n ${!name-} && ${!name} != "$CONDA_PREFIX" ]]; then
      _smf_report "" "$name=${!name} is another CUDA toolkit${root:+ (not used)}"
    fi
    if [[ -n $root ]]; then export "$name=$root"; fi
  done
  if [[ ! -x $CONDA_PREFIX/bin/nvcc ]]; then return 0; fi
  _smf_shadow
  if [[ -z $_smf_own ]]; then return 0; fi
  _smf_check_newest
  if [[ " ${NVCC_PREPEND_FLAGS-}" != *" -ccbin"* ]]; then
    export NVCC_PREPEND_FLAGS="-ccbin=$CXX${NVCC_PREPEND_FLAGS:+ $NVCC_PREPEND_FLAGS}"
  fi
}
