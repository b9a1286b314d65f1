@echo off
rem The toolsets of one installation (_b_folder): the newest that nvcc accepts becomes _b_best in _b_where.
if not exist "%_b_folder%\VC\Tools\MSVC\" exit /b 0
pushd "%_b_folder%\VC\Tools\MSVC"
for /d %%D in (14.*) do (
  set "_b_name=%%D"
  call :toolset
)
popd
exit /b 0

:toolset
if not exist "%_b_name%\bin\Hostx64\x64\cl.exe" set "_b_x86=1"
if not exist "%_b_name%\bin\Hostx64\x64\cl.exe" exit /b 0
for /f "tokens=2,3 delims=." %%A in ("%_b_name%") do (
  set "_b_version=19%%A"
  set "_b_build=%%B"
)
for /f "delims=0123456789" %%A in ("%_b_version%%_b_build%") do exit /b 0
set /a _b_number=_b_version * 100000 + _b_build
if "%_b_version%" gtr "%_smf_max%" set "_b_newer=1"
if "%_b_version%" gtr "%_smf_max%" exit /b 0
if "%_b_version%" lss "%_smf_min%" set "_b_older=1"
if "%_b_version%" lss "%_smf_min%" exit /b 0
if %_b_number% leq %_b_newest% exit /b 0
set "_b_newest=%_b_number%"
set "_b_where=%_b_folder%"
set "_b_best=%_b_name%"
exit /b 0
