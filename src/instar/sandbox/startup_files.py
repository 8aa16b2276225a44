"""The table of start-up files: what a machine runs by itself, later and outside every shield.

`home` stands for the person's home folder, other paths for the machine's, which only root can write. A folder's files
count as far as `names` matches theirs, down to `depth`.
"""

import re
from typing import Final, NamedTuple


class StartupPlace(NamedTuple):
    """A place, and the reason why a change of it counts. `names` None: it is a file, which need not exist."""

    path: str
    reason: str
    names: re.Pattern[str] | None = None
    depth: int = 1


HOME: Final = "~/"
GIT: Final = "git reads it in every repository"
"""The reason of a configuration of git: of its keys only those count that can run a program."""
PATH: Final = "its folder is on the PATH"
"""The reason of a program: a new one counts only where it stands for another of its name."""


def _files(reason: str, *paths: str) -> list[StartupPlace]:
    return [StartupPlace(path, reason) for path in paths]


def _folders(reason: str, *paths: str, depth: int = 1, names: str = "") -> list[StartupPlace]:
    return [StartupPlace(path, reason, re.compile(names), depth) for path in paths]


_PYTHON: Final = r"\.pth$|^(user|site)customize(\.py)?$"
_EVERY_PYTHON: Final = "every start of Python runs it"
_SHELL: Final = "a shell runs it at its start"
_LOGIN: Final = "a login runs it"
_EDITOR: Final = "an editor runs it at its start"
_CRON: Final = "cron runs it"
_SYSTEMD: Final = "systemd starts it"
_SSH: Final = "ssh lets somebody in or runs something by it"
_PACKAGES: Final = "it chooses where packages come from"
_LOADER: Final = "every program loads what it names"

STARTUP_PLACES: Final = (
    *_files(_SHELL, "~/.bashrc", "~/.bash_aliases", "~/.bash_logout", "~/.zshrc", "~/.zshenv", "~/.zlogout"),
    *_files(_SHELL, "~/.kshrc", "~/.cshrc", "~/.tcshrc", "~/.inputrc", "~/.config/fish/config.fish"),
    *_folders(_SHELL, "~/.config/fish/conf.d", "~/.config/fish/functions"),
    *_files(_LOGIN, "~/.profile", "~/.bash_profile", "~/.bash_login", "~/.zprofile", "~/.zlogin", "~/.login"),
    *_files(_LOGIN, "~/.xprofile", "~/.xinitrc", "~/.xsession", "~/.xsessionrc", "~/.pam_environment"),
    *_folders(_LOGIN, "~/.config/environment.d", "~/.config/autostart"),
    *_files(GIT, "~/.gitconfig", "~/.config/git/config"),
    *_files(_SSH, "~/.ssh/authorized_keys", "~/.ssh/authorized_keys2", "~/.ssh/config"),
    *_files(_SSH, "~/.ssh/rc", "~/.ssh/environment"),
    *_files(_EDITOR, "~/.vimrc", "~/.gvimrc", "~/.exrc", "~/.vim/vimrc", "~/.emacs", "~/.emacs.el"),
    *_files(_EDITOR, "~/.emacs.d/init.el", "~/.emacs.d/early-init.el", "~/.config/emacs/init.el"),
    *_folders(_EDITOR, "~/.vim/plugin", "~/.vim/autoload", "~/.vim/ftplugin", "~/.vim/after", depth=2),
    *_folders(_EDITOR, "~/.config/nvim", depth=4, names=r"\.(vim|lua)$"),
    *_files("a terminal runs it at its start", "~/.tmux.conf", "~/.config/tmux/tmux.conf", "~/.screenrc"),
    *_files("gdb runs it at its start", "~/.gdbinit", "~/.config/gdb/gdbinit"),
    *_folders(_SYSTEMD, "~/.config/systemd/user", "~/.local/share/systemd/user", depth=2),
    *_folders(PATH, "~/bin", "~/.local/bin"),
    *_folders(_EVERY_PYTHON, "~/.local/lib/python3*/site-packages", names=_PYTHON),
    *_files(_PACKAGES, "~/.npmrc", "~/.pip/pip.conf", "~/.config/pip/pip.conf"),
    *_files(_CRON, "/etc/crontab", "/etc/anacrontab"),
    *_folders(_CRON, "/var/spool/cron", "/var/spool/at", depth=2),
    *_folders(_CRON, "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly"),
    *_folders(_CRON, "/etc/cron.monthly"),
    *_folders(_SYSTEMD, "/etc/systemd/system", "/etc/systemd/user", depth=2),
    *_folders(_SYSTEMD, "/usr/local/lib/systemd/system", "/usr/local/lib/systemd/user", depth=2),
    *_folders("the machine's start runs it", "/etc/init.d", "/etc/xdg/autostart"),
    *_files("the machine's start runs it", "/etc/rc.local"),
    *_files(_LOADER, "/etc/ld.so.preload", "/etc/ld.so.conf"),
    *_folders(_LOADER, "/etc/ld.so.conf.d"),
    *_files(_SHELL, "/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zshrc", "/etc/zshenv"),
    *_folders(_SHELL, "/etc/profile.d", "/etc/zsh", "/etc/fish/conf.d"),
    *_files(_LOGIN, "/etc/environment", "/etc/security/pam_env.conf", "/etc/pam.conf"),
    *_folders(_LOGIN, "/etc/pam.d"),
    *_files("it says who becomes root", "/etc/sudoers"),
    *_folders("it says who becomes root", "/etc/sudoers.d"),
    *_files(GIT, "/etc/gitconfig"),
    *_files(_SSH, "/etc/ssh/sshd_config", "/etc/ssh/ssh_config", "/etc/ssh/sshrc"),
    *_folders(_SSH, "/etc/ssh/sshd_config.d", "/etc/ssh/ssh_config.d"),
    *_files(_EDITOR, "/etc/vim/vimrc.local", "/etc/vimrc"),
    *_folders(PATH, "/usr/local/bin", "/usr/local/sbin"),
    *_folders(_EVERY_PYTHON, "/usr/local/lib/python3*/site-packages", names=_PYTHON),
    *_folders(_EVERY_PYTHON, "/usr/local/lib/python3*/dist-packages", names=_PYTHON),
    *_folders(_EVERY_PYTHON, "/usr/lib/python3*/dist-packages", names=_PYTHON),
    *_folders(_EVERY_PYTHON, "/usr/lib/python3*/site-packages", "/etc/python3*", names=_PYTHON),
    *_files(_PACKAGES, "/etc/npmrc", "/etc/pip.conf"),
)

REFUSED: Final = ("/var/spool/cron", "/var/spool/at", "/etc/cron.d", "/etc/crontab", "/etc/ld.so.preload")
"""What of the machine's the kernel keeps read-only for root's children, where it exists.

Not more: package managers write the others. What is absent cannot be refused: Landlock would refuse every new file
beside it, and bubblewrap would leave an empty file there.
"""
