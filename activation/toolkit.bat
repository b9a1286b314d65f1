@echo off
rem CUDA_PATH and CUDA_HOME into the environment, only where a whole toolkit is; NVCC_PREPEND_FLAGS.
set "_smf_root=%_smf_prefix%\Library"
if exist "%_smf_root%\bin\ptxas.exe" if exist "%_smf_root%\include\cuda.h" if exist "%_smf_root%\lib\cuda.lib" set "_smf_not= (not used)"
if exist "%_smf_root%\bin\ptxas.exe" if exist "%_smf_root%\include\cuda.h" if exist "%_smf_root%\lib\x64\cuda.lib" set "_smf_not= (not used)"
set "_smf_say=CUDA_PATH=%CUDA_PATH:~0,200% is another CUDA toolkit%_smf_not%"
if defined CUDA_PATH if /i not "%CUDA_PATH%"=="%_smf_root%" call "%~dp0report.bat" ""
set "_smf_say=CUDA_HOME=%CUDA_HOME:~0,200% is another CUDA toolkit%_smf_not%"
if defined CUDA_HOME if /i not "%CUDA_HOME%"=="%_smf_root%" call "%~dp0report.bat" ""
set "_smf_say="
if defined _smf_not set "CUDA_PATH=%_smf_root%"
if defined _smf_not set "CUDA_HOME=%_smf_root%"
rem Another nvcc on PATH is named, and comes after this environment's.
if not exist "%_smf_root%\bin\nvcc.exe" goto :flags
if defined _smf_long goto :flags
for %%D in ("%PATH:;=" "%") do (
  set "_smf_new=%%~D"
  call :folder
)
if /i not "%_smf_first%"=="%_smf_root%\bin" set "PATH=%_smf_root%\bin;%PATH%"
:flags
rem Added to, never twice. cmd cannot keep a quotation mark in it whole: then it stays as it is, and is named.
if not defined _smf_vc goto :clear
set "_smf_flags= "
set "_smf_new= "
if defined NVCC_PREPEND_FLAGS set "_smf_flags= %NVCC_PREPEND_FLAGS:"=%"
if defined NVCC_PREPEND_FLAGS set "_smf_new= %NVCC_PREPEND_FLAGS:"=x%"
set "_smf_say=NVCC_PREPEND_FLAGS holds a quotation mark and stays as it is; add --use-local-env to it"
if not "%_smf_new%"=="%_smf_flags%" call "%~dp0report.bat" ""
if not defined _smf_say goto :clear
if "%_smf_flags: --use-local-env=%"=="%_smf_flags%" set "_smf_flags= --use-local-env%_smf_flags%"
set "_smf_new=0"
if defined _smf_cuda for /f "tokens=1,2 delims=." %%A in ("%_smf_cuda%") do set /a _smf_new=%%A*100+%%B
if %_smf_new% geq 1302 if "%_smf_flags:/Zc:preprocessor=%"=="%_smf_flags%" set "_smf_flags= -Xcompiler /Zc:preprocessor%_smf_flags%"
set "NVCC_PREPEND_FLAGS=%_smf_flags:~1%"
if "%_smf_flags:~-1%"==" " set "NVCC_PREPEND_FLAGS=%_smf_flags:~1,-1%"
:clear
for %%N in (not first new flags say root) do set "_smf_%%N="
exit /b 0
:folder
if not exist "%_smf_new%\nvcc.exe" exit /b 0
if not defined _smf_first set "_smf_first=%_smf_new%"
if /i "%_smf_new%"=="%_smf_root%\bin" exit /b 0
set "_smf_say=%_smf_new:~0,200%\nvcc.exe is another CUDA toolkit's (not used)"
call "%~dp0report.bat" ""
exit /b 0
