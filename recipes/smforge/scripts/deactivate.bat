@echo off
rem Called by conda when the environment is deactivated: every variable is again what it was.
@VARIABLES@
set "_smf_old="
exit /b 0
