//! No secret in any message, whatever is wrong with the file.

use super::*;

const SECRET: &str = "hunter2";

/// Everything that is said of a file.
fn said(text: &str) -> String {
    let environment = Fixed {
        variables: [("PW", SECRET)].into(),
        files: [("/pw", SECRET)].into(),
    };
    match parse("shop.yaml", text, &environment) {
        Ok(job) => format!("{job:?}"),
        Err(error) => format!("{error}\n{error:?}"),
    }
}

#[test]
fn a_job_does_not_show_its_password() {
    for value in [SECRET, "${PW}", "${file:/pw}", "${NO:-hunter2}"] {
        let text = minimal("", "", "").replace("password: p", &format!("password: {value}"));
        let said = said(&text);
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[test]
fn no_broken_password_is_shown() {
    let values = [
        "hunter2: x",
        "\"hunter2",
        "'hunter2",
        "[hunter2",
        "[hunter2]",
        "{hunter2: hunter2}",
        "*hunter2",
        "&hunter2 hunter2",
        "!hunter2 x",
        "@hunter2",
        "`hunter2",
        "%hunter2",
        "hunter2 ${NOPE}",
        "hunter2${",
        "${hunter2",
        "|\n    hunter2\n   hunter2",
        "\"a\n    hunter2: b\n  c",
        "\"a\n  hunter2\n\" x",
        "hunter2\n  password: hunter2",
        "hunter2\n    port: hunter2",
        "\thunter2",
        "'hunter2' hunter2",
    ];
    for value in values {
        let text = minimal("", "", "").replace("password: p", &format!("password: {value}"));
        let said = said(&text);
        // A file that names the secret as a variable shows that name; it is no value.
        let allowed = value == "${hunter2";
        assert!(allowed || !said.contains(SECRET), "{value}\n{said}");
    }
}

#[test]
fn secrets_in_flow_style_and_in_properties() {
    let texts = [
        format!("source: {{type: mysql, password: {SECRET}, prot: 1, hostname: h}}\n{SINK}"),
        format!("source: {{type: mysql, \"password\": {SECRET}, tables: [}}\n{SINK}"),
        minimal(&format!("  debezium.database.password: {SECRET}\n"), "", ""),
        minimal(
            &format!("  jdbc.properties.trustCertificateKeyStorePassword: {SECRET}\n"),
            "",
            "",
        ),
        minimal(
            "",
            &format!("  catalog.properties.s3.secret-key: {SECRET}\n"),
            "",
        ),
        minimal(
            "",
            &format!("  catalog.properties.s3.access-key: {SECRET}\n"),
            "",
        ),
        minimal("", "", &format!("my.token: {SECRET}\n")),
        minimal(
            "",
            "",
            &format!("pipeline:\n  model:\n    - openai.apikey: {SECRET}\n      x: [\n"),
        ),
    ];
    for text in texts {
        let said = said(&text);
        assert!(!said.contains(SECRET), "{text}\n{said}");
        assert!(said.contains("shop.yaml"), "not refused: {text}");
    }
}

#[test]
fn the_line_of_a_secret_is_shown_without_it() {
    let text = minimal("", "", "").replace("password: p", "password: [hunter2]");
    assert_eq!(
        read(&text).unwrap_err().to_string(),
        "`source.password` must be a single value\n  --> shop.yaml:5:13\n   |\n \
         5 |   password: ***\n   |             ^"
    );
}
