@echo off
rem Called by conda when the environment is activated: keeps what each variable was, then runs
rem smforge's own activate.bat.
@VARIABLES@
call "%CONDA_PREFIX%\share\smforge\activation\activate.bat"
exit /b 0
