@echo off
rem May the cache file be used? Then _smf_hit, or _smf_status where it holds "there is none".
rem Not used: half written, changed in length, a name outside the list, another key, a compiler or SDK that went.
for %%N in (hit status whole bad text version) do set "_smf_%%N="
if not exist "%_smf_file%" goto :clear
for %%F in ("%_smf_file%") do set "_smf_size=%%~zF"
set /a _smf_size+=1000000-13
for /f "usebackq tokens=1* delims==" %%Y in ("%_smf_file%") do if "%%Y"=="end" if "%%Z"=="%_smf_size%" set "_smf_whole=1"
if not defined _smf_whole goto :clear
for /f "usebackq tokens=1* delims==" %%Y in ("%_smf_file%") do if "%%Y"=="file" set "_smf_version=%%Z"
if defined _smf_version set "_smf_version=%_smf_version:"=%"
if defined _smf_version if not exist "%_smf_version%" set "_smf_version="
if defined _smf_version for /f "usebackq delims=" %%Y in ("%_smf_version%") do set "_smf_text=%%Y"
if defined _smf_text set "_smf_text=%_smf_text:"=%"
for %%N in (smforge key file text must must2 status PATH+ end) do set "_smf_own_%%N=1"
for /f "usebackq tokens=1* delims==" %%Y in ("%_smf_file%") do (
  if not defined _smf_ok_%%Y if not defined _smf_own_%%Y set "_smf_bad=1"
  if "%%Y"=="key" if "%%Z"=="%_smf_newkey%" set "_smf_hit=1"
  if "%%Y"=="text" if not "%%Z"=="%_smf_text%" set "_smf_bad=1"
  if "%%Y"=="must" if not exist "%%Z" set "_smf_bad=1"
  if "%%Y"=="must2" if not exist "%%Z" set "_smf_bad=1"
  if "%%Y"=="status" for %%S in (no-msvc old-msvc new-msvc x86-msvc) do if "%%Z"=="%%S" set "_smf_status=%%S"
)
if defined _smf_bad set "_smf_hit="
if not defined _smf_hit set "_smf_status="
:clear
for %%N in (smforge key file text must must2 status PATH+ end) do set "_smf_own_%%N="
for %%N in (whole bad text version size) do set "_smf_%%N="
exit /b 0
