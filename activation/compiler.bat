@echo off
rem CC and CXX. CC is Triton's own tcc.exe where it is installed, so that its launcher never depends on Visual C++.
set "_smf_new="
set "_smf_why="
set "_smf_found="
if exist "%_smf_prefix%\Lib\site-packages\triton\runtime\tcc\tcc.exe" set "_smf_new=%_smf_prefix%\Lib\site-packages\triton\runtime\tcc\tcc.exe"
if defined _smf_new set "_smf_id=t"
if not defined _smf_new if defined _smf_vc set "_smf_spare=cl"
if /i not "%SMFORGE_CC%"=="cl" goto :check
set "_smf_say=SMFORGE_CC=cl, but Visual C++ is not active"
if not defined _smf_vc call "%~dp0report.bat" ""
set "_smf_say="
if defined _smf_vc set "_smf_new=cl"
if defined _smf_vc set "_smf_id=c"

:check
rem What came in CC: a program, or why it is none.
if not defined CC goto :choose
if "%CC%"=="%_smf_new%" goto :choose
if /i "%CC:~-12%"=="\tcc\tcc.exe" if defined _smf_new goto :choose
for %%I in ("%CC%" "%CC%.exe") do if exist "%%~I" set "_smf_found=%%~I"
for %%I in ("%CC%" "%CC%.exe") do if not "%%~$PATH:I"=="" set "_smf_found=%%~I"
set "_smf_why=names no program"
if defined _smf_found set "_smf_why="
for %%I in ("%CC%") do set "_smf_kind=%%~aI"
if "%_smf_kind:~0,1%"=="d" set "_smf_why=is a folder"
if not "%CC:;=%"=="%CC%" set "_smf_why=is a list, not one program"
if defined _smf_why if not defined _smf_new if defined _smf_spare set "_smf_new=cl"
if defined _smf_new if not defined _smf_why set "_smf_why=is not this environment's"
if not defined _smf_why goto :choose
set "_smf_say=CC=%CC:~0,200% %_smf_why%: %_smf_new% is used"
if defined _smf_new call "%~dp0report.bat" ""
if defined _smf_new goto :choose
set "_smf_say=CC=%CC:~0,200% %_smf_why%, and there is no other compiler here; remove the variable CC"
call "%~dp0report.bat" bad-cc

:choose
if defined _smf_new set "CC=%_smf_new%"
rem Another compiler of the user's own is told apart in the key by its size.
if not defined _smf_new if defined _smf_found for %%I in ("%_smf_found%") do set "_smf_id=o%%~zI"
if not defined _smf_vc goto :clear
set "_smf_say=CXX=%CXX:~0,200% gives way to cl"
if defined CXX if /i not "%CXX%"=="cl" call "%~dp0report.bat" ""
set "CXX=cl"
for /f "tokens=2,3 delims=." %%A in ("%VCToolsVersion%") do set "_smf_id=%_smf_id%%%A.%%B"
:clear
for %%N in (say new why kind found spare) do set "_smf_%%N="
exit /b 0
