"""The private MySQL server, its clients, and the tables that are measured."""

import os
import re
import shlex
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parent / "services" / "mysql.sh"
DATABASE = "headwater_bench"


def file_number(name):
    """The number of a binlog file: names do not compare as text past six digits."""
    return int(name.rsplit(".", 1)[1])


class Server:
    def __init__(self):
        self.name = f"bench-{os.getpid()}"
        # The tables stay in memory, so that both sides wait for no disk of the server. Removed when we end.
        self.environment = {"HEADWATER_MYSQL_POOL": "1G", "HEADWATER_OWNER": str(os.getpid())} | os.environ
        self._script("start", self.name)
        words = shlex.split(self._script("env", self.name))
        self.settings = dict(word.split("=", 1) for word in words)
        self.tools = Path(self._script("tools").strip())

    def remove(self):
        self.sql(f"DROP DATABASE IF EXISTS {DATABASE}")  # a server that was given stays
        self._script("rm", self.name)

    def _script(self, *arguments, stdin=""):
        done = subprocess.run([SCRIPT, *arguments], env=self.environment, text=True, input=stdin, stdout=subprocess.PIPE)
        if done.returncode:
            raise SystemExit(f"bench: {SCRIPT.name} {' '.join(arguments)} failed; it says why above")
        return done.stdout

    def sql(self, text):
        """Runs statements; gives the rows as lists of text."""
        out = self._script("sql", self.name, "--batch", "--skip-column-names", stdin=text)
        return [line.split("\t") for line in out.splitlines()]

    def create_tables(self):
        self.sql((HERE / "load.sql").read_text())
        self.new_log_file()  # jobs begin with an empty file, on a server with and without GTIDs alike

    def fill(self, table, rows, log=True):
        self.sql(f"USE {DATABASE}; SET sql_log_bin = {int(log)}; CALL fill('{table}', {rows})")

    def update(self, count, ids):
        self.sql(f"USE {DATABASE}; CALL update_rows({count}, {ids})")

    def new_log_file(self):
        """What is written from here on stands in files that begin here; gives the first one's name."""
        self.sql("FLUSH BINARY LOGS")
        return self.position()[0]

    def position(self):
        """The end of the log: file and offset."""
        file, offset = self.sql("SHOW BINARY LOG STATUS")[0][:2]
        return file, int(offset)

    def version(self):
        return self.sql("SELECT VERSION()")[0][0]

    def _login(self):
        # Without TLS, as the job connects: encryption would make the yardstick slower.
        user, password = self.settings["user"], self.settings["password"]
        return ["--no-defaults", f"-h{self.settings['host']}", f"-P{self.settings['port']}", f"-u{user}",
                f"-p{password}", "--ssl-mode=DISABLED", "--get-server-public-key"]

    def client_command(self, table):
        """Reads a table and forgets it."""
        return [self.tools / "mysql", *self._login(), "--quick", "-e", f"SELECT * FROM {table}", DATABASE]

    def mysqlbinlog_command(self, first):
        """Prints the rows of the log from a file on: from the server's own files, or over the network if they are
        not on this machine."""
        files = [row[0] for row in self.sql("SHOW BINARY LOGS")]
        files = [name for name in files if file_number(name) >= file_number(first)]
        folder = Path(self.settings["data"])
        if folder.is_dir():
            return [self.tools / "mysqlbinlog", "--no-defaults", "--verbose", *(folder / name for name in files)]
        return [self.tools / "mysqlbinlog", *self._login(), "--read-from-remote-server", "--verbose", *files]


def parse_position(text):
    """File and offset at the front of a position as the job writes it: `binlog.000003:1234 (GTID …)`."""
    found = re.match(r"(\S+):(\d+)", text)
    return (found[1], int(found[2])) if found else None


def at_or_after(position, end):
    return (file_number(position[0]), position[1]) >= (file_number(end[0]), end[1])
