@echo off
rem A process of its own, on a cache miss only: finds a toolset that nvcc accepts, runs its vcvars64 once and writes
rem the difference to %_smf_tmp%\new, or why there is none (status=). No file: vcvars64 failed.
for %%N in (best where newer older x86 path) do set "_b_%%N="
set "_b_newest=0"
rem Nobody else may be able to write where the cache lies: Everyone, Authenticated Users, Users.
for %%S in (S-1-1-0 S-1-5-11 S-1-5-32-545) do "%SystemRoot%\System32\icacls.exe" "%_smf_dir%" /findsid *%%S >>"%_smf_tmp%\rights" 2>nul
"%SystemRoot%\System32\find.exe" "%_smf_dir%" <"%_smf_tmp%\rights" >nul
if not errorlevel 1 echo 1 >"%_smf_tmp%\refused"
if errorlevel 2 echo 1 >"%_smf_tmp%\refused"
if exist "%_smf_tmp%\refused" exit 1

for %%N in (smforge key file text must must2 status PATH+) do set "%%N="
for /f "usebackq delims=" %%I in (`call "%_smf_vswhere%" -products * -sort -utf8 -nologo -property installationPath`) do (
  set "_b_folder=%%I"
  call "%~dp0msvc_toolset.bat"
)
set "status=no-msvc"
if defined _b_x86 set "status=x86-msvc"
if defined _b_older set "status=old-msvc"
if defined _b_newer set "status=new-msvc"
if defined _b_best set "status="
if defined status call "%~dp0msvc_write.bat"
if defined status exit 0

for /f "usebackq" %%N in ("%~dp0msvc_names.txt") do set "%%N="
for %%N in (__VSCMD_PREINIT_PATH VSCMD_DEBUG) do set "%%N="
set "PATH=%SystemRoot%\System32;%SystemRoot%;%SystemRoot%\System32\Wbem"
set "VSCMD_SKIP_SENDTELEMETRY=1"
call "%_b_where%\VC\Auxiliary\Build\vcvars64.bat" -vcvars_ver=%_b_best%
if not "%VCToolsVersion%"=="%_b_best%" exit 1
rem vcvars64 puts folders before and behind PATH: what it added are the entries that the clean one lacks.
for %%D in ("%PATH:;=" "%") do (
  set "_b_entry=%%~D"
  call :entry
)
set "PATH+=%_b_path:~1%"
set "must=%VCToolsInstallDir%bin\Hostx64\x64\cl.exe"
set "must2=%WindowsSdkDir%Include\%WindowsSDKVersion%um\windows.h"
set "file=%_b_where%\VC\Auxiliary\Build\Microsoft.VCToolsVersion.default.txt"
for /f "usebackq delims=" %%I in ("%file%") do set "text=%%I"
call "%~dp0msvc_write.bat"
exit 0

:entry
set "_b_keep=1"
for %%C in ("%SystemRoot%\System32" "%SystemRoot%" "%SystemRoot%\System32\Wbem" "") do if /i "%_b_entry%"=="%%~C" set "_b_keep="
if defined _b_keep set "_b_path=%_b_path%;%_b_entry%"
exit /b 0
