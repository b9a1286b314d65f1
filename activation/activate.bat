@echo off
rem smforge activation for cmd, called by pixi and by the wheel engine. The contract is README.md beside it.
rem Prints nothing, never exits, no setlocal, no process once its caches are there. Temporaries: _smf_*.
set "SMFORGE_STATUS=aborted"
if defined SMFORGE_REASON set "_smf_had=1"
set "SMFORGE_REASON="
set "_smf_st=ok"
for %%F in (stack msvc msvc_key msvc_read msvc_find msvc_build msvc_toolset msvc_write compiler toolkit caches caches_root caches_build report) do if not exist "%~dp0%%F.bat" set "_smf_lost=%%F.bat"
if defined _smf_lost set "SMFORGE_REASON=%_smf_lost% is missing beside activate.bat; run: git checkout activation"
if defined _smf_lost goto :clear

rem A quotation mark in a value would end the quotes below. None of these may hold one.
set "_smf_long=%PATH:~0,-6000%"
if not defined _smf_long set "PATH=%PATH:"=%"
if defined CONDA_PREFIX set "_smf_prefix=%CONDA_PREFIX:"=%"
if defined CC set "CC=%CC:"=%"
if defined CXX set "CXX=%CXX:"=%"
if defined CUDA_PATH set "CUDA_PATH=%CUDA_PATH:"=%"
if defined CUDA_HOME set "CUDA_HOME=%CUDA_HOME:"=%"
if defined PYTHONPATH set "PYTHONPATH=%PYTHONPATH:"=%"
if defined SMFORGE_CC set "SMFORGE_CC=%SMFORGE_CC:"=%"
if defined SMFORGE_MSVC set "SMFORGE_MSVC=%SMFORGE_MSVC:"=%"
if defined SMFORGE_VC set "SMFORGE_VC=%SMFORGE_VC:"=%"
if defined VSCMD_ARG_TGT_ARCH set "VSCMD_ARG_TGT_ARCH=%VSCMD_ARG_TGT_ARCH:"=%"
if defined VCToolsVersion set "VCToolsVersion=%VCToolsVersion:"=%"

call "%~dp0stack.bat"
if not defined _smf_key set "_smf_say=CONDA_PREFIX=%_smf_prefix% is no installed environment; run: pixi install"
if not defined _smf_key call "%~dp0report.bat" no-prefix
if not defined _smf_key goto :done
call "%~dp0msvc.bat"
call "%~dp0compiler.bat"
call "%~dp0toolkit.bat"
call "%~dp0caches.bat"

set "DISTUTILS_USE_SDK=1"
set "MSSdk=1"
set "VSLANG=1033"
set "PYTHONUTF8=1"
set "PYTHONNOUSERSITE=1"
set "TORCHINDUCTOR_COMPILE_THREADS=1"
rem Kernels named after all that they fuse exceed 260 characters.
if not defined TORCHINDUCTOR_UNIQUE_KERNEL_NAMES set "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES=0"
rem torch's wheels for Windows are built without libuv.
if not defined _smf_uv set "USE_LIBUV=0"
if not exist "%~dp0..\src\smforge\" goto :done
for %%F in ("%~dp0..\src") do set "_smf_src=%%~fF"
if not defined PYTHONPATH set "PYTHONPATH=%_smf_src%"
if /i not "%PYTHONPATH%"=="%_smf_src%" set "_smf_say=PYTHONPATH=%PYTHONPATH:~0,200% is left out"
if defined _smf_say call "%~dp0report.bat" ""
set "PYTHONPATH=%_smf_src%"

:done
set "SMFORGE_STATUS=%_smf_st%"
rem To pixi a variable that is unset stays as it was outside: a blank takes an old reason's place.
if defined _smf_had if not defined SMFORGE_REASON set "SMFORGE_REASON= "
:clear
for %%N in (st had lost long prefix key cuda triton min max uv src say vc id) do set "_smf_%%N="
exit /b 0
