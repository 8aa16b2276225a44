"""What bad candidates do, as Python code that is put into a script: crash, hang, multiply, write, call, flood.

A bomb stops by itself at some hundred processes: the kernel counts none of root's, and the machine is shared.
"""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.campaign.bot import Bot, word


class Lures(NamedTuple):
    """What a bad candidate goes for. `port` and `socket` are listened on; what it starts has `mark` in its argv."""

    root: Path
    home: Path
    outside: Path
    data: Path
    socket: Path
    port: int
    mark: str


class Case(NamedTuple):
    """What a generator is given: chance, the live version, its prompts, and what to go for."""

    chance: random.Random
    bot: Bot
    prompts: Mapping[str, str]
    lures: Lures


def one_of(*codes: str) -> Callable[[Case], str]:
    """Return code with the lures filled in."""

    def fill(case: Case) -> str:
        code, lures = case.chance.choice(codes), case.lures
        for name, value in lures._asdict().items():
            code = code.replace(f"<{name}>", str(value))
        return code.replace("<word>", word(case.chance))

    return fill


CRASH = one_of(
    'raise RuntimeError("<word>")',
    "os._exit(3)",
    "os.abort()",
    "os.kill(os.getpid(), 9)",
    'sys.exit("<word>")',
    "import <word>",
    "print(1 // 0)",
)
HANG = one_of(
    "while True: pass",
    "import time; time.sleep(1000)",
    "import signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()",
    "os.read(os.pipe()[0], 1)",
    "[0 for _ in iter(int, 1)]",
)
BOMB = one_of(
    "children = []\nfor _ in range(300):\n    if not (pid := os.fork()):\n        import time; time.sleep(300)\n"
    "    children.append(pid)\nos.waitpid(children[0], 0)",
    "for _ in range(8):\n    try:\n        os.fork()\n    except OSError:\n        pass\nimport time; time.sleep(300)",
    'import subprocess\nfor _ in range(100):\n    subprocess.Popen(["sleep", "<mark>"], start_new_session=True)\n'
    "os._exit(5)",
)
DAEMON = one_of(
    'import subprocess\nsubprocess.Popen(["sleep", "<mark>"], start_new_session=True)\nos._exit(4)',
    "if not os.fork():\n    os.setsid()\n    if not os.fork():\n        os.close(0); os.close(1); os.close(2)\n"
    '        os.execvp("sleep", ["sleep", "<mark>"])\n    os._exit(0)\nraise RuntimeError("<word>")',
    "import subprocess\nsubprocess.Popen(\"trap '' TERM HUP INT; exec -a x sleep <mark>; sleep <mark>\", shell=True, "
    'start_new_session=True, executable="/bin/bash")\nos.kill(os.getpid(), 11)',
)
HOG = one_of(
    "held = bytearray(1 << 20)\nwhile True: held += held; held[-1] = 1",
    "held = []\nwhile True: held.append(bytearray(1 << 26))",
    'held = "x" * (1 << 40)',
    "held = {}\nfor n in range(1 << 40): held[n] = bytes(1 << 22)",
    'with open("/dev/shm/<word>", "wb") as file:\n    while True: file.write(bytes(1 << 24)); file.flush()',
    'with open(os.path.join(os.environ.get("TMPDIR", "/tmp"), "<word>"), "wb") as file:\n'
    "    while True: file.write(bytes(1 << 24)); file.flush()",
)
WRITER = one_of(
    'open("<home>/.bashrc", "a").write("<mark>")',
    'open("<home>/new-<mark>", "w").close()',
    'os.remove("<home>/.gitconfig")',
    'os.rename("<home>/.gitconfig", "<home>/<mark>")',
    'os.truncate("<outside>/precious", 0)',
    'os.chmod("<outside>/precious", 0o777)',
    'open("<outside>/precious", "r+").write("<mark>")',
    'os.symlink("/etc/passwd", "<outside>/<mark>")',
    'os.mkdir("<root>/../<mark>-beside/deep")',
    'open("<data>/<mark>", "w").close()',
    'import shutil; shutil.rmtree("<data>")',
    'os.listdir("<data>")[0]; open("<home>/<mark>", "w")',
    'open("<home>/.ssh/id", "r").read()',
    'import subprocess; subprocess.run(["touch", "<home>/<mark>"], check=True)',
    'import subprocess; subprocess.run("echo <mark> >> <outside>/precious", shell=True, check=True)',
    'os.link("<outside>/precious", "<root>/state-<mark>")',
    'open("<root>/.git/config", "a").write("[core]")\nopen("<root>/.git/HEAD").read()',
)
CALLER = one_of(
    'import socket; socket.create_connection(("127.0.0.1", <port>), 2).send(b"<mark>")',
    'import urllib.request; urllib.request.urlopen("http://127.0.0.1:<port>/<mark>", timeout=2)',
    'import socket; socket.create_connection(("1.1.1.1", 53), 2)',
    'import socket; socket.getaddrinfo("<word>.example.org", 80)',
    'import subprocess; subprocess.run(["bash", "-c", "echo <mark> > /dev/tcp/127.0.0.1/<port>"], check=True)',
    'import socket; one = socket.socket(socket.AF_UNIX); one.connect("<socket>"); one.send(b"<mark>")',
)
FLOOD = one_of(
    'print("x" * 11_000_000)',
    'for _ in range(1100): sys.stdout.write("y" * 10_000)',
    'while True: print("{}")',
    'line = json.dumps({"log": "z" * 1000})\nfor _ in range(12_000): print(line)',
)
MALFORMED = one_of(
    'print("not JSON")',
    "print([1])",
    'sys.stdout.flush(); os.write(1, b"\\xff\\xfe\\n")',
    "print('{\"a\":')",
    'print("null")',
    "print('{} {}')",
    "print(\"{'a': 1}\")",
)
SILENT = one_of("os._exit(0)", "sys.exit(0)", "return {}")
UNKNOWN = one_of('print(json.dumps({"error": "unknown hook: " + sys.argv[1]})); sys.exit(1)')
WRITES_GUARDED = one_of(
    'here = os.path.dirname(sys.argv[0])\nopen(here + "/../tests/bot-<mark>", "w").close()',
    'here = os.path.dirname(sys.argv[0])\nopen(here + "/bot.py", "a").write("# <mark>")',
    'here = os.path.dirname(sys.argv[0])\nos.rename(here + "/../prompts/chat.md", here + "/../prompts/<mark>")',
    'here = os.path.dirname(sys.argv[0])\nopen(here + "/../config/evolve.jsonc", "w").write("{}")',
    'here = os.path.dirname(sys.argv[0])\nos.mkdir(here + "/<mark>"); os.rmdir(here + "/<mark>")',
)
"""What a copy lets a script do, and the shield does not."""
