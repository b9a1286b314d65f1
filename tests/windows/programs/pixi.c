/* pixi.exe of the test bed: says its arguments and ends with 7; --version says what version.txt
   beside it holds, else 0.77.0. */
#include <stdio.h>
#include <string.h>
#include <windows.h>

int main(int argc, char **argv)
{
    char path[MAX_PATH + 32], version[64] = "0.77.0";
    FILE *file;
    int index;

    GetModuleFileNameA(NULL, path, MAX_PATH);
    strcpy(strrchr(path, '\\') + 1, "version.txt");
    file = fopen(path, "rb");
    if (file)
        fgets(version, sizeof version, file);
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        printf("pixi %s\n", version);
        return 0;
    }
    printf("pixi %s:", version);
    for (index = 1; index < argc; index++)
        printf(" [%s]", argv[index]);
    puts("");
    return 7;
}
