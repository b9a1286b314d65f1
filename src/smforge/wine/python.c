/* python.exe of the test bed: hands everything to the python311.dll beside it. */
#include <windows.h>

typedef int (*main_function)(int, wchar_t **);

int wmain(int argc, wchar_t **argv)
{
    HMODULE python = LoadLibraryW(L"python311.dll");

    if (!python)
        return 99;
    return ((main_function)(void *)GetProcAddress(python, "Py_Main"))(argc, argv);
}
