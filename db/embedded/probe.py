"""Can this CPU run the packaged pgvector? It was compiled for the machine that built the package, and dies of
an illegal instruction where that machine could do more. Asked once for each set of binaries and kind of CPU,
in a server of a single process without a socket, on a cluster nobody uses yet."""

from __future__ import annotations

import hashlib
import json
import platform
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .binaries import Binaries
from .layout import Layout, write_private
from .process import run_tool

PASSED = "cems-vector-works"
CRASHES = {signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGTRAP}

# Of each kind of operation one: the crash may be in any of them. They leave nothing behind.
_NEAR = (
    "select count(*) from (select i from probe order by {0} (select {1} from probe where i = 7) limit 5) s"
)
_STATEMENTS = (
    "create extension vector",
    "create table probe as select i, array(select sin(i * j)::real from generate_series(1, 384) j)"
    "::vector(384) as v from generate_series(1, 200) i",
    "create index on probe using hnsw ((v::halfvec(384)) halfvec_cosine_ops)",
    "create index on probe using hnsw (v vector_l2_ops)",
    "create index on probe using ivfflat (v vector_ip_ops) with (lists = 4)",
    "set enable_seqscan = off",
    _NEAR.format("v::halfvec(384) <=>", "v::halfvec(384)"),
    _NEAR.format("v <->", "v"),
    _NEAR.format("v <#>", "v"),
    "create view pair as select v, lead(v) over (order by i) w from probe",
    "select v <-> w, v <#> w, v <=> w, v <+> w, v + w, v * w from pair",
    "select v::text, vector_norm(v), l2_normalize(v) from pair",
    "select v::halfvec <-> w::halfvec, v::halfvec <#> w::halfvec, v::halfvec <+> w::halfvec from pair",
    "select v::sparsevec <=> w::sparsevec from pair",
    "select b <~> c, b <%> c from (select binary_quantize(v) b, binary_quantize(w) c from pair) s",
    "select avg(v), sum(v::halfvec) from probe",
    "select 'cems-vector-' || 'works' where (select '[3,4]'::vector <-> '[0,0]' = 5"
    " and '[1,1]'::halfvec <=> '[2,2]' < 0.001)",
    "drop view pair",
    "drop table probe",
    "drop extension vector",
)


@dataclass(frozen=True)
class Verdict:
    """What became of a probe."""

    reason: str | None
    """Why the binaries cannot be used; None when they can."""
    final: bool
    """Whether it would come out the same again: a crash would, a full disk would not."""


def run(layout: Layout, binaries: Binaries, cluster: Path) -> Verdict:
    """Run pgvector's operations on a cluster that no server uses, and leave no trace in it."""
    argv: list[str | Path] = [binaries.bindir / "postgres", "--single", "-D", cluster]
    for setting in (
        "exit_on_error=on",
        "fsync=off",
        "log_min_messages=fatal",
        "dynamic_shared_memory_type=mmap",
    ):
        argv += ["-c", setting]
    stdin = "\n".join(_STATEMENTS) + "\n"  # a single-process server takes a line for a statement
    done = run_tool(layout, [*argv, "postgres"], binaries.env(), stdin=stdin)
    if done.returncode == 0 and PASSED in done.stdout:
        return Verdict(None, final=True)
    if -done.returncode in CRASHES:
        return Verdict(f"pgvector crashes on this CPU ({signal.Signals(-done.returncode).name})", final=True)
    return Verdict(f"pgvector does not work: {done.stdout.strip()[-500:]}", final=False)


def recall(layout: Layout, binaries: Binaries) -> Verdict | None:
    """What an earlier probe of these very binaries on this kind of CPU found, if there was one."""
    known = _read(layout)
    key = _key(binaries)
    return Verdict(known[key], final=True) if key in known else None


def remember(layout: Layout, binaries: Binaries, verdict: Verdict) -> None:
    """Keep a final verdict for the next start."""
    if verdict.final:
        text = json.dumps(_read(layout) | {_key(binaries): verdict.reason}, indent=1)
        write_private(_file(layout), text + "\n", layout)


def _file(layout: Layout) -> Path:
    return layout.top / "probe.json"


def _read(layout: Layout) -> dict[str, str | None]:
    try:
        known = json.loads(_file(layout).read_bytes())
    except (FileNotFoundError, ValueError):  # damaged: probing again costs half a second
        return {}
    return known if isinstance(known, dict) else {}


def _key(binaries: Binaries) -> str:
    return f"{binaries.label}, {binaries.stamp}, {_cpu()}"


def _cpu() -> str:
    """What the CPU can do, as a short name that is equal on equal CPUs."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(errors="replace").splitlines()
        able = next((line for line in lines if line.startswith(("flags", "Features", "isa"))), "")
    else:
        names = ("machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features")
        asked = [
            subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, check=False)
            for name in names
        ]
        able = " ".join(done.stdout.decode(errors="replace").strip() for done in asked)
    return f"{platform.machine()}-{hashlib.sha256(able.encode()).hexdigest()[:12]}"
