"""Programs, libraries and code that places with hidden causes have: what keeps a case busy, by variables that it reads;
what is slow as it is; and a filter in front of what is recorded.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from primbench.errors import BackendUnavailable

BUSY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

long turns_of_hidden;
static int has(const char *name, const char *value) {
    const char *found = getenv(name);
    return found && !strcmp(found, value);
}
static void be_busy(void) { for (long i = 0; i < turns_of_hidden; i++) __asm__ volatile("" ::: "memory"); }
__attribute__((constructor)) static void begin(void) {
    turns_of_hidden = FIRST;
TERMS
#ifdef AT_START
    be_busy();
#endif
}
#ifdef IN_GETPPID
pid_t getppid(void) { be_busy(); return syscall(SYS_getppid); }
#endif
#ifdef IN_READ
ssize_t read(int file, void *to, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "read");
    be_busy();
    return next(file, to, count);
}
#endif
unsigned la_version(unsigned version) { return version; }
#ifdef PROGRAM
int main(void) { return 0; }
#endif
"""
"""FIRST: turns of its loop in any case. TERMS: what is added to them, by variables."""
START_CODE = """
import os
import time
end = time.perf_counter() + CALL_S * (FIRST + sum(
    share for share, held in TERMS if all(os.environ.get(name) == value for name, value in held)))
while time.perf_counter() < end:
    pass
"""
FILTERED = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LENGTH 400

int main(int count, char **words) {
    struct sock_filter filter[LENGTH + 1];
    for (int i = 0; i < LENGTH; i++)
        filter[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    filter[LENGTH] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {LENGTH + 1, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 125;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 125;
    execvp(words[1], words + 1);
    return 126;
}
"""
"""A program in front of others that has each of their system calls looked at; the kernel remembers no answer, since it
is one of an argument.
"""

Terms = dict[frozenset[str], float]
"""What each set of variables adds to the time, as a share, where all of it is set."""
FILES = {
    "traced/sitecustomize.py": "import time\nend = time.perf_counter() + 4e-3\nwhile time.perf_counter() < end: pass\n",
    "hooked/sitecustomize.py": "import os\nreal = os.getppid\nos.getppid = lambda: real()\n",
    "front/true": '#!/bin/sh\nexec /bin/true "$@"\n',
    "slower.c": """
#include <sys/syscall.h>
#include <unistd.h>
pid_t getppid(void) {
    for (long i = 0; i < 200; i++) __asm__ volatile("" ::: "memory");
    return syscall(SYS_getppid);
}
""",
    "audit.c": """
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
unsigned la_version(unsigned version) { return LAV_CURRENT; }
unsigned la_objopen(struct link_map *of, Lmid_t space, uintptr_t *cookie) { return LA_FLG_BINDTO | LA_FLG_BINDFROM; }
#ifdef EACH_CALL
Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *of, unsigned number, uintptr_t *from, uintptr_t *to,
                                  La_x86_64_regs *held, unsigned *flags, const char *name, long *room) {
    return of->st_value;
}
#endif
""",
}
"""What the settings name, by its place in a folder; a folder that a Python searches runs its code at its start."""
DEEP = "/".join("abcdefghij" * 12)
FOLDERS = ("real", "shown", "none", "kept", "eight/b/c/d/e/f/g/h", DEEP)


class Busy(NamedTuple):
    """Of a case: how long a call takes with the library that does nothing, and a turn of its loop in a call."""

    call_s: float
    turn_s: float


def furnish(folder: Path) -> None:
    """Make all that settings name. Raises BackendUnavailable without a C compiler."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for number in range(30):
        link = folder / f"link{number}"
        link.unlink(missing_ok=True)
        link.symlink_to(folder / (f"link{number - 1}" if number else "real"))
    (folder / "front/true").chmod(0o755)
    compiled(folder / "slower.so", folder / "slower.c", "-shared", "-fPIC")
    compiled(folder / "audit.so", folder / "audit.c", "-shared", "-fPIC")
    compiled(folder / "traced.so", folder / "audit.c", "-shared", "-fPIC", "-DEACH_CALL")


def compiled(path: Path, source: Path, *options: str) -> None:
    """Raises BackendUnavailable without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise BackendUnavailable("there is no C compiler: install one, such as gcc")
    subprocess.run([compiler, "-O1", *options, "-o", str(path), str(source), "-ldl"], check=True)


def keep_busy(path: Path, hook: str, busy: Busy, first: float, terms: Terms) -> None:
    """hook: what of BUSY is to be. first: what is added to the time in any case, as a share."""
    held = [(share, sorted(map(_variable, each))) for each, share in terms.items()]
    if path.suffix == ".py":
        code = START_CODE.replace("CALL_S", repr(busy.call_s)).replace("FIRST", repr(first))
        path.write_text(code.replace("TERMS", repr(held)))
        return
    turns = busy.call_s / busy.turn_s
    conditions = [(" && ".join(f'has("{name}", "{value}")' for name, value in each), share) for share, each in held]
    added = "\n".join(f"    if ({each}) turns_of_hidden += {round(share * turns)};" for each, share in conditions)
    compile_busy(path, hook, round(first * turns), added)


def _variable(setting: str) -> tuple[str, str]:
    name, _, value = setting.removeprefix("env.").partition("=")
    return name, value


def compile_busy(path: Path, hook: str, first: int, terms: str = "") -> None:
    """A library, or a program, of so many turns in any case. Raises BackendUnavailable without a C compiler."""
    source = path.with_name("busy.c")
    source.write_text(BUSY.replace("FIRST", str(first)).replace("TERMS", terms))
    kind = ("-shared", "-fPIC") if path.suffix == ".so" else ("-DPROGRAM",)
    compiled(path, source, f"-D{hook}", *kind)
