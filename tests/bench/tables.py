"""The tables that are measured: what their rows are like, and the SQL that makes them on the server, the same on every
run. Row n is made of n alone."""

from dataclasses import dataclass

DIGITS = [61803398867, 31415926541, 27182818283, 14142135623, 17320508077, 22360679783, 26457513107, 33166247909,
          36055512757, 41231056261, 43588989439, 47958315233, 53851648073, 55677643631, 60827625307]
WIDE_COLUMNS = 200


@dataclass
class Table:
    """A table: its columns with their types, an expression of n for each, and what follows the columns."""
    columns: dict  # name: (type, expression)
    key: str
    # Bytes of a row are far apart from table to table: so many rows make about the same amount of work.
    share: float = 1.0

    def create(self, name):
        columns = ", ".join(f"{column} {kind}" for column, (kind, _) in self.columns.items())
        return f"CREATE TABLE {name} ({columns}, {self.key})"

    def insert(self, name):
        """Takes the rows n + 1 to n + count; both are parameters."""
        expressions = ", ".join(expression for _, expression in self.columns.values())
        return (f"INSERT INTO {name} ({', '.join(self.columns)}) SELECT {expressions} "
                f"FROM (SELECT ? + n AS n FROM numbers WHERE n <= ? ORDER BY n) AS r")


def digits(count, first=0):
    """Groups of eleven digits with hyphens between, as in sysbench."""
    groups = (f"LPAD(MOD(n * {factor}, 99999999977), 11, '0')" for factor in DIGITS[first:first + count])
    return f"CONCAT_WS('-', {', '.join(groups)})"


def pick(*words, step=1):
    return f"ELT(1 + MOD(n * {step}, {len(words)}), {', '.join(repr(word) for word in words)})"


def spread(modulus, factor=2654435761):
    """A number below a modulus that looks random."""
    return f"MOD(n * {factor}, {modulus})"


def sysbench():
    return Table({
        "id": ("INT NOT NULL", "n"),
        "k": ("INT NOT NULL DEFAULT 0", f"1 + {spread(2_000_003, 6180339)}"),
        "c": ("CHAR(120) NOT NULL DEFAULT ''", digits(10)),
        "pad": ("CHAR(60) NOT NULL DEFAULT ''", digits(5, 10)),
    }, "PRIMARY KEY (id), KEY k_1 (k)")


def lineitem():
    """TPC-H's largest table: 16 columns, most of them short, a key of two; about four lines an order."""
    day = lambda shift: f"DATE_ADD('1992-01-02', INTERVAL {spread(2400, 40503)} + {shift} DAY)"
    return Table({
        "l_orderkey": ("BIGINT NOT NULL", "1 + (n DIV 4) * 4"),
        "l_partkey": ("BIGINT NOT NULL", f"1 + {spread(200_003)}"),
        "l_suppkey": ("BIGINT NOT NULL", f"1 + {spread(10_007)}"),
        "l_linenumber": ("INT NOT NULL", "1 + MOD(n, 4)"),
        "l_quantity": ("DECIMAL(15,2) NOT NULL", f"1 + {spread(50, 7)}"),
        "l_extendedprice": ("DECIMAL(15,2) NOT NULL", f"{spread(10_494_950)} / 100 + 901"),
        "l_discount": ("DECIMAL(15,2) NOT NULL", f"{spread(11, 7)} / 100"),
        "l_tax": ("DECIMAL(15,2) NOT NULL", f"{spread(9, 5)} / 100"),
        "l_returnflag": ("CHAR(1) NOT NULL", pick("A", "N", "R", step=5)),
        "l_linestatus": ("CHAR(1) NOT NULL", pick("O", "F", step=3)),
        "l_shipdate": ("DATE NOT NULL", day(0)),
        "l_commitdate": ("DATE NOT NULL", day(30)),
        "l_receiptdate": ("DATE NOT NULL", day(7)),
        "l_shipinstruct": ("CHAR(25) NOT NULL", pick("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")),
        "l_shipmode": ("CHAR(10) NOT NULL", pick("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", step=3)),
        "l_comment": ("VARCHAR(44) NOT NULL", f"LEFT(CONCAT_WS(' ', {pick('furiously', 'carefully', 'quickly', 'slyly')}, "
                      f"{pick('final', 'express', 'bold', 'regular', 'ironic', step=7)}, LEFT(SHA2(n, 224), 32)), 10 + {spread(34, 11)})"),
    }, "PRIMARY KEY (l_orderkey, l_linenumber)")


def wide():
    """200 columns, a quarter of them NULL in each row."""
    kinds = [
        ("INT", lambda i: spread(1_000_003, i * 7919)),
        ("VARCHAR(40)", lambda i: f"CONCAT('value-', {spread(5_000, i * 104_729)})"),
        ("DECIMAL(12,3)", lambda i: f"{spread(999_983, i * 1_299_709)} / 1000"),
        ("DATETIME(3)", lambda i: f"DATE_ADD('2024-01-01', INTERVAL {spread(31_536_000, i * 15_485_863)} SECOND)"),
        ("DOUBLE", lambda i: f"{spread(1_000_003, i * 32_452_843)} / 7"),
    ]
    columns = {"id": ("BIGINT NOT NULL", "n")}
    for i in range(1, WIDE_COLUMNS):
        kind, expression = kinds[i % len(kinds)]
        columns[f"c{i}"] = (kind, f"IF(MOD(n + {i}, 4) = 0, NULL, {expression(i)})")
    return Table(columns, "PRIMARY KEY (id)", share=0.05)


def texts():
    """Articles: a JSON document and about two kilobytes of text a row."""
    words = "CONCAT_WS(' ', LEFT(SHA2(n, 224), 32), 'the quick brown fox', LEFT(SHA2(n, 224), 40), 'jumps over the lazy dog', LEFT(SHA2(n + 1, 224), 32), '\u00e4\u00f6\u00fc\u2603')"
    document = ("JSON_OBJECT('id', n, 'tags', JSON_ARRAY(LEFT(SHA2(n, 224), 32), 'news', n % 7), 'author', JSON_OBJECT('name', "
                f"CONCAT('author ', {spread(997)}), 'karma', n * 1.5), 'draft', n % 2 = 0)")
    return Table({
        "id": ("BIGINT NOT NULL", "n"),
        "title": ("VARCHAR(200)", f"CONCAT('Article ', n, ' ', {words})"),
        "body": ("TEXT", f"REPEAT({words}, 2 + {spread(24, 11)})"),
        "attributes": ("JSON", document),
    }, "PRIMARY KEY (id)", share=0.1)


def strings():
    """A key of two texts, in no order."""
    return Table({
        "tenant": ("VARCHAR(20) NOT NULL", f"CONCAT('tenant-', {spread(97)})"),
        "code": ("VARCHAR(40) NOT NULL", "CONCAT(LEFT(SHA2(n, 224), 12), '-', n)"),
        "amount": ("DECIMAL(15,2)", f"{spread(999_983)} / 100"),
        "changed": ("DATETIME(6)", "DATE_ADD('2024-01-01', INTERVAL n SECOND)"),
    }, "PRIMARY KEY (tenant, code)", share=0.5)


# What a snapshot is measured on, and what of the goals is said for it: rows/s and CPU against `mysql --quick`.
SNAPSHOTS = {
    "sysbench": (sysbench(), 1.25, 0.9),
    "lineitem": (lineitem(), 1.25, 1.3),
    "wide": (wide(), None, None),
    "texts": (texts(), None, None),
    "strings": (strings(), None, None),
}
