/* curl.exe of the test bed. Notes its command line in curl.log beside it. Answers only where
   answers.txt is; with -o FILE it then writes what download.bin holds. */
#include <stdio.h>
#include <string.h>
#include <windows.h>

static FILE *beside(const char *name, const char *mode)
{
    char path[MAX_PATH + 32];

    GetModuleFileNameA(NULL, path, MAX_PATH);
    strcpy(strrchr(path, '\\') + 1, name);
    return fopen(path, mode);
}

int main(int argc, char **argv)
{
    FILE *log = beside("curl.log", "ab"), *from, *to;
    int index, letter;

    fprintf(log, "%s\n", GetCommandLineA());
    fclose(log);
    if (!beside("answers.txt", "rb"))
        return 7;
    for (index = 1; index + 1 < argc; index++)
        if (!strcmp(argv[index], "-o") && strcmp(argv[index + 1], "nul")) {
            from = beside("download.bin", "rb");
            to = fopen(argv[index + 1], "wb");
            if (!from || !to)
                return 23;
            while ((letter = getc(from)) != EOF)
                putc(letter, to);
            fclose(to);
        }
    return 0;
}
