@echo off
rem What is installed, from names and text in conda-meta: _smf_key (changes with any package), _smf_triton,
rem _smf_cuda, _smf_uv, and the _MSC_VER that this CUDA's nvcc accepts: _smf_min, _smf_max.
set "_smf_min=1920"
set "_smf_max=1999"
if not defined _smf_prefix exit /b 0
if not exist "%_smf_prefix%\conda-meta\" exit /b 0
set "_smf_size="
set "_smf_time="
pushd "%_smf_prefix%\conda-meta"
for %%F in (cuda-version-*.json) do set "_smf_cuda=%%~nF"
for %%F in (triton-windows-*.json) do set "_smf_triton=%%~nF"
for %%F in (libuv-*.json) do set "_smf_uv=1"
if exist pixi for /f "usebackq tokens=1,2 delims=:, " %%Y in ("pixi") do if "%%~Y"=="environment_lock_file_hash" set "_smf_key=%%~Z"
if exist history for %%F in (history) do set "_smf_size=%%~zF"
if exist history for %%F in (history) do set "_smf_time=%%~tF"
popd
if defined _smf_cuda for /f "tokens=3 delims=-" %%Y in ("%_smf_cuda%") do set "_smf_cuda=%%Y"
if defined _smf_cuda for /f "delims=0123456789." %%Y in ("%_smf_cuda%") do set "_smf_cuda="
if defined _smf_triton for /f "tokens=2* delims=-" %%Y in ("%_smf_triton%") do set "_smf_triton=-%%Z"
rem The first 8 hexadecimal digits of the lock's hash; else, under conda, size and time of the history.
if defined _smf_key set "_smf_key=%_smf_key:"=%"
if defined _smf_key for /f "delims=0123456789abcdef" %%Y in ("%_smf_key%") do set "_smf_key="
if defined _smf_key set "_smf_key=%_smf_key:~0,8%"
if not defined _smf_time goto :bounds
for /f "tokens=1-5 delims=/:.- " %%A in ("%_smf_time%") do set "_smf_time=%%A%%B%%C%%D%%E"
if not defined _smf_key set "_smf_key=h%_smf_size%-%_smf_time%"
:bounds
for /f "usebackq tokens=1-3 delims==," %%X in ("%~dp0toolsets.txt") do if "%%X"=="%_smf_cuda%" set "_smf_min=%%Y"
for /f "usebackq tokens=1-3 delims==," %%X in ("%~dp0toolsets.txt") do if "%%X"=="%_smf_cuda%" set "_smf_max=%%Z"
set "_smf_size="
set "_smf_time="
exit /b 0
