"""What VS Code Remote-SSH asks of a Linux host, and where in a connection the lack of it shows.

Source of the figures: the VS Code documentation, page "Remote Development with Linux" (Linux prerequisites), table
"Remote host / container / WSL Linux prerequisites", row "General": kernel 4.18, glibc 2.28, libstdc++ 3.4.25 (that is
the symbol version GLIBCXX_3.4.25) or newer, tar; for Remote-SSH an OpenSSH server, bash, and curl or wget. The row
"Alpine Linux" says that Remote-SSH does not support musl.
"""

from __future__ import annotations

Version = tuple[int, ...]

SOURCE = 'the VS Code documentation, "Remote Development with Linux" (Linux prerequisites)'

KERNEL: Version = (4, 18)
GLIBC: Version = (2, 28)
LIBSTDCXX: Version = (3, 4, 25)

#: Bytes free in the home folder, where the server is unpacked. The documentation gives no figure: this is a reserve of
#: this example's own, for one server (some hundred megabytes) and a few extensions.
FREE_DISK = 1_000_000_000

#: The stages of a first connection, in order.
STAGES = ("login", "download", "install", "start")
