@echo off
rem report.bat STATUS: the first status stands, every reason (in _smf_say) is kept. STATUS may be "".
if "%_smf_st%"=="ok" if not "%~1"=="" set "_smf_st=%~1"
if defined SMFORGE_REASON set "SMFORGE_REASON=%SMFORGE_REASON%; %_smf_say%"
if not defined SMFORGE_REASON set "SMFORGE_REASON=%_smf_say%"
set "_smf_say="
exit /b 0
