# Sourced by conda when the environment is activated, in bash, zsh, dash or another POSIX shell.
# Keeps what each variable was, then lets smforge's own activate.sh run in a bash and takes over
# what it decided. Never fails.
_smf_names='@VARIABLES@'

_smf_run() {
    # zsh splits no variable into words: the names arrive as arguments
    for _smf_name in "$@"; do
        if eval "[ -z \"\${SMFORGE_BACKUP_$_smf_name+set}\" ]"; then
            eval "export SMFORGE_BACKUP_$_smf_name=\"\${$_smf_name-UNSET}\""
        fi
    done
    _smf_script=$CONDA_PREFIX/share/smforge/activation/activate.sh
    if ! command -v bash >/dev/null 2>&1; then
        export SMFORGE_STATUS=off SMFORGE_REASON='bash is missing: smforge set nothing up'
        return 0
    fi
    # The child prints NAME=VALUE lines; the contract's values hold no line break.
    _smf_lines=$(bash -c '
        . "$1" >/dev/null 2>&1
        shift
        for name; do
            [ -z "${!name+set}" ] || printf "%s=%s\n" "$name" "${!name}"
        done' smforge "$_smf_script" "$@")
    while IFS= read -r _smf_line; do
        for _smf_name in "$@"; do
            case $_smf_line in
                "$_smf_name="*) eval "export $_smf_name=\"\${_smf_line#*=}\"" ;;
            esac
        done
    done <<EOF
$_smf_lines
EOF
}

eval "_smf_run $_smf_names" || :
unset -f _smf_run
unset _smf_names _smf_name _smf_script _smf_lines _smf_line
