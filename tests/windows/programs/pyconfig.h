/* What CPython 3.11's headers ask of a 64-bit Windows, for the compilers of the test bed (tcc, mingw).
   A real Windows Python brings its own. */
#ifndef Py_CONFIG_H
#define Py_CONFIG_H

#include <io.h>
#include <stdio.h>

/* the system */
#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define NT_THREADS
#define PLATFORM "win32"
#define PYD_PLATFORM_TAG "win_amd64"
#define COMPILER "[test bed]"

/* how this Python was built */
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL
#define WITH_DOC_STRINGS 1
#define WITH_PYMALLOC 1

/* types */
#define DOUBLE_IS_LITTLE_ENDIAN_IEEE754 1
#define ALIGNOF_LONG 4
#define ALIGNOF_SIZE_T 8
#define SIZEOF_DOUBLE 8
#define SIZEOF_FLOAT 4
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_OFF_T 4
#define SIZEOF_SHORT 2
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T 2

/* headers */
#define HAVE_STDDEF_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_UINTPTR_T 1
#define HAVE_WCHAR_H 1

#endif
