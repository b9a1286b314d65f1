@echo off
rem smforge's wrapper for cmd.exe: `pixiw ARGS` is `pixi ARGS`, on a machine without pixi too.
rem
rem Engines: pixi 0.77 or newer on PATH; else the pinned pixi, fetched once from its GitHub release
rem and checked against envs\pixi.txt; else the wheel engine (src\smforge\wheels, any Python 3.11 or
rem newer). SMFORGE_ENGINE=pixi or wheels chooses; .smforge\engine keeps what the first start found,
rem and `pixiw install` finds out anew. All of the wrapper's own words go to standard error.
rem
rem ASCII only, no conditional operators between commands: facts about cmd.exe and Wine's say why.
setlocal DisableDelayedExpansion
set "_version=0.77.0"
set "_asset=pixi-x86_64-pc-windows-msvc.exe"
set "_url=https://github.com/prefix-dev/pixi/releases/download/v%_version%/%_asset%"
set "_root=%~dp0"
set "_cache=%LOCALAPPDATA%\smforge\pixi-%_version%"
set "_exe=%_cache%\%_asset%"
set "_engine=%SMFORGE_ENGINE%"

if not defined _engine goto look
if /i "%_engine%"=="wheels" goto wheels
if /i "%_engine%"=="pixi" goto look
>&2 echo pixiw: error: SMFORGE_ENGINE is '%_engine%', expected pixi or wheels
exit /b 2

rem 1. pixi on PATH, if it is new enough.
:look
set "_path="
set "_found="
for %%P in (pixi.exe) do set "_path=%%~$PATH:P"
if not defined _path goto recorded
for /f "usebackq tokens=2" %%V in (`call "%_path%" --version`) do set "_found=%%V"
if not defined _found goto recorded
set "_major=0"
set "_minor=0"
for /f "tokens=1,2 delims=." %%A in ("%_found%") do set "_major=%%A"
for /f "tokens=1,2 delims=." %%A in ("%_found%") do set "_minor=%%B"
if %_major% GTR 0 goto onpath
if %_minor% LSS 77 goto recorded
:onpath
"%_path%" %*
exit /b %errorlevel%

rem 2. What an earlier start found.
:recorded
if /i "%_engine%"=="pixi" goto pinned
if "%~1"=="install" goto choose
if not exist "%_root%.smforge\engine" goto choose
for /f "usebackq" %%E in ("%_root%.smforge\engine") do set "_engine=%%E"
if "%_engine%"=="pixi" goto pinned
if "%_engine%"=="wheels" goto wheels

rem 3. The first start: the pinned pixi when it is here or GitHub answers, else wheels.
:choose
if exist "%_exe%" goto found
call :answers
if errorlevel 1 goto nopixi
:found
call :record pixi
goto pinned
:nopixi
>&2 echo pixiw: no pixi 0.77 on PATH and none can be fetched from GitHub: using the wheel engine (pixiw install looks again)
call :record wheels
goto wheels

rem The pinned pixi: the release's .exe is the program itself; hashed before each use.
:pinned
if exist "%_exe%" goto check
call :answers
if errorlevel 1 goto noanswer
if not exist "%_cache%\" md "%_cache%"
set "_part=%_cache%\%RANDOM%%RANDOM%.part"
>&2 echo pixiw: fetching pixi %_version% into %_cache%
curl --proto "=https" --proto-redir "=https" -fL --progress-bar -o "%_part%" "%_url%"
if errorlevel 1 goto nofetch
call :hash "%_part%"
if not "%_actual%"=="%_pinned%" goto mismatch
move /y "%_part%" "%_exe%" >nul
:check
set "_part=%_exe%"
call :hash "%_exe%"
if not "%_actual%"=="%_pinned%" goto mismatch
"%_exe%" %*
exit /b %errorlevel%

:noanswer
>&2 echo pixiw: error: GitHub does not answer, so pixi %_version% cannot be fetched: install pixi, or set SMFORGE_ENGINE=wheels
exit /b 4
:nofetch
if exist "%_part%" del /q "%_part%"
>&2 echo pixiw: error: pixi %_version% could not be fetched from GitHub
exit /b 4
:mismatch
del /q "%_part%"
>&2 echo pixiw: error: %_asset% has sha256 %_actual%, expected %_pinned%: it was removed, start again to fetch anew
exit /b 4

rem The wheel engine, started by the first Python that can make its virtual environment.
:wheels
set "_python="
call :try py -3
if not defined _python call :try python
if not defined _python call :try python3
if not defined _python goto nopython
%_python% "%_root%src\smforge\wheels" %*
exit /b %errorlevel%
:nopython
>&2 echo pixiw: error: the wheel engine needs Python 3.11 or newer: winget install Python.Python.3.13
exit /b 4

:try
%* -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))" >nul 2>nul
if not errorlevel 1 set "_python=%*"
exit /b 0

rem Does GitHub answer within 3 seconds? curl is part of Windows 10 and honours https_proxy.
:answers
curl --proto "=https" -fsI --max-time 3 -o nul "%_url%" >nul 2>nul
exit /b %errorlevel%

rem _actual and _pinned: the sha256 of a file, and the one in envs\pixi.txt.
:hash
set "_actual="
set "_pinned="
for /f "usebackq skip=1 delims=" %%H in (`certutil -hashfile "%~1" SHA256`) do call :first %%H
for /f "usebackq tokens=1,2" %%A in ("%_root%envs\pixi.txt") do if "%%A"=="%_asset%" set "_pinned=%%B"
rem Two empty values would agree.
if not defined _pinned set "_pinned=a line for it in envs\pixi.txt"
exit /b 0
:first
set "_line=%*"
if not defined _actual set "_actual=%_line: =%"
exit /b 0

:record
if not exist "%_root%.smforge\" md "%_root%.smforge" 2>nul
>"%_root%.smforge\engine" echo %1
exit /b 0
