@echo off
rem Called by pixi; soft: it never stops the activation.
if exist "%~dp0..\src\smforge" set "PYTHONPATH=%~dp0..\src"
set "PYTHONUTF8=1"
set "PYTHONNOUSERSITE=1"
set "SMFORGE_STATUS=ok"
set "SMFORGE_REASON="
exit /b 0
