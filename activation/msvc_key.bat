@echo off
rem What the cached answer depends on, found without a process: _smf_newkey.
for %%F in ("%~dp0msvc_build.bat") do set "_smf_newkey=1 %%~zF,%_smf_bound%"
call :list "%ProgramData%\Microsoft\VisualStudio\Packages\_Instances" *
call :list "%ProgramFiles(x86)%\Windows Kits\10\Include" 10.*
exit /b 0

:list
if not exist "%~1\" exit /b 0
pushd "%~1"
for /d %%D in (%2) do call :add "%%D"
popd
exit /b 0

:add
rem An installation that changes rewrites its state.json.
set "_smf_newkey=%_smf_newkey%,%~1"
for %%F in ("%~1\state.json") do set "_smf_newkey=%_smf_newkey% %%~zF %%~tF"
exit /b 0
