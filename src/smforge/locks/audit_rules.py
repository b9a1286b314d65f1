"""The audit's rules: each takes one environment's packages and yields what is wrong.

Ids are stable for ever: A0x the lock itself, A1x the stack, A2x libraries, A3x what to know.
"""

from __future__ import annotations

from collections.abc import Iterator

from smforge import tiers
from smforge.locks.audit import TORCH, TRITON, Finding, View, minor
from smforge.locks.audit_data import NO_REDISTRIBUTION, NVCC_CAPABILITIES
from smforge.locks.check import Checker
from smforge.locks.closure import Matcher, findings
from smforge.locks.manifest import Manifest
from smforge.locks.read import Lock, Package
from smforge.locks.records import virtual_records
from smforge.tables import dotted

VC_RUNTIME = (14, 42)  # libtriton.pyd and torch's DLLs crash with an older one
_MATCHER = Matcher()


def lock_rules(workspace: Manifest, lock: Lock) -> Iterator[Finding]:
    """Rules about the lock as a whole."""
    for problem in Checker(workspace, lock).problems():
        yield Finding("A01", "error", f"stale: {problem.text}", (problem.where,))
    for package in lock.packages.values():
        yield from _provenance(workspace, package)
    yield from _licences(lock)


def _provenance(workspace: Manifest, package: Package) -> Iterator[Finding]:
    if not package.url:
        return
    if not package.entry.get("sha256"):
        yield Finding("A03", "error", f"{package.url} has no sha256")
    if not package.url.startswith(workspace.channels):
        yield Finding("A04", "error", f"{package.url} is from no channel of pixi.toml")


def _licences(lock: Lock) -> Iterator[Finding]:
    held: dict[str, set[str]] = {}
    for package in lock.packages.values():
        licence = package.entry.get("license")
        if licence is None:
            held.setdefault("", set()).add(package.label)
        for name in NO_REDISTRIBUTION.keys() & set((licence or "").split()):
            held.setdefault(name, set()).add(package.name)
    for name, packages in held.items():
        listed = ", ".join(sorted(packages))
        if name:
            text = f"{name}, may not be handed on ({NO_REDISTRIBUTION[name]}): {listed}"
            yield Finding("A31", "info", text)
        else:
            yield Finding("A32", "warning", f"the index tells no licence of: {listed}")


def view_rules(view: View) -> Iterator[Finding]:
    """Every rule about one environment on one platform."""
    for rule in (_closed, _torch, _triton, _arch_list, _nvcc, _host_compiler, _one_cuda, _cudnn,
                 _vc_runtime, _openmp, _sizes):  # fmt: skip
        yield from rule(view)


def _closed(view: View) -> Iterator[Finding]:
    wanted = [(name, name) for name in view.packages]
    virtual = virtual_records(view.platform.virtual_packages)
    for item in findings(wanted, view.packages.values(), virtual, _MATCHER):
        found = item.found or "nothing"
        words = "forbids anything but" if item.kind == "constraint" else "needs"
        yield Finding("A02", "error", f"{item.package} {words} {item.spec}: {found} is locked")


def _torch(view: View) -> Iterator[Finding]:
    torch = view.first(*TORCH)
    if view.tier is None or view.stack is None:
        return
    if torch is None:
        yield Finding("A11", "error", "no pytorch is locked")
        return
    build = str(torch.record.build)
    wanted = "cuda" if view.tier.capability else "cpu"
    if not build.startswith(wanted):
        yield Finding("A11", "error", f"pytorch is the build {build}, expected one for {wanted}")
    if dotted(minor(torch)) != view.stack.pytorch:
        text = (f"pytorch {torch.record.version} is locked, envs/tiers.toml says "
                f"{view.stack.pytorch}: its arch list is not known")  # fmt: skip
        yield Finding("A12", "error", text)


def _triton(view: View) -> Iterator[Finding]:
    torch, triton = view.minor(*TORCH), view.minor(*TRITON)
    if torch is None or view.stack is None:
        return
    wanted = tiers.load().pairs.get(dotted(torch))
    if triton is None:
        if view.stack.triton:
            yield Finding("A13", "error", f"no Triton is locked, torch {dotted(torch)} wants one")
    elif dotted(triton) != wanted:
        text = f"torch {dotted(torch)} belongs with Triton {wanted}, {dotted(triton)} is locked"
        yield Finding("A13", "error", text)


def _arch_list(view: View) -> Iterator[Finding]:
    if view.tier is None or view.stack is None or view.tier.capability is None:
        return
    if not tiers.carried(view.stack.arch_list, view.tier.capability):
        archs = ";".join(view.stack.arch_list)
        capability = dotted(view.tier.capability)
        yield Finding("A14", "error", f"pytorch has {archs}: no code for {capability}")


def _nvcc(view: View) -> Iterator[Finding]:
    nvcc = view.minor("cuda-nvcc-tools")
    if view.tier is None or view.stack is None or view.tier.capability is None:
        return
    if nvcc is None:
        if view.stack.nvcc:
            yield Finding("A15", "error", f"no nvcc is locked, expected {view.stack.nvcc}")
        return
    known = NVCC_CAPABILITIES.get(nvcc)
    if known is None:
        text = f"nvcc {dotted(nvcc)} is locked, but audit_data.py does not know what it accepts"
        yield Finding("A15", "error", text)
    elif view.tier.capability not in known:
        text = f"nvcc {dotted(nvcc)} does not compile for {dotted(view.tier.capability)}"
        yield Finding("A15", "error", text)


def _host_compiler(view: View) -> Iterator[Finding]:
    nvcc, gcc = view.minor("cuda-nvcc-tools"), view.minor("gcc_impl_linux-64")
    cuda = tiers.load().cuda.get(dotted(nvcc)) if nvcc else None
    if nvcc and gcc and cuda and gcc[0] > cuda.gcc:
        text = f"nvcc {dotted(nvcc)} accepts gcc up to {cuda.gcc}, {gcc[0]} is locked"
        yield Finding("A16", "error", text)


def _one_cuda(view: View) -> Iterator[Finding]:
    """cuda-version, toolkit components and tiers.toml have to name one version."""
    names = ("cuda-version", "cudatoolkit", "cuda-cudart", "cuda-nvcc-tools", "cuda-nvrtc")
    found = {name: dotted(minor(view.packages[name])) for name in names if name in view.packages}
    if view.stack and found:
        found["envs/tiers.toml"] = view.stack.cuda
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{name} {version}" for name, version in found.items())
        yield Finding("A17", "error", f"more than one CUDA version: {listed}")


def _cudnn(view: View) -> Iterator[Finding]:
    cudnn = view.first("libcudnn", "cudnn")
    if view.tier is None or cudnn is None or not view.tier.cudnn.below:
        return
    if minor(cudnn) >= tuple(int(part) for part in view.tier.cudnn.below.split(".")[:2]):
        text = f"cuDNN {cudnn.record.version} dropped this card: {view.tier.cudnn.reason}"
        yield Finding("A18", "error", text)


def _vc_runtime(view: View) -> Iterator[Finding]:
    if view.platform.subdir != "win-64":
        return
    found = view.minor("vc14_runtime")
    if found is None or found < VC_RUNTIME:
        has = dotted(found) if found else "none"
        yield Finding("A21", "error", f"vc14_runtime {has}, expected {dotted(VC_RUNTIME)} or newer")


def _openmp(view: View) -> Iterator[Finding]:
    """_openmp_mutex picks one OpenMP; further runtimes in one process can abort it."""
    if "_openmp_mutex" not in view.packages and view.first(*TORCH):
        yield Finding("A22", "error", "no _openmp_mutex is locked: two OpenMP runtimes can meet")
    if {"libgomp", "llvm-openmp"} <= view.packages.keys():
        yield Finding("A23", "info", "libgomp lies beside llvm-openmp")
    if {"intel-openmp", "llvm-openmp"} <= view.packages.keys():
        users = "; ".join(
            f"{name}: {_users(view, name)}" for name in ("intel-openmp", "llvm-openmp")
        )
        yield Finding("A24", "warning", f"intel-openmp lies beside llvm-openmp ({users})")


def _users(view: View, name: str) -> str:
    users = [
        package.name
        for package in view.packages.values()
        if any(needed == name for needed, _ in package.depends)
    ]
    return ", ".join(sorted(users)) or "nothing"


def _sizes(view: View) -> Iterator[Finding]:
    unknown = sorted(p.name for p in view.packages.values() if "size" not in p.entry)
    if unknown:
        text = f"{len(unknown)} of unknown download size: {', '.join(unknown)}"
        yield Finding("A33", "info", text)
