//! A MariaDB server, `HEADWATER_TEST_MARIADB`, is refused by its name and version, not by whichever
//! statement it does not know.

use headwater_connectors::{CheckStatus, Source};

use crate::server::Db;

#[tokio::test]
#[ignore = "needs HEADWATER_TEST_MARIADB, a MariaDB server"]
async fn mariadb_is_refused_by_name() {
    let mut db = Db::on("HEADWATER_TEST_MARIADB", "mariadb").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let source = db.source();
    let checks = source.check().await;
    assert_eq!(checks.len(), 1, "{checks:?}");
    let (check, named) = (&checks[0], "this server is MariaDB (1");
    assert!(
        check.status == CheckStatus::Failed && check.found.contains(named),
        "{check:?}"
    );
    assert!(check.advice.as_deref().unwrap().contains("MySQL server"));
    let discovered = source.discover().await.unwrap_err();
    // Chunks and the log are read by a client of their own.
    let read = source.reader().await.err().unwrap();
    for error in [discovered, read] {
        assert!(
            !error.is_transient() && error.to_string().contains(named),
            "{error}"
        );
    }
}
