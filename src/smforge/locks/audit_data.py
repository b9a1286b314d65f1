"""Facts that the audit judges by: what nvcc accepts, and which licences hold packages back."""

from __future__ import annotations

Version = tuple[int, int]

_KEPLER = ((3, 5), (3, 7))
_MAXWELL_TO_TURING = ((5, 0), (5, 2), (5, 3), (6, 0), (6, 1), (6, 2), (7, 0), (7, 2), (7, 5))
_AMPERE_TO_HOPPER = ((8, 0), (8, 6), (8, 7), (8, 9), (9, 0))
_BLACKWELL = ((10, 0), (10, 1), (12, 0))

# CUDA minor -> compute capabilities that its nvcc compiles for. Source: `ptxas --help` of each,
# 2026-11 (12.6 from the nvcc manual); 13.0 dropped Maxwell, Pascal and Volta.
NVCC_CAPABILITIES: dict[Version, tuple[Version, ...]] = {
    (11, 8): _KEPLER + _MAXWELL_TO_TURING + _AMPERE_TO_HOPPER,
    (12, 0): _MAXWELL_TO_TURING + _AMPERE_TO_HOPPER,
    (12, 1): _MAXWELL_TO_TURING + _AMPERE_TO_HOPPER,
    (12, 6): _MAXWELL_TO_TURING + _AMPERE_TO_HOPPER,
    (12, 8): _MAXWELL_TO_TURING + _AMPERE_TO_HOPPER + _BLACKWELL,
    (12, 9): _MAXWELL_TO_TURING + _AMPERE_TO_HOPPER + (*_BLACKWELL, (10, 3), (12, 1)),
    (13, 0): ((7, 5), *_AMPERE_TO_HOPPER, (8, 8), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)),
}

# Licences under which a package may be installed from its channel, but not handed on as it is.
NO_REDISTRIBUTION = {
    "LicenseRef-NVIDIA-End-User-License-Agreement": "only inside an application (CUDA EULA, 1.1)",
    "LicenseRef-NVIDIA-CUDA-EULA": "only inside an application (CUDA EULA, 1.1)",
    "LicenseRef-cuDNN-Software-License-Agreement": "only inside an application (cuDNN SLA)",
    "LicenseRef-cuSPARSELt-Software-License-Agreement": "only inside an application",
    "LicenseRef-ProprietaryIntel": "only inside an application (Intel EULA)",
}
