/* jobcount.exe COMMAND LINE: runs it in a job object and reports on standard error how many
   processes the job ever held, itself not counted. The same program works on Windows. */
#include <stdio.h>
#include <windows.h>

static char *after_own_name(char *line)
{
    int quoted = 0;

    for (; *line && (quoted || *line != ' '); line++)
        if (*line == '"')
            quoted = !quoted;
    while (*line == ' ')
        line++;
    return line;
}

int main(void)
{
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION counts = {0};
    PROCESS_INFORMATION process = {0};
    STARTUPINFOA startup = {.cb = sizeof startup};
    HANDLE job = CreateJobObjectA(NULL, NULL);
    DWORD code = 1;

    if (!CreateProcessA(NULL, after_own_name(GetCommandLineA()), NULL, NULL, TRUE, CREATE_SUSPENDED,
                        NULL, NULL, &startup, &process)
        || !AssignProcessToJobObject(job, process.hProcess)) {
        fprintf(stderr, "jobcount: error %lu\n", GetLastError());
        return 1;
    }
    ResumeThread(process.hThread);
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    if (!QueryInformationJobObject(job, JobObjectBasicAccountingInformation, &counts,
                                   sizeof counts, NULL))
        return 1;
    fprintf(stderr, "jobcount: %lu\n", counts.TotalProcesses);
    return (int)code;
}
