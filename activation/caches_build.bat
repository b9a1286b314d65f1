@echo off
rem A process of its own, once: makes <drive>\smf\<RID> for this user alone. A folder that exists is not taken.
rem In: _smf_kept, the file in the profile. Exit code 0 when the folder was made.
for /f "usebackq tokens=2 delims=," %%S in (`call "%SystemRoot%\System32\whoami.exe" /user /fo csv /nh`) do set "_b_sid=%%~S"
if not defined _b_sid exit 1
for /f "delims=S-0123456789" %%Y in ("%_b_sid%") do exit 1
for %%R in (%_b_sid:-= %) do set "_b_rid=%%R"
set "_b_root=%SystemDrive%\smf\%_b_rid%"
if not exist "%SystemDrive%\smf\" md "%SystemDrive%\smf"
md "%_b_root%"
if errorlevel 1 exit 1
"%SystemRoot%\System32\icacls.exe" "%_b_root%" /inheritance:r /grant:r "*%_b_sid%:(OI)(CI)F"
if errorlevel 1 rd "%_b_root%"
if not exist "%_b_root%\" exit 1
set "_b_id=%RANDOM%%RANDOM%%RANDOM%%RANDOM%"
>"%_b_root%\smforge.id" echo %_b_id%
>"%_smf_kept%" echo %_b_rid%,%_b_id%
exit 0
