@echo off
rem The cache file cannot be used: have msvc_build.bat make it, in a folder of its own, then read it.
rem Out: _smf_status, empty when the file was made and read.
set "_smf_status=no-msvc"
if not exist "%_smf_vswhere%" exit /b 0
set "_smf_status=cache-refused"
if not exist "%_smf_dir%\" md "%_smf_dir%" 2>nul
rem Two that start within a second draw the same %%RANDOM%%: only one of them can make the folder.
for %%T in (1 2 3 4 5) do if not defined _smf_tmp call :folder
if not defined _smf_tmp exit /b 0
rem A child: an `exit`, a changed folder or a setting of vcvars64 cannot reach the caller.
"%SystemRoot%\System32\cmd.exe" /d /v:off /s /c ""%~dp0msvc_build.bat"" >nul 2>&1 <nul
set "_smf_status=msvc-broken"
if exist "%_smf_tmp%\refused" set "_smf_status=cache-refused"
if exist "%_smf_tmp%\new" move /y "%_smf_tmp%\new" "%_smf_file%" >nul 2>&1
rd /s /q "%_smf_tmp%" 2>nul
if "%_smf_status%"=="msvc-broken" call "%~dp0msvc_read.bat"
if not defined _smf_hit if not defined _smf_status set "_smf_status=msvc-broken"
exit /b 0

:folder
set "_smf_new=%_smf_dir%\new.%RANDOM%%RANDOM%"
md "%_smf_new%" 2>nul
if not errorlevel 1 set "_smf_tmp=%_smf_new%"
exit /b 0
