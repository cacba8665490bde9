"""The namespaces that Linux itself has made: what runs in them is in no container."""

from __future__ import annotations

# What the kernel calls its own first namespaces: Linux, include/uapi/linux/nsfs.h. All others were made by somebody,
# and count up from 4026531840.
FIRST_NAMESPACES = {
    "cgroup": "cgroup:[4026531835]",
    "ipc": "ipc:[4026531839]",
    "pid": "pid:[4026531836]",
    "time": "time:[4026531834]",
    "user": "user:[4026531837]",
    "uts": "uts:[4026531838]",
}
