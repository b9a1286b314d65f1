/* icacls.exe of the test bed. With /findsid it prints what icacls.txt beside it holds; with /grant:r
   it notes its command line in granted.txt there, or fails where icacls-fails.txt is. */
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

int main(void)
{
    const char *line = GetCommandLineA();
    FILE *file;
    int letter;

    if (strstr(line, "/findsid")) {
        file = beside("icacls.txt", "rb");
        while (file && (letter = getc(file)) != EOF)
            putchar(letter);
    } else if (beside("icacls-fails.txt", "rb")) {
        return 5;
    } else {
        file = beside("granted.txt", "ab");
        if (!file)
            return 1;
        fprintf(file, "%s\n", line);
        fclose(file);
    }
    return 0;
}
