@echo off
rem No name of the profile will do: <drive>\smf\<RID>, made by caches_build.bat for this user alone. It is ours where
rem the number in it is the one kept in the profile, which nobody else can read.
set "_smf_kept=%_smf_base%\root.txt"
set "_smf_once="
:read
set "_smf_rid="
set "_smf_number="
if exist "%_smf_kept%" for /f "usebackq tokens=1,2 delims=," %%A in ("%_smf_kept%") do set "_smf_rid=%%A"
if exist "%_smf_kept%" for /f "usebackq tokens=1,2 delims=," %%A in ("%_smf_kept%") do set "_smf_number=%%B"
if defined _smf_rid set "_smf_rid=%_smf_rid:"=%"
if defined _smf_number set "_smf_number=%_smf_number:"=%"
for /f "delims=0123456789" %%Y in ("%_smf_rid%%_smf_number%") do set "_smf_rid="
if not defined _smf_rid goto :build
set "_smf_root=%SystemDrive%\smf\%_smf_rid%"
if not exist "%_smf_root%\smforge.id" goto :build
for /f "usebackq delims=" %%Y in ("%_smf_root%\smforge.id") do if "%%Y"=="%_smf_number%" set "_smf_bad="
:build
if not defined _smf_bad goto :clear
set "_smf_say=no compile cache: %_smf_base% is no short ASCII name, and no folder below %SystemDrive%\smf could be made for you alone; remove what is there"
if defined _smf_once goto :clear
set "_smf_once=1"
"%SystemRoot%\System32\cmd.exe" /d /v:off /s /c ""%~dp0caches_build.bat"" >nul 2>&1 <nul
if not errorlevel 1 goto :read
:clear
for %%N in (kept once rid number) do set "_smf_%%N="
exit /b 0
