@echo off
rem TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR: this user's alone, ASCII without a blank, at most 100 characters
rem (with the longest name that torch and Triton make below it: under 260), one pair for each set of packages.
set "_smf_name=%_smf_key%%_smf_triton%-%_smf_id%"
set "_smf_say=no compile cache: LOCALAPPDATA is not set"
if not defined LOCALAPPDATA goto :refused
set "_smf_base=%LOCALAPPDATA:"=%\smforge"
if not exist "%_smf_base%\" md "%_smf_base%" 2>nul
set "_smf_say=no compile cache: %_smf_base% cannot be made"
if not exist "%_smf_base%\" goto :refused
set "_smf_root=%_smf_base%"
call :judge
rem A profile with a blank or an accent has a short name (8.3) on most volumes.
if defined _smf_bad for %%F in ("%_smf_base%") do set "_smf_root=%%~sF"
if defined _smf_bad call :judge
if defined _smf_bad call "%~dp0caches_root.bat"
if defined _smf_bad goto :refused
set "TORCHINDUCTOR_CACHE_DIR=%_smf_root%\i-%_smf_name%"
set "TRITON_CACHE_DIR=%_smf_root%\t-%_smf_name%"
goto :clear
:refused
call "%~dp0report.bat" cache-refused
:clear
for %%N in (name say base root bad) do set "_smf_%%N="
exit /b 0

:judge
set "_smf_dir=%_smf_root%\i-%_smf_name%"
set "_smf_bad=%_smf_dir:~0,-100%"
for /f "delims=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\:._-~" %%Y in ("%_smf_dir%") do set "_smf_bad=1"
set "_smf_dir="
exit /b 0
