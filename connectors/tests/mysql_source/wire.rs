//! The client of our own that reads chunks: accounts and encryption, values of every type, large
//! ones, and connections that end too early. What it says must be what the other client says.

use std::time::Duration;

use arrow_array::{RecordBatch, cast::AsArray};
use arrow_select::concat::concat_batches;
use headwater_connectors::{
    ChunkEnd, Error, Source, Split, TableSchema,
    mysql::{Hosts, MysqlOptions, MysqlSource, Password, Tls},
};
use mysql_async::prelude::Queryable;
use tokio::sync::mpsc;

use crate::{server::Db, walk::chunk};

fn all_of(schema: &TableSchema) -> Split {
    Split {
        table: schema.name.clone(),
        id: 0,
        after: None,
        upto: None,
    }
}

fn as_user(db: &Db, user: &str, password: &str, tls: Tls) -> MysqlOptions {
    let mut options = db.options();
    options.username = user.into();
    options.password = Password::new(password);
    options.tls = tls;
    options.connect_max_retries = 0;
    options
}

/// What goes wrong with the client that reads chunks; the other client must say the same.
async fn refused(options: MysqlOptions) -> Error {
    let source = MysqlSource::new(options);
    let Err(ours) = source.reader().await else {
        panic!("a reader was opened");
    };
    let theirs = source.discover().await.unwrap_err();
    // A server hides which accounts it has: for one that it has not it asks for any plugin, also
    // for one that the other client does not know.
    let is_strange = theirs.to_string().contains("Unknown authentication plugin");
    if !is_strange {
        assert_eq!(ours.to_string(), theirs.to_string());
    }
    assert_eq!(ours.is_transient(), theirs.is_transient(), "{ours}");
    ours
}

async fn opens(options: MysqlOptions) {
    let what = format!("{} {:?}", options.username, options.tls);
    let opened = MysqlSource::new(options).reader().await;
    if let Err(error) = opened {
        panic!("{what}: {error}");
    }
}

#[tokio::test]
async fn accounts_of_every_kind_log_in() {
    let mut db = Db::new("wire_accounts").await;
    let plugins: Vec<String> = db
        .conn
        .query("SELECT PLUGIN_NAME FROM information_schema.PLUGINS WHERE PLUGIN_TYPE = 'AUTHENTICATION' AND PLUGIN_STATUS = 'ACTIVE'")
        .await
        .unwrap();
    println!("plugins of the server: {plugins:?}");
    for plugin in [
        "caching_sha2_password",
        "sha256_password",
        "mysql_native_password",
    ] {
        if !plugins.iter().any(|active| active == plugin) {
            continue;
        }
        let user = format!("mt_{}", &plugin[..8]);
        db.run(&format!(
            "DROP USER IF EXISTS {user};\nCREATE USER {user} IDENTIFIED WITH {plugin} BY 'geheim ü'"
        ))
        .await;
        for tls in [Tls::Off, Tls::Unverified] {
            // Without the server's cache the password itself is asked for, and then it is not.
            db.run("FLUSH PRIVILEGES").await;
            opens(as_user(&db, &user, "geheim ü", tls)).await;
            opens(as_user(&db, &user, "geheim ü", tls)).await;
            let source = MysqlSource::new(as_user(&db, &user, "falsch", tls));
            let error = source.reader().await.err().unwrap();
            assert!(!error.is_transient(), "{error}");
            assert!(error.to_string().contains("1045"), "{error}");
        }
        db.run(&format!("ALTER USER {user} IDENTIFIED WITH {plugin} BY ''"))
            .await;
        for tls in [Tls::Off, Tls::Unverified] {
            opens(as_user(&db, &user, "", tls)).await;
        }
        db.run(&format!("DROP USER {user}")).await;
    }
}

#[tokio::test]
async fn what_goes_wrong_is_said_as_by_the_other_client() {
    let mut db = Db::new("wire_refused").await;
    db.run("DROP USER IF EXISTS mt_w_one, mt_w_locked;\nCREATE USER mt_w_one IDENTIFIED BY 'p';\nCREATE USER mt_w_locked IDENTIFIED BY 'p' ACCOUNT LOCK").await;
    for tls in [Tls::Off, Tls::Unverified] {
        let error = refused(as_user(&db, "mt_w_one", "wrong", tls)).await;
        assert!(error.advice_text().unwrap().contains("password"));
        refused(as_user(&db, "mt_w_locked", "p", tls)).await;
        refused(as_user(&db, "mt_w_nobody", "p", tls)).await;
    }
    // A certificate that nobody vouches for.
    let error = refused(as_user(&db, "mt_w_one", "p", Tls::Verified)).await;
    assert!(error.to_string().contains("certificate"), "{error}");
    db.run("ALTER USER mt_w_one WITH MAX_USER_CONNECTIONS 1")
        .await;
    let one = as_user(&db, "mt_w_one", "p", Tls::Off);
    let source = MysqlSource::new(one.clone());
    let reader = source.reader().await.unwrap();
    assert!(refused(one.clone()).await.is_transient());
    drop(reader);
    // The connection is closed at once; the server notices a little later.
    let mut open = source.reader().await;
    for _ in 0..100 {
        if open.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        open = source.reader().await;
    }
    drop(open.unwrap());
    let mut nowhere = one.clone();
    nowhere.hosts = Hosts::one("127.0.0.1", 1);
    assert!(refused(nowhere.clone()).await.is_transient());
    nowhere.hosts = Hosts::one("host.invalid", 1);
    refused(nowhere).await;
    // Somebody listens and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = one;
    options.hosts = Hosts::one("127.0.0.1", silent.local_addr().unwrap().port());
    options.connect_timeout = Duration::from_millis(300);
    assert!(refused(options).await.is_transient());
    db.run("DROP USER mt_w_one, mt_w_locked").await;
}

/// What is no MySQL server, and one that closes at once.
#[tokio::test]
async fn servers_that_talk_nonsense_are_refused() {
    let db = Db::new("wire_nonsense").await;
    let greeting = b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0\xff\xff\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0abcdefghijkl\0caching_sha2_password\0";
    for (answer, rest) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &b""[..]),
        (b"", b""),
        (b"\x01\0\0\0", b""),
        (b"\0\0\0\0", b""),
        (b"\x05\0\0\x07abcde", b""),
        (greeting, b""),
        (greeting, b"\x01\0\0\x02\x02"),
        (greeting, b"\x02\0\0\x02\x01\x09"),
        (greeting, b"\x02\0\0\x02\x01\x04\x04\0\0\x04\x01key"),
        (greeting, b"\x01\0\0\x02\xfe"),
        (greeting, b"\x0a\0\0\x02\xfestrange\0x"),
        (greeting, b"\x07\0\0\x02\0\0\0\x02\0\0\0\x03\0\0\x01\xfbab"),
    ] {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut options = as_user(&db, "u", "p", Tls::Off);
        options.hosts = Hosts::one("127.0.0.1", server.local_addr().unwrap().port());
        options.connect_timeout = Duration::from_secs(5);
        let talk = tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut client, _) = server.accept().await.unwrap();
            let _ = client.write_all(answer).await;
            if !rest.is_empty() {
                let _ = client.read(&mut [0; 1000]).await;
                let _ = client.write_all(rest).await;
                let _ = client.read(&mut [0; 1000]).await;
            }
        });
        let source = MysqlSource::new(options);
        let error = source.reader().await.err().unwrap();
        println!("{rest:?}: {error}");
        talk.await.unwrap();
    }
}

/// Reads a table in both ways: by packets, and by the library.
async fn both(source: &MysqlSource, schema: &TableSchema) -> RecordBatch {
    let mut reader = source.reader().await.unwrap();
    let (end, batches) = chunk(&mut reader, schema, &all_of(schema)).await;
    assert_eq!(end, ChunkEnd::Done);
    let ours = concat_batches(&batches[0].schema(), &batches).unwrap();
    let keys: Vec<Vec<String>> = (0..ours.num_rows())
        .map(|row| source.key_of(schema, &ours, row).unwrap())
        .collect();
    let theirs = source.lookup(schema, &keys).await.unwrap();
    assert!(ours == theirs, "{ours:?}\n{theirs:?}");
    ours
}

#[tokio::test]
async fn values_of_every_type_are_those_of_the_library() {
    let mut db = Db::new("wire_types").await;
    db.run(
        "SET SESSION sql_mode = '';
CREATE TABLE t (id INT PRIMARY KEY, i1 TINYINT, u1 TINYINT UNSIGNED, b1 TINYINT(1), i2 SMALLINT, u2 SMALLINT UNSIGNED, i3 MEDIUMINT, u3 MEDIUMINT UNSIGNED, u4 INT UNSIGNED, i8 BIGINT, u8 BIGINT UNSIGNED, f FLOAT, d DOUBLE, dec1 DECIMAL(5,2), dec2 DECIMAL(38,10), dec3 DECIMAL(65,30), bit1 BIT(1), bit9 BIT(9), ch CHAR(9), vc VARCHAR(300), latin VARCHAR(9) CHARACTER SET latin1, tx TEXT, bi BINARY(4), vb VARBINARY(300), bl BLOB, da DATE, dt0 DATETIME, dt6 DATETIME(6), ts0 TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL, ti0 TIME, ti6 TIME(6), ye YEAR, en ENUM('a','b'), se SET('x','y','z'), js JSON, ge GEOMETRY);
INSERT INTO t (id) VALUES (1);
INSERT INTO t VALUES (2, -128, 255, 1, -32768, 65535, -8388608, 16777215, 4294967295, -9223372036854775808, 18446744073709551615, 1.5, -1e300, -999.99, -1234567890123456789012345678.0123456789, 12345678901234567890123456789012345.5, 1, 257, 'ä', REPEAT('€', 100), 'é', REPEAT('x', 70000), x'00AB', REPEAT(x'FF', 251), REPEAT(x'00', 60000), '9999-12-31', '1000-01-01', '2024-02-29 23:59:59.999999', '1970-01-01 00:00:01', '2038-01-19 03:14:07.999', '23:59:59', '12:34:56.000001', 2155, 'b', 'x,z', '{\"a\": [1, null]}', ST_GeomFromText('POINT(1 2)'));
INSERT INTO t VALUES (3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.0, 0, 0, 0, 0, 0, 0, '', '', '', '', '', '', '', '0000-00-00', '0000-00-00', '2024-01-01', '0000-00-00', '0000-00-00', '00:00:00', '00:00:00', 0, '', '', '[]', NULL);
INSERT INTO t (id, dt6, da) SELECT 4 + n, '2024-01-01 10:00:00.000000', '2024-00-10' FROM (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2) AS r",
    )
    .await;
    for tls in [Tls::Off, Tls::Unverified] {
        let mut options = db.options();
        options.tls = tls;
        let source = MysqlSource::new(options);
        let found = source.discover().await.unwrap();
        assert!(found.rejected.is_empty(), "{:?}", found.rejected);
        let rows = both(&source, &found.captured[0]).await;
        assert_eq!((rows.num_rows(), rows.num_columns()), (6, 37));
        assert_eq!(
            rows.column_by_name("tx")
                .unwrap()
                .as_string::<i32>()
                .value(1)
                .len(),
            65_535
        );
    }
}

#[tokio::test]
async fn rows_of_any_length_come_whole() {
    let mut db = Db::new("wire_large").await;
    // Lengths around those at which a packet is another, and all that a server sends.
    let part = 0xFF_FFFF_usize;
    let lengths = [
        0,
        250,
        251,
        65_535,
        65_536,
        200_000,
        part - 40,
        part,
        part + 40,
        2 * part,
        64 << 20,
    ];
    db.run("SET GLOBAL max_allowed_packet = 1073741824").await;
    db.conn = db.session().await;
    db.run("SET sql_log_bin = 0;\nCREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
        .await;
    for (id, length) in lengths.iter().enumerate() {
        // Rows around the boundary itself: the length of the row is that of its value and a few.
        for near in [
            *length,
            length.saturating_sub(9),
            length.saturating_sub(12),
            length.saturating_sub(14),
        ] {
            let key = id * 100 + length - near;
            db.run(&format!("INSERT IGNORE INTO t VALUES ({key}, CONCAT(REPEAT('0123456789abcdef', {}), REPEAT('z', {})))", near / 16, near % 16)).await;
            if *length < part - 40 || *length > 3 * part {
                break;
            }
        }
    }
    for tls in [Tls::Off, Tls::Unverified] {
        let mut options = db.options();
        options.tls = tls;
        let source = MysqlSource::new(options);
        let schema = source.discover().await.unwrap().captured[0].clone();
        let mut reader = source.reader().await.unwrap();
        let mut batches = Vec::new();
        let mut split = all_of(&schema);
        loop {
            let (end, more) = chunk(&mut reader, &schema, &split).await;
            batches.extend(more);
            match end {
                ChunkEnd::Done => break,
                ChunkEnd::More(key) => split.after = Some(key),
            }
        }
        let mut seen = 0;
        for batch in &batches {
            let values = batch.column(1).as_binary::<i32>();
            let ids = batch
                .column(0)
                .as_primitive::<arrow_array::types::Int32Type>();
            // As large as a batch should be, and a row.
            let last = values.value(batch.num_rows() - 1).len();
            assert!(values.value_data().len() - last < 4 << 20);
            for (id, value) in ids.values().iter().zip(values) {
                let (value, id) = (value.unwrap(), *id as usize);
                assert_eq!(value.len(), lengths[id / 100] - id % 100);
                let (whole, rest) = value.split_at(value.len() / 16 * 16);
                assert!(whole.chunks(16).all(|part| part == b"0123456789abcdef"));
                assert!(rest.iter().all(|byte| *byte == b'z'));
                seen += 1;
            }
        }
        assert_eq!(seen, db.numbers("SELECT COUNT(*) FROM t").await[0]);
    }
    db.run("DROP TABLE t").await;
}

/// Numbers of the connections that run a statement on this database's table.
async fn running(db: &mut Db) -> Vec<i64> {
    let sql = format!(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT `id`%{}%'",
        db.name
    );
    db.numbers(&sql).await
}

const LARGE: &str = "SET SESSION cte_max_recursion_depth = 1000000;\nCREATE TABLE t (id INT PRIMARY KEY, pad CHAR(200));\nINSERT INTO t WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 200000) SELECT n, REPEAT('x', 200) FROM r";

#[tokio::test]
async fn a_connection_that_is_killed_is_transient() {
    let mut db = Db::new("wire_killed").await;
    db.run(LARGE).await;
    let mut options = db.options();
    options.chunk_rows = 500_000;
    let source = MysqlSource::new(options);
    let schema = source.discover().await.unwrap().captured[0].clone();
    for kill in ["KILL", "KILL QUERY"] {
        let mut reader = source.reader().await.unwrap();
        let (out, mut batches) = mpsc::channel::<RecordBatch>(1);
        let (table, split) = (schema.clone(), all_of(&schema));
        let read = tokio::spawn(async move { reader.read(&table, &split, &out).await });
        let first = batches.recv().await.unwrap();
        assert!(first.num_rows() > 0);
        let statements = running(&mut db).await;
        assert_eq!(statements.len(), 1, "{statements:?}");
        db.run(&format!("{kill} {}", statements[0])).await;
        while batches.recv().await.is_some() {}
        let error = read.await.unwrap().unwrap_err();
        assert!(error.is_transient(), "{kill}: {error}");
        assert!(
            error.to_string().contains("cannot read a chunk of"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_reader_that_is_dropped_leaves_no_statement_behind() {
    let mut db = Db::new("wire_dropped").await;
    db.run(LARGE).await;
    let mut options = db.options();
    options.chunk_rows = 500_000;
    let source = MysqlSource::new(options);
    let schema = source.discover().await.unwrap().captured[0].clone();
    let mut reader = source.reader().await.unwrap();
    let (out, mut batches) = mpsc::channel::<RecordBatch>(1);
    let split = all_of(&schema);
    tokio::select! {
        end = reader.read(&schema, &split, &out) => panic!("{end:?}"),
        first = batches.recv() => assert!(first.unwrap().num_rows() > 0),
    }
    assert_eq!(running(&mut db).await.len(), 1);
    // Used again it does not take what is left of the old rows for an answer.
    let error = reader.read(&schema, &split, &out).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    drop(reader);
    for _ in 0..100 {
        if running(&mut db).await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the statement still runs");
}
