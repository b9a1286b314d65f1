"""GPUs and driver from NVML and nvidia-smi, and conda's overrides."""

from __future__ import annotations

import types

import pytest

from smforge.probe import gpu

HEADER = "| NVIDIA-SMI 580.159.03  Driver Version: 580.159.03  CUDA Version: 13.0 |"
ROWS = (
    "0, NVIDIA GeForce RTX 3090, 8.6, 24576, GPU-a, 580.159.03\n"
    "1, NVIDIA GeForce GTX 1080, 6.1, 8192, GPU-b, 580.159.03\n"
)


def smi(command):
    return ROWS if len(command) > 1 else HEADER


def absent(command):
    raise FileNotFoundError(command[0])


class NVML:
    """pynvml's functions for one H200; old bindings return bytes."""

    def __getattr__(self, name):
        answers = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlSystemGetCudaDriverVersion_v2": 12080,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": b"NVIDIA H200",
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=150_754_820_096),
            "nvmlDeviceGetUUID": "GPU-c",
            "nvmlSystemGetDriverVersion": "570.26",
        }
        return lambda *_: answers[name]


class Broken:
    def nvmlInit(self):
        raise RuntimeError("driver not loaded")


def test_nvml_is_asked_first():
    found = gpu.detect({}, run=absent, nvml=NVML())
    assert found.gpus[0] == gpu.GPU(0, "NVIDIA H200", (9, 0), 150_754_820_096, "GPU-c")
    assert (found.cuda_driver, found.capability, found.source) == ((12, 8), (9, 0), "nvml")


def test_nvidia_smi_answers_where_nvml_does_not():
    found = gpu.detect({}, run=smi, nvml=Broken())
    assert [g.capability for g in found.gpus] == [(8, 6), (6, 1)]
    assert found.gpus[0].memory == 24576 << 20
    assert (found.driver, found.cuda_driver, found.capability) == ("580.159.03", (13, 0), (6, 1))


def test_a_machine_without_a_driver_has_nothing():
    found = gpu.detect({}, run=absent, nvml=Broken())
    assert found == gpu.Machine()


@pytest.mark.parametrize(
    ("environ", "cuda", "capability"),
    [
        ({"CONDA_OVERRIDE_CUDA": "12.4", "CONDA_OVERRIDE_CUDA_ARCH": "12.0"}, (12, 4), (12, 0)),
        ({"CONDA_OVERRIDE_CUDA": "12"}, (12, 0), (6, 1)),
        ({"CONDA_OVERRIDE_CUDA": ""}, None, None),
        ({"CONDA_OVERRIDE_CUDA_ARCH": ""}, (13, 0), None),
        ({"CONDA_OVERRIDE_CUDA_ARCH": "8.9"}, (13, 0), (8, 9)),
    ],
    ids=["both", "major-only", "no-cuda", "no-arch", "arch-only"],
)
def test_condas_overrides_replace_what_was_found(environ, cuda, capability):
    found = gpu.detect(environ, run=smi, nvml=Broken())
    assert (found.cuda_driver, found.capability) == (cuda, capability)


def test_an_arch_without_a_driver_counts_for_nothing():
    found = gpu.detect({"CONDA_OVERRIDE_CUDA_ARCH": "8.9"}, run=absent, nvml=Broken())
    assert found.capability is None
