@echo off
rem The file that msvc_read.bat reads: lines of listed names, then end=<1000000 + the bytes before it>.
set "smforge=1"
set "key=%_smf_newkey%"
set >"%_smf_tmp%\all"
for %%N in (smforge key file text must must2 status PATH+) do set "_smf_ok_%%N=1"
for /f "usebackq tokens=1* delims==" %%Y in ("%_smf_tmp%\all") do if defined _smf_ok_%%Y >>"%_smf_tmp%\part" echo %%Y=%%Z
for %%F in ("%_smf_tmp%\part") do set "_b_size=%%~zF"
set /a _b_size+=1000000
>>"%_smf_tmp%\part" echo end=%_b_size%
ren "%_smf_tmp%\part" new
exit /b 0
