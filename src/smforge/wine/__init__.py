"""Windows programs on Linux: a Wine prefix kept ready, and a Windows CPython in it.

What stands here proves Windows binaries (ptxas.exe, triton-windows, batch files), and neither a
Windows driver nor Visual C++.
"""
