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

    def create(self, name, table):
        self.sql(f"USE {DATABASE}; SET sql_log_bin = 0; DROP TABLE IF EXISTS {name}; {table.create(name)}")

    def fill(self, name, table, rows, log=True, batch=1000):
        """Inserts so many rows, `batch` of them in a transaction."""
        statement = table.insert(name).replace("'", "''")
        self.sql(f"USE {DATABASE}; SET sql_log_bin = {int(log)}; CALL fill('{statement}', {rows}, {batch})")

    def drop(self, name):
        self.sql(f"SET sql_log_bin = 0; DROP TABLE IF EXISTS {DATABASE}.{name}")

    def update(self, count, ids):
        self.sql(f"USE {DATABASE}; CALL update_rows({count}, {ids})")

    def delete(self, count, ids):
        self.sql(f"USE {DATABASE}; CALL delete_rows({count}, {ids})")

    def new_log_file(self):
        """What is written from here on stands in files that begin here; gives the first one's name."""
        self.sql("FLUSH BINARY LOGS")
        return self.position()[0]

    def position(self):
        """The end of the log: file and offset."""
        file, offset = self.sql("SHOW BINARY LOG STATUS")[0][:2]
        return file, int(offset)

    def session(self):
        """One connection for many statements."""
        return Session([self.tools / "mysql", *self._login(), "--unbuffered", "--batch", "--skip-column-names", DATABASE])

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

    def raw_log_command(self, file, folder):
        """Copies a file of the log into a folder, as it is."""
        return [self.tools / "mysqlbinlog", *self._login(), "--read-from-remote-server", "--raw", f"--result-file={folder}/", file]


class Session:
    def __init__(self, command):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()

    def run(self, statement):
        """Returns when the server has answered."""
        self._lines(f"{statement};")

    def position(self):
        """The end of the log as a number of the file and an offset."""
        file, offset = self._lines("SHOW BINARY LOG STATUS;")[0].split("\t")[:2]
        return file_number(file), int(offset)

    def _lines(self, statement):
        self.child.stdin.write(f"{statement} SELECT 'done';\n")
        self.child.stdin.flush()
        lines = []
        while (line := self.child.stdout.readline()) != "done\n":
            if not line:
                raise SystemExit("bench: the client of the server ended; it says why above")
            lines.append(line.rstrip("\n"))
        return lines


def parse_position(text):
    """File and offset at the front of a position as the job writes it: `binlog.000003:1234 (GTID …)`."""
    found = re.match(r"(\S+):(\d+)", text)
    return (found[1], int(found[2])) if found else None


def at_or_after(position, end):
    return (file_number(position[0]), position[1]) >= (file_number(end[0]), end[1])
