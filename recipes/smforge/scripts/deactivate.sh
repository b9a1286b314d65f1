# Sourced by conda when the environment is deactivated: every variable is again what it was.
for _smf_name in @VARIABLES@; do
    eval "_smf_old=\"\${SMFORGE_BACKUP_$_smf_name-}\""
    case $_smf_old in
        UNSET) unset "$_smf_name" ;;
        ?*) eval "export $_smf_name=\"\$_smf_old\"" ;;
        *) eval "[ -z \"\${SMFORGE_BACKUP_$_smf_name+set}\" ] || export $_smf_name=" ;;
    esac
    unset "SMFORGE_BACKUP_$_smf_name"
done
unset _smf_name _smf_old
