"""Build recipes into `channel/<subdir>/`: what changed, several at once, byte-reproducible."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import multiprocessing
import multiprocessing.process
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from smforge.channel import archive, publish, recipes
from smforge.channel.recipes import Variant
from smforge.errors import ConfigurationError, ToolchainError

# Built only when it is named: hours of compiling, on Windows alone.
BY_NAME = {"pytorch-kepler": "win-64"}
# The times of a package that no git history dates.
EPOCH = 1_767_225_600  # 2026-01-01


@dataclass(frozen=True)
class Job:
    """What one child process builds; a Variant itself cannot be sent to it."""

    recipe: Path
    file_name: str
    variants: Path | None
    channel: Path
    scratch: Path  # a folder on the channel's disk that goes when the run ends
    level: int  # zstandard's
    replace: bool  # also a different file that was published


@dataclass(frozen=True)
class Built:
    """What became of one package."""

    path: Path
    kept: bool  # its inputs had not changed
    seconds: float
    size: int  # bytes


def select(folder: Path, names: Sequence[str]) -> list[Path]:
    """The recipe folders to build: those named, else all that are not built by name alone.

    Raises:
        ConfigurationError: no such recipe.
        ToolchainError: the recipe does not build on this machine.
    """
    found = recipes.discover(folder)
    for name in names:
        if name not in found:
            known = ", ".join(found)
            raise ConfigurationError(f"no recipe is named {name}; {folder} holds {known}")
        wanted = BY_NAME.get(name)
        if wanted and wanted != recipes.host_platform():
            raise ToolchainError(
                f"{name} is built on {wanted} only, with Visual Studio 2019, CUDA 11.4 and cuDNN 8 "
                f"(recipes/{name}/README.md); this machine is {recipes.host_platform()}"
            )
    return [found[name] for name in names or found if names or name not in BY_NAME]


def build(
    chosen: Sequence[Path],
    channel: Path,
    variants: Path | None = None,
    level: int = 3,
    replace: bool = False,
) -> list[Built]:
    """Build every variant of the chosen recipes that changed; the channel keeps whole files only.

    Raises:
        ConfigurationError: a recipe does not render, or another file of that name was published.
        ToolchainError: a build failed, an archive is damaged or the disk is full.
        KeyboardInterrupt: the builds that ran were stopped, with everything they had started.
    """
    names = [(folder, v.file_name) for folder in chosen for v in recipes.render(folder, variants)]
    for folder in chosen:
        preflight(folder)
    results = []
    with scratch_folder(channel) as scratch:
        jobs = [Job(*name, variants, channel, scratch, level, replace) for name in names]
        for built in run_jobs(jobs):
            results.append(built)
            tell(built, len(results), len(jobs))
    return sorted(results, key=lambda built: built.path.name)


def run_jobs(jobs: Sequence[Job]) -> Iterator[Built]:
    """Build several packages at once, one for each core, in child processes.

    One job has a child as well: this process could not leave rattler-build at a Ctrl-C.
    """
    if not jobs:
        return
    workers = min(len(jobs), os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")  # rattler-build's threads do not survive a fork
    with concurrent.futures.ProcessPoolExecutor(workers, context, set_apart) as pool:
        try:
            done = concurrent.futures.as_completed([pool.submit(build_one, job) for job in jobs])
            yield from (future.result() for future in done)
        except Exception:  # the builds beside one that failed end well
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        except BaseException:
            for child in multiprocessing.active_children():
                end_tree(child)
            raise


def set_apart() -> None:
    """Lead a process group, so that Ctrl-C reaches the parent alone and the parent ends it all."""
    if sys.platform == "win32":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        os.setsid()


def end_tree(child: multiprocessing.process.BaseProcess) -> None:
    """End a worker with the script that it runs and the script's own children, at once."""
    if child.pid is None:
        return
    with contextlib.suppress(OSError):  # it ended by itself
        if sys.platform == "win32":
            command = ["taskkill", "/T", "/F", "/PID", str(child.pid)]
            subprocess.run(command, capture_output=True, check=False)
        else:
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()  # one that did not lead a group yet


def tell(built: Built, done: int, total: int) -> None:
    """One line of progress."""
    what = "unchanged" if built.kept else f"built in {built.seconds:.1f} s"
    size = f"{built.size / 1e6:.1f} MB"
    recipes.say(f"[{done}/{total}] {built.path.parent.name}/{built.path.name}  {size}  {what}")


def preflight(recipe: Path) -> None:
    """Run the recipe's own check of this machine, if it has one, before anything is built."""
    script = recipe / "preflight.py"
    if script.exists() and subprocess.run([sys.executable, str(script)], check=False).returncode:
        raise ToolchainError(
            f"recipes/{recipe.name} cannot be built here: see the lines above, then run "
            f"`python recipes/{recipe.name}/preflight.py` again"
        )


def build_one(job: Job) -> Built:
    """Build one package and put it into the channel in one step."""
    start = time.monotonic()
    # For recipes that go on where an earlier build broke off; rattler-build's own folders are new.
    os.environ["SMFORGE_WORK"] = str((job.channel / ".build" / Path(job.file_name).stem).resolve())
    rendered = recipes.render(job.recipe, job.variants)
    variant = next(v for v in rendered if v.file_name == job.file_name)
    target = job.channel / variant.subdir / variant.file_name
    inputs = variant.inputs_sha256()
    if target.exists() and built_from(target) == inputs:
        return Built(target, True, time.monotonic() - start, target.stat().st_size)
    try:
        with work_folder(job) as work:
            made = run_build(variant, work)
            packed = work / variant.file_name
            archive.rewrite(made, packed, epoch_of(variant), {"inputs_sha256": inputs}, job.level)
            install(packed, target, job.replace)
    except OSError as error:
        raise ToolchainError(
            f"{variant.file_name} was not built: {error.strerror} ({error.filename}); "
            "the channel is unchanged"
        ) from None
    return Built(target, False, time.monotonic() - start, target.stat().st_size)


def built_from(package: Path) -> str | None:
    """The hash of the inputs that a package was built from, if it says so."""
    about = json.loads(archive.read_info(package)["info/about.json"])
    value = about.get("extra", {}).get("inputs_sha256")
    return value if isinstance(value, str) else None


@contextlib.contextmanager
def scratch_folder(channel: Path) -> Iterator[Path]:
    """A folder on the channel's disk for one run; it goes with all that stopped builds left."""
    root = channel / ".build"
    root.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=root))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for empty in (root, channel):
            with contextlib.suppress(OSError):
                empty.rmdir()


@contextlib.contextmanager
def work_folder(job: Job) -> Iterator[Path]:
    """A folder for one build; a build of hours keeps it, to go on where it broke."""
    if job.recipe.name in BY_NAME:
        kept = job.channel / ".build" / Path(job.file_name).stem
        kept.mkdir(exist_ok=True)
        yield kept
        return
    work = Path(tempfile.mkdtemp(dir=job.scratch))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run_build(variant: Variant, work: Path) -> Path:
    """Run rattler-build; ToolchainError with the script's own error line when it fails."""
    import rattler_build as rb

    log = Log(work / "made.conda")
    # A script of a cross-built package runs with the Python on PATH: this one.
    os.environ["PATH"] = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
    needs = [*variant.requirements.get("build", ()), *variant.requirements.get("host", ())]
    try:
        result = variant.rendered.run_build(
            tool_config=rb.ToolConfiguration(test_strategy="skip"),
            output_dir=work / "out",
            channels=["conda-forge"] if needs else [],
            package_format="conda:-7",  # it is compressed again when it is rewritten
            progress_callback=log,
            no_build_id=variant.name in BY_NAME,
            no_include_recipe=True,  # it holds this machine's paths
        )
    except rb.RattlerBuildError as error:
        raise ToolchainError(f"{variant.file_name}: {log.reason() or error}") from None
    return log.taken if log.taken.exists() else Path(result.packages[0])


class Log:
    """Keeps what rattler-build says, for the one line that a failure gets.

    It also moves the archive to `taken` before rattler-build indexes its output folder, which
    would hash all of it twice for an index that nobody reads: a quarter of a build's time.
    """

    def __init__(self, taken: Path) -> None:
        self.taken = taken
        self.lines: list[str] = []

    def on_log(self, event: object) -> None:
        message = getattr(event, "message", "")
        self.lines.extend(message.splitlines())
        if message.startswith("Skipping tests"):  # the last that it says before it indexes
            written = [re.fullmatch(r"Archive written to '(.+)'", line) for line in self.lines]
            for archived in filter(None, written):
                with contextlib.suppress(OSError):  # left there it is only indexed
                    Path(archived[1]).replace(self.taken)
        if os.environ.get("SMFORGE_BUILD_LOG"):
            recipes.say(message)

    def on_download_start(self, event: object) -> None: ...
    def on_download_progress(self, event: object) -> None: ...
    def on_download_complete(self, event: object) -> None: ...
    def on_build_step(self, event: object) -> None: ...

    def reason(self) -> str:
        """The script's last line that starts with "error: ", else the last line it printed."""
        errors = [line for line in self.lines if line.startswith("error: ")]
        if errors:
            return errors[-1].removeprefix("error: ")
        end = next((i for i, line in enumerate(self.lines) if "Script failed" in line), None)
        return " ".join(self.lines[-3:] if end is None else self.lines[end - 1 : end + 1])


def epoch_of(variant: Variant) -> int:
    """The time that the package carries: SOURCE_DATE_EPOCH, else its inputs' last commit."""
    if os.environ.get("SOURCE_DATE_EPOCH", "").isdigit():
        return int(os.environ["SOURCE_DATE_EPOCH"])
    command = ["git", "log", "-1", "--format=%ct", "--", *map(str, variant.inputs)]
    with contextlib.suppress(OSError):
        run = subprocess.run(
            command, cwd=variant.recipe, capture_output=True, text=True, check=False
        )
        if run.stdout.strip().isdigit():
            return int(run.stdout)
    return EPOCH


def install(packed: Path, target: Path, replace: bool) -> None:
    """Move a finished package into the channel; never over a different one that was published."""
    guarded = target.exists() and not replace and publish.was_published(target)
    if guarded and publish.sha256(packed) != publish.sha256(target):
        raise ConfigurationError(
            f"{target} was published and differs from what was built now: raise build_number in "
            "the recipe, or pass --replace if nobody has it"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    packed.replace(target)
