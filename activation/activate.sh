# shellcheck shell=bash
# Sourced by pixi and by the wheel engine; soft: it never stops the activation.
_smf_src="${BASH_SOURCE[0]%/*}/../src"
if [ -d "$_smf_src/smforge" ]; then
    PYTHONPATH=$(cd "$_smf_src" && pwd)
    export PYTHONPATH
fi
unset _smf_src
export PYTHONUTF8=1 PYTHONNOUSERSITE=1 SMFORGE_STATUS=ok SMFORGE_REASON=
