@echo off
rem Visual C++: taken as it is, or applied from the cache file, or found once by msvc_build.bat (a child).
rem In: _smf_min, _smf_max, _smf_long. Out: the variables of msvc_names.txt, _smf_vc where a compiler is active.
rem The cache is data, never run: NAME=VALUE lines, no other names, PATH+ goes before PATH.
set "_smf_status="
set "_smf_bound=%_smf_min%-%_smf_max%"
if /i "%SMFORGE_MSVC%"=="off" set "_smf_status=off"
if defined _smf_status goto :say
if defined VSCMD_VER if defined VCToolsVersion if /i "%VSCMD_ARG_TGT_ARCH%"=="x64" call :taken
if defined _smf_status goto :say
if defined _smf_vc goto :clear
set "_smf_dir=%LOCALAPPDATA%\smforge"
set "_smf_file=%_smf_dir%\msvc-%_smf_bound%.env"
set "_smf_vswhere=%ProgramFiles(x86)%\Microsoft Visual Studio\Installer\vswhere.exe"
for /f "usebackq" %%N in ("%~dp0msvc_names.txt") do set "_smf_ok_%%N=1"
call "%~dp0msvc_key.bat"
call "%~dp0msvc_read.bat"
if not defined _smf_hit call "%~dp0msvc_find.bat"
if defined _smf_status goto :say
if defined _smf_long set "_smf_status=long-path"
if defined _smf_long goto :say
for /f "usebackq tokens=1* delims==" %%Y in ("%_smf_file%") do if "%%Y"=="PATH+" set "PATH=%%Z;%PATH%"
for /f "usebackq tokens=1* delims==" %%Y in ("%_smf_file%") do if defined _smf_ok_%%Y set "%%Y=%%Z"
set "SMFORGE_VC=%_smf_bound%"
set "_smf_vc=1"
goto :clear
:say
for /f "usebackq tokens=1* delims==" %%Y in ("%~dp0reasons.txt") do if "%%Y"=="%_smf_status%" set "_smf_say=%%Z"
for %%S in (old-msvc new-msvc) do if "%%S"=="%_smf_status%" set "_smf_say=%_smf_say% (CUDA %_smf_cuda%: _MSC_VER %_smf_bound%)"
call "%~dp0report.bat" %_smf_status%
:clear
for /f "usebackq" %%N in ("%~dp0msvc_names.txt") do set "_smf_ok_%%N="
for %%N in (status bound dir file vswhere hit newkey tmp new) do set "_smf_%%N="
exit /b 0

:taken
rem Set by smforge itself for another bound: replaced. Set by somebody else: kept, and compared.
if "%SMFORGE_VC%"=="%_smf_bound%" set "_smf_vc=1"
if defined SMFORGE_VC exit /b 0
set "_smf_vc=1"
for /f "tokens=2 delims=." %%Y in ("%VCToolsVersion%") do set "_smf_new=19%%Y"
if "%_smf_new%" gtr "%_smf_max%" set "_smf_status=new-msvc"
if "%_smf_new%" lss "%_smf_min%" set "_smf_status=old-msvc"
exit /b 0
